#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#: mem=1G disks=96M timeout=400
#
# What is done to a volume while many use it: it is frozen and thawed, made read-only, its device
# fails, or an error is found. Nobody waits for ever, it can be unmounted, and afterwards it is whole.
. "$(dirname "$0")/lib.sh"

modprobe dm-flakey
# There is no udev that makes the nodes of devices.
export DM_DISABLE_UDEV=1
sectors=$(blockdev --getsz /dev/vdb)
good="0 $sectors linear /dev/vdb 0"
device=/dev/mapper/load
dmsetup create load --table "$good"

# prepare OPTIONS MKE2FS-OPTION...: a volume with a file.
prepare() {
	local options=$1
	shift
	fresh $device "$@"
	up $device "$options"
	dd if=/dev/urandom of=/tmp/kept bs=100K count=10 status=none
	dd if=/tmp/kept of=$dir/kept conv=fsync status=none
	sync -f $dir
}

# begin SECONDS OPTIONS MKE2FS-OPTION...: such a volume, that many use for so long.
begin() {
	local seconds=$1
	shift
	prepare "$@"
	"$tool" storm $dir --threads 6 --seconds "$seconds" --seed "$seconds" --failing \
		>"$scratch/storm" 2>&1 &
	storm=$!
	sleep 1
}

# over NAME: they all come back.
over() {
	check "$1-over" timeout 60 tail --pid=$storm -f /dev/null
	wait $storm || not_ok "$1-storm" "$(tail -n 1 "$scratch/storm")"
	grep '^#' "$scratch/storm"
}

# whole NAME: it can be unmounted; the device is well again, and the volume, too.
whole() {
	check "$1-umount" timeout 60 umount $dir || exit 1
	turn load "$good"
	up $device
	same "$1-kept" /tmp/kept $dir/kept
	timeout 60 umount $dir
	# Errors that were noted want a check; it finds nothing to do.
	e2fsck -fp $device >/dev/null
	fsck "$1" $device
}

freeze() {
	local i
	begin 6 rw -b 1024
	for i in 1 2 3 4 5 6 7 8; do
		timeout 30 fsfreeze -f $dir || not_ok load-freeze "no. $i"
		# A frozen volume is one that needs no recovery.
		if [ "$i" = 3 ]; then
			e2fsck -fn $device >"$scratch/frozen" 2>&1 || {
				tail -n 5 "$scratch/frozen"
				not_ok load-frozen "it is not whole"
			}
		fi
		sleep 0.2
		timeout 30 fsfreeze -u $dir || not_ok load-thaw "no. $i"
		sleep 0.2
	done
	over load-freeze
	whole load-freeze
}

remount() {
	prepare rw -b 4096
	check load-remount timeout 200 "$tool" remount $device $dir --threads 6 --count 12 --seed 8
	whole load-remount
}

# failing NAME OPTIONS TABLE: the device is like this for a while, and for good.
failing() {
	local name=$1 options=$2 table=$3 block
	for block in 1024 4096; do
		begin 5 "$options" -b $block
		turn load "$table"
		sleep 2
		echo 3 >/proc/sys/vm/drop_caches
		over "$name-${block:0:1}k"
		check "$name-${block:0:1}k-sync" timeout 30 sh -c "sync -f $dir; true"
		whole "$name-${block:0:1}k"
	done
}

freeze
remount
failing load-no-writes errors=remount-ro "0 $sectors flakey /dev/vdb 0 0 100 1 error_writes"
failing load-no-writes-continue errors=continue "0 $sectors flakey /dev/vdb 0 0 100 1 error_writes"
failing load-nothing errors=remount-ro "0 $sectors error"
dmsetup remove load
finish
