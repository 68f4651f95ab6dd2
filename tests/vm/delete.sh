#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#: mem=1G disks=160M,64M,64M,64M timeout=400
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

# stopped NAME SECONDS COMMAND...: runs the program on a new volume, and copies the disk to another,
# as it is so long after the program was ready, when no request is under way: what a loss of power
# leaves of it.
stopped() {
	local name=$1 delay=$2 pid
	shift 2
	up "$cut"
	"$tool" "$@" >"$scratch/said" <"$scratch/input" &
	pid=$!
	exec 9>"$scratch/input"
	until grep -q ready "$scratch/said"; do
		kill -0 $pid 2>/dev/null || break
		sleep 0.01
	done
	sleep "$delay"
	dmsetup suspend --noudevsync --noflush --nolockfs cut
	"$tool" copy /dev/vdc /dev/vdd
	dmsetup resume --noudevsync cut
	kill $pid 2>/dev/null
	wait $pid 2>/dev/null
	exec 9>&-
	down "$name-went-on" "$cut"
}

# recovered NAME OPTIONS PATTERN: mounting the copy finishes what was under way.
recovered() {
	local name=$1
	mark
	up /dev/vdd "$2"
	if [ -z "$3" ] || said "$3"; then
		ok "$name-said # $(since_mark | grep -oE '[0-9]+ (orphan|truncate).*' | tr '\n' ' ')"
	else
		since_mark | tail -n 5 | sed 's/^/# /'
		not_ok "$name-said" "nothing like '$3'"
	fi
	down "$name" /dev/vdd
}

for block in 1024 4096; do
	shrunk "delete-$((block / 1024))k" -b $block
done
shrunk delete-list -b 1024 -O ^orphan_file

modprobe -q dm-delay
mkfifo "$scratch/input"

# slow: the disk takes its time to write, so that what waits for a commit can be caught waiting.
slow() {
	dmsetup create cut --noudevsync \
		--table "0 $(blockdev --getsz /dev/vdc) delay /dev/vdc 0 0 /dev/vdc 0 40"
	cut=/dev/dm-$(dmsetup info -c --noheadings -o minor cut)
}
fast() { dmsetup remove --noudevsync cut; }

# scattered FILESYSTEM MKE2FS-OPTION...: a volume with a file of many extents.
scattered() {
	local fs=$1
	shift
	fresh /dev/vdc -b 1024 -J size=1 "$@"
	up /dev/vdc rw "$fs"
	"$tool" scatter $dir --count 20000 || not_ok scatter "on $fs"
	ino=$(stat -c %i $dir/apart)
	umount $dir
}

# What the list says is done, however long ago it was to be done: the file is 3,000 bytes long by
# its inode, and no transaction is left.
scattered ext4 -O ^orphan_file
"$tool" copy /dev/vdc /dev/vdd
debugfs -w -R "sif <$ino> size 3000" /dev/vdd 2>/dev/null
debugfs -w -R "ssv last_orphan $ino" /dev/vdd 2>/dev/null
recovered delete-by-list rw '1 truncate cleaned up'
up /dev/vdd ro ext4
# Two blocks are left, and under ext4 the nodes on the way to them.
size=$(stat -c '%s %b' $dir/apart)
check delete-by-list-size test "$size" = "3000 $(is_ext4rs && echo 4 || echo 8)"
umount $dir

caught=0
for feature in orphan_file ^orphan_file; do
	name=delete-${feature/^/no-}
	fresh /dev/vdc -b 1024 -O $feature
	counts /dev/vdc >"$scratch/before"
	slow
	stopped "$name-open" 0.5 hold $dir --count 40 --bytes 50000
	fast
	counts /dev/vdc >"$scratch/after"
	same "$name-open-free" "$scratch/before" "$scratch/after"
	"$tool" copy /dev/vdd /dev/vde
	recovered "$name-open" rw '40 orphan inodes deleted'
	counts /dev/vdd >"$scratch/after"
	same "$name-open-again-free" "$scratch/before" "$scratch/after"
	"$tool" copy /dev/vde /dev/vdd
	recovered "$name-open-ro" ro '40 orphan inodes deleted'

	scattered "$FS" -O $feature
	"$tool" copy /dev/vdc /dev/vde
	for delay in 0.1 0.3 0.6; do
		"$tool" copy /dev/vde /dev/vdc
		slow
		stopped "$name-cut-$delay" $delay cut $dir --left 1
		fast
		recovered "$name-cut-$delay" rw ''
		caught=$((caught + $(since_mark | grep -c '1 truncate cleaned up')))
	done
done
check delete-caught-cutting test "$caught" -gt 0
finish
