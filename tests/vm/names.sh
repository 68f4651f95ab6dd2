#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#: mem=1G disks=256M,256M timeout=300
#
# Names are made, linked, moved and removed as ext4 does it, answer for answer; what is left on the
# disk is consistent and the same.
. "$(dirname "$0")/lib.sh"

# round NAME SEED MKE2FS-OPTION...
round() {
	local name=$1 seed=$2
	shift 2
	fresh /dev/vdb "$@"
	fresh /dev/vdc "$@"
	up /dev/vdb
	check "$name-run" sh -c "'$tool' names $dir --seed $seed --count 3000 >/tmp/is"
	"$tool" manifest $dir >/tmp/left
	if is_ext4rs || [ "$name" != names-plain ]; then
		down "$name" /dev/vdb
	else
		# In a block that was something else before, ext4 leaves what is where the types of `.` and
		# `..` would be, and e2fsck complains.
		umount $dir
	fi
	up /dev/vdc rw ext4
	"$tool" names $dir --seed "$seed" --count 3000 >/tmp/want
	umount $dir
	same "$name-transcript" /tmp/want /tmp/is
	up /dev/vdb ro ext4
	"$tool" manifest $dir >/tmp/found
	same "$name-on-disk" /tmp/left /tmp/found
	umount $dir
}

round names-1k 1 -b 1024
round names-4k 2 -b 4096 -O ^orphan_file
round names-plain 3 -b 1024 -O ^dir_index,^metadata_csum,^filetype

finish
