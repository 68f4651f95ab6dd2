#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#: boot=small mem=1G disks=160M,128M timeout=200
#
# Files are found by handles, as NFS finds them: with and without memory of them, after a mount, and
# on the other filesystem. Handles that are made up find nothing, and nobody complains.
. "$(dirname "$0")/lib.sh"

for block in 1024 4096; do
	name=handles-$((block / 1024))k
	fresh /dev/vdc -b "$block"
	up /dev/vdc
	mark
	cases "$tool" handles $dir --prefix "$name/"
	said 'EXT4.*(error|warning)' && not_ok "$name-quiet" "$(since_mark | grep EXT4 | tail -n 1)"
	"$tool" handle-list $dir >/tmp/handles
	down "$name" /dev/vdc
	up /dev/vdc
	check "$name-after-a-mount" "$tool" handle-find $dir /tmp/handles
	umount $dir
	up /dev/vdc ro ext4
	check "$name-on-ext4" "$tool" handle-find $dir /tmp/handles
	umount $dir
done
finish
