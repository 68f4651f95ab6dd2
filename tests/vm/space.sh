#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#: boot=small mem=1G disks=160M,128M timeout=200
#
# Full volumes: no space is said when something is written, and nothing that was written is lost.
. "$(dirname "$0")/lib.sh"

dev=/dev/vdc

# kept NAME: what is in memory is what is on the disk.
kept() {
	sync
	"$tool" manifest $dir >"$scratch/is"
	down "$1" $dev
	up $dev ro ext4
	"$tool" manifest $dir >"$scratch/want"
	umount $dir
	same "$1-on-disk" "$scratch/want" "$scratch/is"
}

for block in 1024 4096; do
	name=space-$((block / 1024))k
	blocks=$((24 * 1024 * 1024 / block)) fresh $dev -b $block
	up $dev
	cases "$tool" full $dir --prefix "$name/"
	kept "$name"

	for part in fragments reserve; do
		blocks=$((16 * 1024 * 1024 / block)) fresh $dev -b $block
		up $dev
		check "$name-$part" "$tool" $part $dir
		kept "$name-$part"
	done

	blocks=$((16 * 1024 * 1024 / block)) fresh $dev -b $block -N 300
	up $dev
	check "$name-inodes" "$tool" inodes $dir
	kept "$name-inodes"
done
finish
