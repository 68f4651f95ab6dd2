#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#: mem=1G disks=256M,256M timeout=400
#
# Directories with an index, of every hash: names of one hash in several blocks; listings while names
# come and go; more subdirectories than a count of links can hold.
. "$(dirname "$0")/lib.sh"

# hash NAME ALGORITHM FLAG: names with every byte; flag 1 takes them as signed, 2 as unsigned.
hash() {
	fresh /dev/vdb -b 1024
	tune2fs -E "hash_alg=$2" /dev/vdb >/dev/null
	debugfs -w -R "set_super_value flags $3" /dev/vdb >/dev/null 2>&1
	up /dev/vdb noatime
	"$tool" many $dir/many --seed 3 --count 1200
	check "$1" "$tool" find $dir/many --seed 3 --count 1200
	down "$1" /dev/vdb
	up /dev/vdb ro ext4
	check "$1-in-ext4" "$tool" find $dir/many --seed 3 --count 1200
	umount $dir
}

for algorithm in half_md4 tea legacy; do
	hash indexed-$algorithm-signed $algorithm 1
	hash indexed-$algorithm-unsigned $algorithm 2
done

fresh /dev/vdb -b 1024
tune2fs -E hash_alg=legacy /dev/vdb >/dev/null
up /dev/vdb
check indexed-collisions "$tool" collide $dir
down indexed-collisions /dev/vdb
check indexed-collisions-continued sh -c \
	"debugfs -R 'htree_dump /collide' /dev/vdb 2>/dev/null | grep -q 'Hash 0x[0-9a-f]*[13579bdf],'"

for block in 1024 4096; do
	fresh /dev/vdb -b $block
	up /dev/vdb
	cases "$tool" listings $dir --prefix "indexed-$((block / 1024))k/"
	ls -U $dir/old >/tmp/is
	down "indexed-$((block / 1024))k-listings" /dev/vdb
	up /dev/vdb ro ext4
	ls -U $dir/old >/tmp/want
	same "indexed-$((block / 1024))k-order" /tmp/want /tmp/is
	umount $dir
	# What e2fsck makes of it is a directory again.
	e2fsck -fyD /dev/vdb >/dev/null 2>&1
	up /dev/vdb
	ls $dir/old >/tmp/is
	sort /tmp/want >/tmp/sorted
	sort /tmp/is >/tmp/is-sorted
	same "indexed-$((block / 1024))k-optimised" /tmp/sorted /tmp/is-sorted
	down "indexed-$((block / 1024))k-optimised" /dev/vdb
done

# many DEVICE FILESYSTEM SUBDIRECTORIES: a directory that says that it has more.
many() {
	fresh "$1" -b 1024
	up "$1" rw ext4
	eval "mkdir $dir/many $dir/many/d{1..$3}"
	umount $dir
	debugfs -w -R "set_inode_field /many links_count 64997" "$1" >/dev/null 2>&1
	up "$1" rw "$2"
	"$tool" subdirectories $dir
	umount $dir
}

many /dev/vdb "$FS" 150 >/tmp/is
many /dev/vdc ext4 150 >/tmp/want
same indexed-many-links /tmp/want /tmp/is
fsck indexed-many-links /dev/vdb
many /dev/vdb "$FS" 5 >/tmp/is
many /dev/vdc ext4 5 >/tmp/want
same indexed-few-links /tmp/want /tmp/is
debugfs -w -R "set_inode_field /many links_count $((2 + $(debugfs -R 'ls /many' /dev/vdb 2>/dev/null | tr ' ' '\n' | grep -cE '^(d[0-9]|extra|inside)')))" /dev/vdb >/dev/null 2>&1
fsck indexed-few-links /dev/vdb
finish
