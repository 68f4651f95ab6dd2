#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#: boot=small mem=1G disks=160M,128M timeout=100
#
# What is not built yet says EOPNOTSUPP and changes nothing. Under ext4 each call succeeds: it is
# a right call.
. "$(dirname "$0")/lib.sh"

fresh /dev/vdc
up /dev/vdc
allowed=()
is_ext4rs || allowed=(--allowed)
cases "$tool" refused "$dir" --prefix refused/ "${allowed[@]}"
down refused /dev/vdc
finish
