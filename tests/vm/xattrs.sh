#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#: mem=1G disks=160M,160M timeout=400
#
# Extended attributes and ACLs: the same as under ext4, in every step and on the disk; blocks that
# many files share; what is damaged gives errors.
. "$(dirname "$0")/lib.sh"

dev=/dev/vdb
twin=/dev/vdc
mkdir -p /mnt/twin-of
other=/mnt/twin-of
dir=/mnt/volume
mkdir -p $dir $other

# The number of the block with a file's attributes; nothing for none.
block_of() {
	debugfs -R "stat $1" $dev 2>/dev/null | sed -n 's/.*File ACL: \([0-9]*\).*/\1/p'
}

# The reference count of a block of attributes.
count_of() {
	dd if=$dev bs="$size" skip="$1" count=1 2>/dev/null | od -A n -t u4 -j 4 -N 4 | tr -d ' '
}

# expect NAME IS MUST-BE
expect() {
	if [ "$2" = "$3" ]; then ok "$1"; else not_ok "$1" "is $2, must be $3"; fi
}

# attrs FILE: lists the manifest of $dir.
attrs() { "$tool" manifest $dir --xattrs >"$1"; }

# both NAME SEED MKE2FS-OPTION...: random operations on a volume under test and on its twin.
both() {
	local name=$1 seed=$2
	shift 2
	fresh $dev "$@"
	fresh $twin "$@"
	for d in $dev $twin; do
		mount -t ext4 "$d" $other && ln -s a $other/link && umount $other
	done
	up $dev
	mount -t ext4 $twin $other
	check "$name" "$tool" xattrs $dir $other --seed "$seed" --count 800 --block "$size"
	attrs "$scratch/own"
	umount $other
	down "$name" $dev
	fsck "$name-twin" $twin
	up $dev rw ext4
	attrs "$scratch/under-ext4"
	umount $dir
	same "$name-read-by-ext4" "$scratch/own" "$scratch/under-ext4"
	# And the twin, which ext4 wrote, by the filesystem under test.
	up $twin rw ext4
	attrs "$scratch/own"
	umount $dir
	up $twin
	attrs "$scratch/of-ext4"
	down "$name-written-by-ext4" $twin
	same "$name-of-ext4" "$scratch/own" "$scratch/of-ext4"
}

# set_attr NAME BYTES LETTER FILE...: in $dir.
set_attr() {
	local attr=$1 bytes=$2 letter=$3
	shift 3
	(cd $dir && "$tool" xattr-set "$@" --name "$attr" --bytes "$bytes" --letter "$letter")
}

# remove_attr NAME FILE...
remove_attr() {
	local attr=$1
	shift
	(cd $dir && "$tool" xattr-remove "$@" --name "$attr")
}

# read_attrs FILE...: makes the blocks of these known to the filesystem.
read_attrs() { (cd $dir && "$tool" xattr-read "$@"); }

without_place() { sed '/inline/s/[0-9]*\.\. *[0-9]*: *[0-9]*: *last/last/'; }

told() { (cd $dir && filefrag -xv none body block both folder && filefrag -v folder); }

# places NAME: the same as ext4 says of where attributes and a directory's blocks are, except that it
# forgets where in its block an inode is.
places() {
	local address
	fresh $dev -b $size
	up $dev
	(cd $dir && mkdir folder && touch none body block both folder/name &&
		setfattr -n user.a -v v body both folder)
	set_attr user.long 400 v block both
	sync
	told >"$scratch/told"
	address=$(sed -n '/inline/{s/.*: *\([0-9]*\)\.\. .*/\1/p;q}' "$scratch/told")
	without_place <"$scratch/told" >"$scratch/own"
	down "$1" $dev
	up $dev ro ext4
	told | without_place >"$scratch/under-ext4"
	umount $dir
	same "$1-as-ext4" "$scratch/under-ext4" "$scratch/own"
	if is_ext4rs; then
		# What a list of attributes begins with.
		expect "$1-address" "$(od -A n -t x4 -j "$address" -N 4 $dev)" ' ea020000'
	fi
}

# The free blocks.
free_blocks() {
	sync -f $dir
	stat -f -c %f $dir
}

# sharing NAME: 100 files with the same attributes have one block.
sharing() {
	local name=$1 n before after block
	fresh $dev -b $size
	up $dev
	(cd $dir && touch f{1..100} more alone)
	before=$(free_blocks)
	# Too long for the inode.
	set_attr user.shared 400 v f{1..100}
	after=$(free_blocks)
	expect "$name-space" $((before - after)) 1
	down "$name" $dev
	block=$(block_of f1)
	expect "$name-one-block" "$(for n in {1..100}; do block_of "f$n"; done | sort -u | wc -l)" 1
	expect "$name-count" "$(count_of "$block")" 100

	# After a mount nothing is in the cache: a file that is read makes its block known.
	up $dev
	read_attrs f7
	set_attr user.shared 400 v more
	set_attr user.shared 401 v f1
	down "$name-changed" $dev
	expect "$name-found-again" "$(block_of more)" "$block"
	expect "$name-count-of-the-rest" "$(count_of "$block")" 100
	expect "$name-another-block" "$([ "$(block_of f1)" != "$block" ] && count_of "$(block_of f1)")" 1

	# Back to what it was: the block of its own is free again.
	up $dev
	read_attrs f7
	set_attr user.shared 400 v f1
	expect "$name-space-back" "$(free_blocks)" "$after"
	umount $dir
	expect "$name-back" "$(block_of f1) $(count_of "$block")" "$block 101"
	up $dev
	remove_attr user.shared f{1..100} more
	expect "$name-freed" "$(free_blocks)" "$before"
	down "$name-removed" $dev
}

# crowd NAME: more files than can share one block.
crowd() {
	local name=$1 blocks_used
	fresh $dev -b $size -N 4000
	up $dev
	(cd $dir && touch c{1..1100})
	blocks_used=$(free_blocks)
	set_attr user.crowd 300 w c{1..1100}
	expect "$name-space" $((blocks_used - $(free_blocks))) 2
	down "$name" $dev
	up $dev
	# From a full block, which then has room again.
	read_attrs c1 c1100
	remove_attr user.crowd c{5..9}
	set_attr user.crowd 300 w c{5..9}
	expect "$name-space-again" $((blocks_used - $(free_blocks))) 2
	down "$name-again" $dev
}

# inherit NAME: ACLs, compared line by line.
inherit() {
	local name=$1
	fresh $dev -b $size
	fresh $twin -b $size
	up $dev
	mount -t ext4 $twin $other
	"$tool" acls $dir --seed 5 >"$scratch/own"
	"$tool" acls $other --seed 5 >"$scratch/twin"
	same "$name" "$scratch/own" "$scratch/twin"
	umount $other
	down "$name" $dev
}

# obeyed NAME: a remount says whether ACLs count.
obeyed() {
	local name=$1
	fresh $dev -b $size
	up $dev
	touch $dir/f
	chmod 600 $dir/f
	setfacl -m u:1000:r $dir/f
	reader() { setpriv --reuid 1000 --regid 1000 --clear-groups cat $dir/f 2>&1; }
	expect "$name-at-first" "$(reader)" ""
	mount -o remount,noacl $dir
	expect "$name-not" "$(reader | grep -c 'Permission denied')" 1
	mount -o remount,acl $dir
	expect "$name-again" "$(reader)" ""
	down "$name" $dev
}

# victim MKE2FS-OPTION...: a volume with a file whose attributes are in a block.
victim() {
	fresh $dev -b $size "$@"
	up $dev rw ext4
	touch $dir/victim
	set_attr user.long 600 d victim
	set_attr user.second 5 e victim
	set_attr user.third 120 f victim
	umount $dir
	block=$(block_of victim)
}

# damaged NAME ROUNDS MKE2FS-OPTION...: wrong bytes in a block of attributes.
damaged() {
	local name=$1 rounds=$2 n at byte block writing
	shift 2
	RANDOM=3
	for ((n = 0; n < rounds; n++)); do
		victim "$@"
		# The header and the names, where every byte counts.
		at=$((RANDOM % 100))
		byte=$(printf '\\x%02x' $((RANDOM % 256)))
		# shellcheck disable=SC2059
		printf "$byte" | dd of=$dev bs=1 seek=$((block * size + at)) conv=notrunc 2>/dev/null
		writing=
		[ $((n % 3)) = 0 ] || writing=--writing
		up $dev rw,errors=continue
		"$tool" poke $dir/victim $writing
		umount $dir
	done
	ok "$name # $rounds rounds"
}

# outside NAME: values that ext4 has put into inodes of their own.
outside() {
	local name=$1 inodes
	fresh $dev -b $size -O ea_inode
	up $dev rw ext4
	(cd $dir && touch a b c)
	inodes=$(stat -f -c %d $dir)
	# Both values are in one inode.
	set_attr user.large 5000 v a b
	set_attr user.small 10 w a c
	expect "$name-made" $((inodes - $(stat -f -c %d $dir))) 1
	attrs "$scratch/under-ext4"
	umount $dir
	up $dev
	attrs "$scratch/own"
	same "$name-read" "$scratch/under-ext4" "$scratch/own"
	remove_attr user.large a
	sync -f $dir
	expect "$name-still-in-use" $((inodes - $(stat -f -c %d $dir))) 1
	set_attr user.large 20 x b
	sync -f $dir
	expect "$name-released" "$(stat -f -c %d $dir)" "$inodes"
	if is_ext4rs; then
		if set_attr user.large 5000 v c 2>/dev/null >"$scratch/refused"; then
			not_ok "$name-refused" "a value was put into an inode"
		else
			ok "$name-refused"
		fi
	fi
	down "$name" $dev
}

size=4096
both xattrs-4k 11 -b 4096
inherit acls-4k
# ext4 has lost the option.
is_ext4rs && obeyed acls-remounted
sharing sharing-4k
places places-4k
outside outside-4k
size=1024
places places-1k
both xattrs-1k 12 -b 1024 -O ^metadata_csum
both xattrs-small-inodes 13 -b 1024 -I 128
inherit acls-1k
crowd crowd-1k
damaged damaged 25 -O ^metadata_csum
damaged damaged-checksum 5
finish
