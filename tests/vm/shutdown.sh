#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#: boot=small mem=1G disks=160M,128M timeout=200
#
# Volumes that are shut down while in use: everybody is told the same as under ext4, they can be
# unmounted, and the next mount finds what the way of shutting down promises. And other commands to
# open files.
. "$(dirname "$0")/lib.sh"

dev=/dev/vdc

# shut FILESYSTEM HOW: a volume shut down in that way; what was said is in the file $FILESYSTEM.
shut() {
	blocks=16384 fresh $dev -b 1024
	up $dev rw "$1"
	"$tool" shut-down $dir --how "$2" >"$scratch/$1"
	if grep -q " $dir .*shutdown" /proc/mounts; then
		echo 'shown in /proc/mounts' >>"$scratch/$1"
	fi
	for mode in ro rw; do
		echo "remount $mode: $(mount -o remount,$mode $dir 2>&1 | grep -o 'read-only\|I/O error')"
	done >>"$scratch/$1"
}

for how in 0 1 2; do
	name=shutdown-$how
	shut ext4 $how
	umount $dir
	shut "$FS" $how
	same "$name-answers" "$scratch/ext4" "$scratch/$FS"
	check "$name-umount" timeout 30 umount $dir || exit 1
	dumpe2fs -h $dev 2>/dev/null | grep '^Filesystem state' >"$scratch/state"
	check "$name-state" grep -q 'clean$' "$scratch/state"
	up $dev
	check "$name-left" "$tool" shut-down-left $dir --how $how
	down "$name" $dev
done

# Somebody works meanwhile.
for how in 0 1 2; do
	name=shutdown-busy-$how
	blocks=16384 fresh $dev -b 1024
	up $dev
	"$tool" storm $dir --threads 4 --seconds 4 --failing >/dev/null &
	sleep 2
	"$tool" shut-down-now $dir --how $how
	wait $!
	check "$name-umount" timeout 30 umount $dir || exit 1
	up $dev
	down "$name" $dev
done

blocks=16384 fresh $dev -b 1024 -L old
up $dev
check label-read test "$("$tool" label $dir)" = old
check label-set "$tool" label $dir --set 'sixteen letters!'
check label-set-read test "$("$tool" label $dir)" = 'sixteen letters!'
check label-too-long sh -c "! '$tool' label $dir --set 'seventeen letters'"
"$tool" generations $dir >"$scratch/is"
down label $dev
check label-on-disk test "$(blkid -p -o value -s LABEL $dev)" = 'sixteen letters!'
check label-in-copies grep -q 'sixteen letters!' <(dumpe2fs -h -o superblock=8193 $dev 2>/dev/null)
fresh $dev
up $dev rw ext4
"$tool" generations $dir >"$scratch/want"
umount $dir
same generation "$scratch/want" "$scratch/is"
fresh $dev -O ^metadata_csum
up $dev
check generation-set grep -q 'set: done' <("$tool" generations $dir)
down generation $dev
finish
