#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#: boot=small mem=1G disks=160M,128M timeout=200
#
# Names added to directories that ext4 made: indexed ones, and ones with gaps.
. "$(dirname "$0")/lib.sh"

dev=/dev/vdb

# round NAME BLOCK-SIZE NAMES
round() {
	local name=$1 names=$3
	fresh $dev -b "$2"
	up $dev rw ext4
	"$tool" many $dir/indexed --seed 7 --count "$names"
	mkdir $dir/gaps
	(cd $dir/gaps && touch {1..20}-name-of-some-length && rm {1..20..3}-*)
	umount $dir

	up $dev
	check "$name-add" "$tool" add $dir/indexed --seed 7 --count "$names" --more 1500
	check "$name-add-to-gaps" "$tool" add $dir/gaps --seed 7 --count 0 --more 300
	down "$name" $dev

	# ext4 finds them all, and goes on where ext4rs stopped.
	up $dev rw ext4
	check "$name-added" "$tool" added $dir/indexed --seed 7 --count "$names" --more 1500
	check "$name-added-to-gaps" "$tool" added $dir/gaps --seed 7 --count 0 --more 300
	rm -r $dir/gaps
	rm -r $dir/indexed/*7*
	"$tool" many $dir/others --seed 3 --count 500
	down "$name-ext4-goes-on" $dev
}

round directories-1k 1024 3000
round directories-4k 4096 5000
finish
