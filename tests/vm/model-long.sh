#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#: mem=1G disks=256M,256M,256M,256M timeout=14400 long=yes
#
# As model.sh, with more seeds.
. "$(dirname "$0")/lib-model.sh"

seeds "${SEED:-5}" "${SEEDS:-20}"
finish
