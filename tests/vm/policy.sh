#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#: boot=small mem=1G disks=160M,128M timeout=120
#
# What follows an error that was found (errors=continue and errors=remount-ro), and how data that
# replaces other data gets to the disk (auto_da_alloc): as under ext4.
. "$(dirname "$0")/lib.sh"

dev=/dev/vdc

# damaged BLOCKSIZE: a volume with a directory whose block is bad.
damaged() {
	local block
	blocks=16384 fresh $dev -b "$1"
	up $dev rw ext4
	mkdir $dir/bad $dir/good
	touch $dir/bad/name
	echo data >$dir/good/file
	umount $dir
	block=$(debugfs -R 'bmap /bad 0' $dev 2>/dev/null)
	printf x | dd of=$dev bs=1 seek=$((block * $1 + 20)) conv=notrunc status=none
}

# tried COMMAND...: what is said, less what names the program.
tried() {
	local said
	if said=$(LC_ALL=C "$@" 2>&1); then
		echo "$*: $said"
	else
		echo "$*: fails: ${said##*: }"
	fi
}

# used FILESYSTEM POLICY
used() {
	damaged 1024
	up $dev "errors=$2" "$1"
	tried ls $dir/bad
	tried cat $dir/good/file
	tried sh -c "echo more >>$dir/good/file"
	tried mkdir $dir/good/new
	tried mv $dir/good/file $dir/good/other
	tried rm $dir/good/other
	tried sh -c "echo new >$dir/good/next && cat $dir/good/next"
	tried sync -f $dir/good
	grep " $dir " /proc/mounts | tr , '\n' | grep -E '^(rw|ro|emergency_ro)$'
	tried mount -o remount,rw $dir
	tried mount -o remount,ro $dir
	timeout 30 umount $dir || echo 'not unmounted'
	dumpe2fs -h $dev 2>/dev/null | grep -E '^(Filesystem state|FS Error count|First error (function|inode))' |
		grep -v function
}

for policy in continue remount-ro; do
	used ext4 $policy >"$scratch/want"
	used "$FS" $policy >"$scratch/is"
	same "policy-$policy" "$scratch/want" "$scratch/is"
	e2fsck -fy $dev >/dev/null 2>&1
	fsck "policy-$policy" $dev
done

# delayed FILE: how many blocks wait for a place.
delayed() { filefrag -v "$1" | grep -c delalloc; }

# replaced FILESYSTEM OPTION
replaced() {
	fresh $dev
	up $dev "$2" "$1"
	dd if=/dev/zero of=$dir/old bs=100K count=1 status=none
	sync -f $dir
	dd if=/dev/zero of=$dir/new bs=100K count=1 status=none
	echo "new: $(delayed $dir/new)"
	mv $dir/new $dir/old
	echo "renamed over: $(delayed $dir/old)"
	sync -f $dir
	dd if=/dev/zero of=$dir/old bs=50K count=1 status=none
	echo "truncated and written: $(delayed $dir/old)"
	touch $dir/empty
	dd if=/dev/zero of=$dir/empty bs=50K count=1 status=none
	echo "empty before: $(delayed $dir/empty)"
	dd if=/dev/zero of=$dir/next bs=50K count=1 status=none
	echo "new: $(delayed $dir/next)"
	grep " $dir " /proc/mounts | tr , '\n' | grep da_alloc
	umount $dir
}

for option in auto_da_alloc noauto_da_alloc auto_da_alloc=0; do
	replaced ext4 $option >"$scratch/want"
	replaced "$FS" $option >"$scratch/is"
	same "policy-$option" "$scratch/want" "$scratch/is"
done
finish
