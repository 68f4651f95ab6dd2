#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#: mem=1G disks=256M,256M,256M,256M timeout=2400
#
# Random operations on a volume and on its twin under ext4 give the same answers, files and contents
# after each step. Deliberate differences are found. What once was different is not any more:
# model/*.ops, each the least that showed it.
. "$(dirname "$0")/lib-model.sh"

both "--lies" "$(echo "$(dirname "$0")"/model/*.ops)"
seeds "${SEED:-1}" "${SEEDS:-4}"
finish
