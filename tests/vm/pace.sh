#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#: mem=2G disks=2G,2G timeout=900
#
# 100,000 files in one directory are made, found, listed and removed about as fast as by ext4.
. "$(dirname "$0")/lib.sh"

for device in vdb vdc; do
	mkdir -p /mnt/$device
	fresh /dev/$device -E lazy_itable_init=0
done
dir=/mnt/vdb
up /dev/vdb noatime
dir=/mnt/vdc
up /dev/vdc noatime ext4
cases "$tool" pace /mnt/vdb /mnt/vdc --count "${FILES:-100000}" --seed 1 --limit 130 --prefix pace-
umount /mnt/vdc
dir=/mnt/vdb
down pace /dev/vdb
finish
