#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#: mem=1G disks=512M,512M timeout=900
#
# Directories with an index: they grow to two and three levels block for block as ext4's do, with
# every hash, take names of one hash over several blocks, are listed while they change, and are
# emptied again.
. "$(dirname "$0")/lib.sh"

# So that names have the same hashes on both volumes.
seed=hash_seed=01234567-89ab-cdef-0123-456789abcdef

# shape DEVICE DIRECTORY: the tree, without the numbers of inodes and blocks of the disk.
shape() {
	debugfs -R "htree_dump $2" "$1" 2>/dev/null | grep -E '^(Root|	 |Entry|Number)|Hash' |
		sed 's/phys.*//'
}

# grow NAME COUNT LEVELS MKE2FS-OPTION...: as many names as fit, at most COUNT.
grow() {
	local name=$1 count=$2 levels=$3 is want
	shift 3
	fresh /dev/vdb -b 1024 -N 1024 -E "$seed,nodiscard" "$@"
	fresh /dev/vdc -b 1024 -N 1024 -E "$seed,nodiscard" "$@"
	mark
	up /dev/vdb noatime
	is=$("$tool" crowd $dir --count "$count" --length 250)
	down "$name-grown" /dev/vdb
	up /dev/vdc noatime ext4
	want=$("$tool" crowd $dir --count "$count" --length 250)
	umount $dir
	echo "$is" >/tmp/count
	if [ "$is" = "$want" ]; then ok "$name-fits # $is names"; else not_ok "$name-fits" "$is, not $want"; fi
	shape /dev/vdb /crowd >/tmp/is
	shape /dev/vdc /crowd >/tmp/want
	same "$name-shape" /tmp/want /tmp/is
	check "$name-levels" grep -q "Indirect levels: $levels" /tmp/is
}

# crowd (the same): and then all of them removed again.
crowd() {
	local name=$1 is
	grow "$@"
	is=$(cat /tmp/count)
	up /dev/vdb ro ext4
	check "$name-in-ext4" "$tool" crowded $dir --count "$is" --length 250
	umount $dir
	up /dev/vdb noatime
	check "$name-emptied" "$tool" uncrowd $dir --count "$is" --length 250
	down "$name-emptied" /dev/vdb
}

crowd htree-two 4000 1
check htree-two-quiet sh -c "! dmesg | grep -q 'index full'"
grow htree-full 60000 1
if is_ext4rs; then
	check htree-full-said said 'EXT4RS-fs warning .*index full, reach max htree level :2'
	check htree-full-hint said 'EXT4RS-fs warning .*Large directory feature is not enabled'
fi
crowd htree-three 21000 2 -O large_dir
crowd htree-plain 3000 1 -O ^metadata_csum

# hash NAME ALGORITHM FLAG: names with every byte; flag 1 takes them as signed, 2 as unsigned.
hash() {
	fresh /dev/vdb -b 1024 -E "$seed"
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
	hash htree-$algorithm-signed $algorithm 1
	hash htree-$algorithm-unsigned $algorithm 2
done

fresh /dev/vdb -b 1024
tune2fs -E hash_alg=legacy /dev/vdb >/dev/null
up /dev/vdb
check htree-collisions "$tool" collide $dir
down htree-collisions /dev/vdb
check htree-collisions-continued sh -c \
	"debugfs -R 'htree_dump /collide' /dev/vdb 2>/dev/null | grep -q 'Hash 0x[0-9a-f]*[13579bdf],'"

for block in 1024 4096; do
	fresh /dev/vdb -b $block
	up /dev/vdb
	cases "$tool" listings $dir --prefix "htree-$((block / 1024))k/"
	ls -U $dir/old >/tmp/is
	down "htree-$((block / 1024))k-listings" /dev/vdb
	up /dev/vdb ro ext4
	ls -U $dir/old >/tmp/want
	same "htree-$((block / 1024))k-order" /tmp/want /tmp/is
	umount $dir
	# What e2fsck makes of it is a directory again.
	e2fsck -fyD /dev/vdb >/dev/null 2>&1
	up /dev/vdb
	ls $dir/old >/tmp/is
	sort /tmp/want >/tmp/sorted
	sort /tmp/is >/tmp/is-sorted
	same "htree-$((block / 1024))k-optimised" /tmp/sorted /tmp/is-sorted
	down "htree-$((block / 1024))k-optimised" /dev/vdb
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
same htree-many-links /tmp/want /tmp/is
fsck htree-many-links /dev/vdb
many /dev/vdb "$FS" 5 >/tmp/is
many /dev/vdc ext4 5 >/tmp/want
same htree-few-links /tmp/want /tmp/is
debugfs -w -R "set_inode_field /many links_count $((2 + $(debugfs -R 'ls /many' /dev/vdb 2>/dev/null | tr ' ' '\n' | grep -cE '^(d[0-9]|extra|inside)')))" /dev/vdb >/dev/null 2>&1
fsck htree-few-links /dev/vdb
finish
