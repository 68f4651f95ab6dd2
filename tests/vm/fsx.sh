#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#: mem=1G disks=256M,256M,256M timeout=900
#
# 100,000 random operations on files with blocks of each size: what is read is what was written.
. "$(dirname "$0")/lib.sh"

config=$PWD/$(dirname "$0")/fsx.toml

# exercise DEVICE BLOCK-SIZE: four files one after the other, a quarter of the operations each.
exercise() {
	local name=fsx-$(($2 / 1024))k seed
	dir=/mnt/$name
	mkdir -p "$dir" "$scratch/$name"
	scratch=$scratch/$name
	fresh "$1" -b "$2"
	up "$1"
	for seed in 1 2 3 4; do
		check "$name-$seed" fsx -f "$config" -N "${OPERATIONS:-25000}" -S "$seed" \
			-P "$WORK" "$dir/file-$seed"
	done
	down "$name" "$1"
}

# All sizes at once: each waits for its disk half of the time.
exercise /dev/vdb 1024 &
exercise /dev/vdc 2048 &
exercise /dev/vdd 4096 &
wait
finish
