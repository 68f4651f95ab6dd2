#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#: mem=1G disks=64M timeout=60 panic=ok
#
# With errors=panic the machine stops at the first error.
. "$(dirname "$0")/lib.sh"

fresh /dev/vdb -b 1024
up /dev/vdb rw ext4
mkdir $dir/bad
umount $dir
block=$(debugfs -R 'bmap /bad 0' /dev/vdb 2>/dev/null)
printf x | dd of=/dev/vdb bs=1 seek=$((block * 1024 + 20)) conv=notrunc status=none
up /dev/vdb errors=panic
check panic-before-an-error ls $dir
sync
ls $dir/bad
not_ok panic "the machine goes on"
finish
