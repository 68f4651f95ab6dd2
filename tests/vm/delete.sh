#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#: mem=1G disks=256M,256M,256M timeout=500
#
# Files that are cut short and files that go: what is left is right, the space comes back, and what
# was under way when the machine stopped is finished by the next mount.
. "$(dirname "$0")/lib.sh"

counts() { dumpe2fs -h "$1" 2>/dev/null | grep -E '^Free (blocks|inodes):'; }

# shrunk NAME MKE2FS-OPTION...: the tests of the program; under ext4 everything is the same afterwards.
shrunk() {
	local name=$1
	shift
	fresh /dev/vdb "$@"
	up /dev/vdb
	mkdir $dir/cut
	cases "$tool" shrink $dir/cut --prefix "$name/"
	sync
	"$tool" manifest $dir >"$scratch/is"
	down "$name" /dev/vdb
	up /dev/vdb ro ext4
	"$tool" manifest $dir >"$scratch/want"
	umount $dir
	same "$name-on-disk" "$scratch/want" "$scratch/is"
}

# stopped NAME COMMAND...: runs the program on a new volume, and copies the disk to another, as it
# is, at a moment when no request is under way: what a loss of power leaves of it.
stopped() {
	local name=$1 pid
	shift
	up "$cut"
	"$tool" "$@" >"$scratch/said" <"$scratch/input" &
	pid=$!
	exec 9>"$scratch/input"
	until grep -q ready "$scratch/said"; do
		kill -0 $pid 2>/dev/null || break
		sleep 0.1
	done
	sleep "0.$((RANDOM % 10))"
	dmsetup suspend --noudevsync --noflush --nolockfs cut
	"$tool" copy /dev/vdb /dev/vdc
	dmsetup resume --noudevsync cut
	kill $pid
	wait $pid 2>/dev/null
	exec 9>&-
	down "$name-went-on" "$cut"
}

# recovered NAME OPTIONS PATTERN: mounting the copy finishes what was under way.
recovered() {
	local name=$1
	mark
	up /dev/vdc "$2"
	if [ -z "$3" ] || said "$3"; then
		ok "$name-said # $(since_mark | grep -oE '[0-9]+ (orphan|truncate).*' | tr '\n' ' ')"
	else
		since_mark | tail -n 5 | sed 's/^/# /'
		not_ok "$name-said" "nothing like '$3'"
	fi
	down "$name" /dev/vdc
}

for block in 1024 4096; do
	shrunk "delete-$((block / 1024))k" -b $block
done
shrunk delete-list -b 1024 -O ^orphan_file

modprobe -q dm-mod
mkfifo "$scratch/input"
dmsetup create cut --noudevsync --table "0 $(blockdev --getsz /dev/vdb) linear /dev/vdb 0"
cut=/dev/dm-$(dmsetup info -c --noheadings -o minor cut)
for feature in orphan_file ^orphan_file; do
	name=delete-${feature/^/no-}
	# A small log, so that a cut takes several transactions.
	fresh "$cut" -b 1024 -O $feature -J size=1
	counts "$cut" >"$scratch/before"
	stopped "$name-open" hold $dir --count 40 --bytes 50000
	counts "$cut" >"$scratch/after"
	same "$name-open-free" "$scratch/before" "$scratch/after"
	"$tool" copy /dev/vdc /dev/vdd
	recovered "$name-open" rw '40 orphan inodes deleted'
	counts /dev/vdc >"$scratch/after"
	same "$name-open-again-free" "$scratch/before" "$scratch/after"
	"$tool" copy /dev/vdd /dev/vdc
	recovered "$name-open-ro" ro '40 orphan inodes deleted'
	for round in 1 2 3 4; do
		fresh "$cut" -b 1024 -O $feature -J size=1
		stopped "$name-cut-$round" cut $dir --count 3000
		recovered "$name-cut-$round" rw ''
	done
done
dmsetup remove --noudevsync cut
finish
