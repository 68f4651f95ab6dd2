#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#: mem=1G disks=200M timeout=200
#
# A device that fails: whoever asked for stable storage is told, nobody waits for ever, and the
# volume is whole when the device is.
. "$(dirname "$0")/lib.sh"

modprobe dm-flakey
# There is no udev that makes the nodes of devices.
export DM_DISABLE_UDEV=1
sectors=$(blockdev --getsz /dev/vdb)
good="0 $sectors linear /dev/vdb 0"
device=/dev/mapper/errors

fail_writes() { turn errors "0 $sectors flakey /dev/vdb 0 0 100 1 error_writes"; }

# refused NAME COMMAND...: it ends soon, and fails.
refused() {
	local name=$1 status
	shift
	timeout 30 "$@" >/dev/null 2>&1
	status=$?
	case $status in
	0) not_ok "$name" "it succeeded" ;;
	124) not_ok "$name" "it hangs" ;;
	*) ok "$name" ;;
	esac
}

# begin OPTION...: a volume with a file on it.
begin() {
	fresh $device "$@"
	up $device
	mkdir $dir/a
	dd if=/dev/urandom of=/tmp/kept bs=100K count=10 status=none
	dd if=/tmp/kept of=$dir/a/kept conv=fsync status=none
}

# whole NAME: the device is well again, and the volume, too.
whole() {
	check "$1-umount" timeout 30 umount $dir || exit 1
	turn errors "$good"
	up $device
	same "$1-kept" /tmp/kept $dir/a/kept
	umount $dir
	# Errors that were noted want a check; it finds nothing to do.
	e2fsck -fp $device >/dev/null
	fsck "$1" $device
}

dmsetup create errors --table "$good"
for block in 1024 4096; do
	name=errors-$((block / 1024))k

	begin -b "$block"
	fail_writes
	refused "$name-fsync" dd if=/dev/zero of=$dir/a/new bs=64k count=10 conv=fsync
	refused "$name-overwritten" dd if=/dev/zero of=$dir/a/kept bs=4k count=1 conv=fsync,notrunc
	refused "$name-syncfs" sync -f $dir
	refused "$name-mkdir" mkdir $dir/b
	whole "$name-writes"

	begin -b "$block"
	turn errors "0 $sectors error"
	echo 3 >/proc/sys/vm/drop_caches
	refused "$name-read" cat $dir/a/kept
	refused "$name-list" ls -lR $dir
	refused "$name-all" dd if=/dev/zero of=$dir/a/new bs=64k count=10 conv=fsync
	whole "$name-all"

	# Whoever waits for the thaw is let go, whatever the device says.
	begin -b "$block"
	fsfreeze -f $dir
	mkdir $dir/b 2>/dev/null &
	fail_writes
	timeout 30 fsfreeze -u $dir
	check "$name-thaw" timeout 30 tail --pid=$! -f /dev/null
	refused "$name-thawed" mkdir $dir/c
	whole "$name-thaw"

	# A device that has become read-only.
	begin -b "$block"
	blockdev --setro $device
	check "$name-remount" timeout 30 mount -o remount,ro $dir
	check "$name-readable" cmp /tmp/kept $dir/a/kept
	blockdev --setrw $device
	whole "$name-remount"
done
dmsetup remove errors
finish
