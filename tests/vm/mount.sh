#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#: boot=small mem=1G disks=160M,128M timeout=300
#
# Mounting: options, remount, what is written to the superblock, journals that need recovery.
. "$(dirname "$0")/lib.sh"

dev=/dev/vdc
other_dir=/media

shown() { awk -v dir="$dir" '$2 == dir { print $4 }' /proc/mounts; }
mounted() { grep -q " $dir " /proc/mounts; }
has_recovery() { dumpe2fs -h "$dev" 2>/dev/null | grep '^Filesystem features' | grep -q needs_recovery; }

expect_options() {
	local options
	options=,$(shown),
	for option in "$@"; do
		[[ $options == *,$option,* ]] || { echo "$option is not in $options" && return 1; }
	done
}

# refused COMMAND...: it fails, and nothing is mounted.
refused() {
	if "$@" 2>&1; then echo "it succeeded" && return 1; fi
	if mounted; then echo "it failed, and $dir is mounted" && return 1; fi
}

options() {
	fresh $dev
	up $dev
	check mount-options-default [ "$(shown)" = rw,relatime ]
	umount $dir
	up $dev errors=remount-ro,commit=7,nobarrier,noatime
	check mount-options-shown expect_options errors=remount-ro commit=7 nobarrier noatime
	umount $dir
	for option in nosuchoption errors=perhaps commit=soon barrier=maybe; do
		check "mount-refuses-$option" refused mount -t "$FS" -o $option $dev $dir
	done
	# What is not built yet is refused by name; what is built is shown.
	for option in data_err=abort data=journal; do
		mark
		mount -t "$FS" -o $option $dev $dir 2>/dev/null
		if mounted; then
			check "mount-option-$option" expect_options $option
			umount $dir
		else
			check "mount-option-$option" said "option '?$option"
		fi
	done
	fsck mount-options $dev
}

# What ext4 takes, is taken: with what it shows of it where that is not the default.
taken() {
	local option failed=
	fresh $dev
	for option in nomblk_io_submit orlov oldalloc bh nobh reservation noreservation check=none nocheck \
		nowarn_on_error i_version prefetch_block_bitmaps journal_ioprio=3 mb_optimize_scan=0 init_itable \
		journal=1 sb=1 data_err=ignore resuid=5 resgid=6 stripe=16 inode_readahead_blks=8 \
		max_batch_time=100 min_batch_time=1 init_itable=9 debug discard noblock_validity nombcache; do
		if ! mount -t "$FS" -o $option $dev $dir 2>/dev/null; then
			failed+=" $option"
			continue
		fi
		case $option in
			resuid*|resgid*|stripe*|inode_r*|*batch*|init_itable=*|debug|discard|noblock*|nombcache)
				expect_options $option >/dev/null || failed+=" $option-not-shown" ;;
		esac
		umount $dir
	done
	check mount-takes-what-ext4-takes sh -c "echo 'not:$failed'; [ -z '$failed' ]"
	# What the superblock stores.
	tune2fs -o nobarrier,nodelalloc -u 7 -E mount_opts=commit=8 $dev >/dev/null
	up $dev
	check mount-stored-options expect_options commit=8 resuid=7
	umount $dir
	up $dev barrier,commit=9
	check mount-over-stored-options expect_options barrier commit=9
	touch $dir/flags
	check mount-flags-that-are-only-kept sh -c "chattr +csut $dir/flags && lsattr $dir/flags && lsattr $dir/flags | grep -q '^su.*c.*t'"
	down mount-stored $dev
}

read_only() {
	local before
	fresh $dev
	up $dev rw ext4
	"$tool" populate $dir/tree --files 20 --bytes 2M --fragments 10
	umount $dir
	before=$("$tool" digest $dev)
	up $dev ro
	"$tool" manifest $dir >"$scratch/manifest"
	check mount-ro-takes-no-write refused_write touch $dir/new
	umount $dir
	check mount-ro-changes-nothing [ "$("$tool" digest $dev)" = "$before" ]
	blockdev --setro $dev
	up $dev ro
	check mount-ro-device "$tool" verify $dir/tree --files 20 --bytes 2M --fragments 10
	check mount-ro-device-stays-ro sh -c "! mount -o remount,rw $dir"
	umount $dir
	blockdev --setrw $dev
}

refused_write() {
	local said
	if said=$("$@" 2>&1); then echo "it was written" && return 1; fi
	[[ $said == *"Read-only file system"* ]] || { echo "$said" && return 1; }
}

remount() {
	fresh $dev
	up $dev
	check mount-needs-recovery-while-mounted has_recovery
	echo data >$dir/file
	exec 9>>$dir/file
	check mount-no-ro-with-a-writer sh -c "! mount -o remount,ro $dir 2>&1"
	exec 9>&-
	check mount-remount-ro mount -o remount,ro $dir
	check mount-remount-ro-takes-no-write refused_write touch $dir/new
	check mount-remount-ro-is-clean sh -c "! dumpe2fs -h $dev 2>/dev/null | grep -q needs_recovery"
	fsck mount-remount-ro $dev
	check mount-remount-rw mount -o remount,rw,commit=9 $dir
	check mount-remount-rw-options expect_options rw commit=9
	check mount-remount-needs-recovery has_recovery
	echo more >>$dir/file
	check mount-remount-refuses sh -c "! mount -o remount,errors=perhaps $dir 2>&1"
	check mount-remount-keeps expect_options rw commit=9
	exec 9<$dir/file
	check mount-busy sh -c "! umount $dir 2>&1"
	exec 9<&-
	down mount-remount $dev
	check mount-no-recovery-after-umount sh -c "! dumpe2fs -h $dev 2>/dev/null | grep -q needs_recovery"
	up $dev ro ext4
	check mount-remount-data [ "$(cat $dir/file)" = "$(printf 'data\nmore')" ]
	umount $dir
}

twice() {
	fresh $dev
	up $dev
	mount -t "$FS" $dev $other_dir
	echo shared >$dir/file
	check mount-twice [ "$(cat $other_dir/file)" = shared ]
	umount $other_dir
	if is_ext4rs; then
		check mount-not-by-another sh -c "! mount -t ext4 $dev $other_dir 2>&1"
	fi
	down mount-twice $dev
}

# as USER COMMAND...: what is said, less what names the program.
as() {
	local said
	said=$(setpriv --reuid "$1" --regid "$1" --clear-groups "${@:2}" 2>&1) || said="fails: ${said##*: }"
	echo "$1 $2: $said"
}

# Another view of a directory, in which what belongs to root is user 1000's.
idmapped() {
	local to=$other_dir
	mkdir $dir/view
	echo private >$dir/view/mine
	echo other >$dir/view/other
	chmod 600 $dir/view/*
	chown 7:7 $dir/view/other
	mount --bind -o X-mount.idmap="u:0:1000:1 g:0:1000:1" $dir/view $to 2>&1 || return
	stat -c '%n %u %g %A' $to $to/*
	as 1000 cat $to/mine
	as 1000 cat $to/other
	as 1001 cat $to/mine
	as 1000 sh -c "echo more >>$to/mine && cat $to/mine"
	as 1000 truncate -s 5 $to/mine
	as 1000 mkdir $to/new
	as 1000 ln -s target $to/symlink
	as 1000 mkfifo $to/fifo
	as 1000 cp $to/mine $to/copy
	as 1000 mv $to/copy $to/moved
	as 1000 ln $to/moved $to/second
	as 1000 chmod 2755 $to/new
	as 1000 touch $to/new/below
	as 1000 chown 1000:1000 $to/new
	as 1000 chown 7 $to/new
	as 1000 setfattr -n user.a -v b $to/mine
	as 1000 setfacl -m u:1000:r,u:1001:rw $to/mine
	as 1000 setfacl -d -m u:1000:rwx $to/new
	as 1000 touch $to/new/inheriting
	as 1000 getfacl -cn $to/mine $to/new $to/new/inheriting
	as 1001 chmod 777 $to/new
	as 1001 touch $to/nothing
	as 1000 chattr +d $to/mine
	as 1001 chattr +a $to/mine
	as 1000 rm $to/second
	as 1001 rm -f $to/moved
	as 0 touch $to/no-such-owner
	stat -c '%n %u %g %A' $to/* $to/new/*
	umount $to
	echo "on the volume"
	(cd $dir/view && stat -c '%n %u %g %A' ./* new/* && getfacl -n mine new new/inheriting)
}

idmap() {
	fresh $dev
	up $dev rw ext4
	idmapped >"$scratch/want"
	umount $dir
	fresh $dev
	up $dev
	idmapped >"$scratch/is"
	down mount-idmap $dev
	sed -i "s,$other_dir,view,g" "$scratch/want" "$scratch/is"
	check mount-idmap-counts grep -q '^1000 cat: private' "$scratch/is"
	same mount-idmap "$scratch/want" "$scratch/is"
}

# What dumpe2fs shows of the superblock, less what a mount may change.
super() { dumpe2fs -h "$1" 2>/dev/null | grep -E "$2"; }

superblock() {
	fresh $dev -L label
	tune2fs -o acl -c 50 $dev >/dev/null
	local constant='UUID|volume name|^Filesystem features|Inode count|Block count|Reserved|First|per group|created|interval|Journal (backup|inode)|Hash Seed|Checksum type'
	super $dev "$constant" >"$scratch/before"
	up $dev
	mkdir $dir/directory
	echo data >$dir/file
	down mount-superblock $dev
	super $dev "$constant" >"$scratch/after"
	same mount-superblock-kept "$scratch/before" "$scratch/after"
	check mount-counts grep -q 'Mount count: *1$' <(super $dev 'Mount count')
	check mount-remembers-where grep -q "$dir\$" <(super $dev 'Last mounted')
	check mount-state grep -q 'clean$' <(super $dev 'Filesystem state')
	# Free counts: e2fsck compares them with the bitmaps, this with the superblock of ext4.
	up $dev
	"$tool" space $dir >"$scratch/is"
	umount $dir
	up $dev ro ext4
	"$tool" space $dir >"$scratch/want"
	umount $dir
	same mount-statfs "$scratch/want" "$scratch/is"
}

# Everything that a full tree shows in statfs, at each block size, before and after write-out.
statfs() {
	for block in 1024 2048 4096; do
		fresh $dev -b $block
		up $dev
		"$tool" populate $dir/tree --files 60 --bytes 8M --fragments 60 >/dev/null
		sync
		"$tool" space $dir >"$scratch/is"
		umount $dir
		up $dev ro ext4
		"$tool" space $dir >"$scratch/want"
		umount $dir
		same "mount-statfs-$block" "$scratch/want" "$scratch/is"
	done
}

options
taken
read_only
remount
twice
superblock
statfs
idmap
finish
