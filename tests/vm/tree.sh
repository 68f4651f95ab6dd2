#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#: mem=1G disks=2G,2G timeout=600
#
# A tree written through ext4rs by several writers at once is there, byte for byte and to the
# nanosecond, under the kernel's own ext4.
. "$(dirname "$0")/lib.sh"

# ext4 changes what ext4rs made.
go_on() {
	rm -r "$dir"/tree/d1* "$dir/tree/deep/0/1/2/3" &&
		mv "$dir/tree/wide" "$dir/tree/d02/moved" &&
		truncate -s 12345 "$dir/tree/fragmented" &&
		"$tool" populate "$dir/other" --files 20 --bytes 3M --fragments 100 &&
		"$tool" verify "$dir/other" --files 20 --bytes 3M --fragments 100
}

# round NAME DEVICE BLOCK-SIZE LAZY TREE-OPTION...
round() {
	local name=$1 device=$2 block=$3 lazy=$4
	shift 4
	fresh "$device" -b "$block" -E "lazy_itable_init=$lazy,nodiscard"
	up "$device" noatime
	check "$name-populate" "$tool" populate $dir/tree "$@"
	down "$name" "$device"
	check "$name-depth" sh -c "debugfs -R 'ex /tree/fragmented' $device 2>/dev/null | grep -q '/ 2 '"
	up "$device" noatime ext4
	check "$name-verify" "$tool" verify $dir/tree "$@"
	check "$name-ext4-goes-on" go_on
	down "$name-ext4-goes-on" "$device"
}

# What is on the disk before is no zeros: an uninitialised inode table, or a block that is shown
# without having been written, shows.
"$tool" fill /dev/vdc
round tree-1k /dev/vdc 1024 1 --seed 1 --files 2000 --bytes 1G --fragments 3000
round tree-4k /dev/vdb 4096 0 --seed 2 --files 2000 --bytes 1G --fragments 3000
round tree-2k /dev/vdc 2048 1 --seed 3 --files 300 --bytes 48M --fragments 2000
finish
