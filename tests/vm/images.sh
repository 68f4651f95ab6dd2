#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#: mem=1G disks=12M,16M timeout=600
#
# Damaged volumes, read and used in every way: errors or the right data, a kernel that stays well, and
# no task that hangs.
. "$(dirname "$0")/lib.sh"

own=()
if is_ext4rs; then own=(--own); fi
# Small, but with groups enough: two of 8 MiB at blocks of 1 KiB, four at 4 KiB.
fresh /dev/vdb -b 1024 -N 512
cases "$tool" images /dev/vdb $dir --fs "$FS" --count 200 --seed 1 --prefix images-1k/ "${own[@]}"
fresh /dev/vdc -b 4096 -N 512 -g 1024
cases "$tool" images /dev/vdc $dir --fs "$FS" --count 200 --seed 2 --prefix images-4k/ "${own[@]}"
finish
