#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#: mem=1G disks=24M,160M timeout=400
#
# Volumes that are filled and emptied time and again, and names that many use at once: no space is
# lost, nobody waits for ever, and what is left is consistent.
. "$(dirname "$0")/lib.sh"

counts() { dumpe2fs -h "$1" 2>/dev/null | grep -E '^Free (blocks|inodes):'; }

# rounds NAME MKE2FS-OPTION...: 20 of them; after every five the volume is looked at from outside.
rounds() {
	local name=$1 part many=4
	# Of four writers on ext4 one was found to have lost what it had synced.
	is_ext4rs || many=2
	shift
	fresh /dev/vdb "$@"
	up /dev/vdb
	umount $dir
	counts /dev/vdb >"$scratch/before"
	for part in 1 2 3 4; do
		up /dev/vdb
		check "$name-$part" "$tool" rounds $dir --rounds 5 --writers $((part == 4 ? many : 2)) --seed $part
		down "$name-$part" /dev/vdb
		counts /dev/vdb >"$scratch/after"
		same "$name-$part-free" "$scratch/before" "$scratch/after"
	done
}

# storm NAME SECONDS MKE2FS-OPTION...
storm() {
	local name=$1 seconds=$2
	shift 2
	fresh /dev/vdc "$@"
	up /dev/vdc "${how:-rw}"
	check "$name" timeout $((seconds + 60)) "$tool" storm $dir --threads 8 --seconds "$seconds" \
		--seed "$seconds" --cold
	"$tool" manifest $dir >"$scratch/is"
	down "$name" /dev/vdc
	up /dev/vdc ro ext4
	"$tool" manifest $dir >"$scratch/want"
	umount $dir
	same "$name-on-disk" "$scratch/want" "$scratch/is"
}

blocks=12288 rounds rounds-1k -b 1024 -J size=1
rounds rounds-4k -b 4096 -N 300
# On the second one there is space for hardly more than the names.
storm storm-1k 60 -b 1024
blocks=3000 storm storm-4k 15 -b 4096 -O ^orphan_file -N 64
# Each removal waits for its commit, and numbers are scarce: they are used again while those that had
# them are still on their way out of memory.
how=sync blocks=16384 storm storm-sync 12 -b 4096 -N 128
finish
