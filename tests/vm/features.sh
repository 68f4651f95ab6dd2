#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#: boot=small mem=1G disks=160M,128M timeout=300
#
# Volumes of other features: those that ext4rs cannot do are refused by name, the rest works.
. "$(dirname "$0")/lib.sh"

dev=/dev/vdc
blocks=64M

# refuses NAME MODE PATTERN: the mount fails, and the kernel's log says why.
refuses() {
	mark
	if mount -t "$FS" -o "$2" $dev $dir 2>"$scratch/said"; then
		umount $dir
		not_ok "features-$1-$2" "it was mounted"
	elif said "$3"; then
		ok "features-$1-$2"
	else
		not_ok "features-$1-$2" "the log does not name $3: $(since_mark | tail -n 1)"
	fi
}

# works NAME MKE2FS-OPTION...: written to, consistent, and the same under ext4.
works() {
	local name=features-$1
	shift
	fresh $dev "$@"
	mark
	if ! mount -t "$FS" -o noatime $dev $dir 2>/dev/null; then
		not_ok "$name" "not mounted: $(since_mark | tail -n 1)"
		return
	fi
	check "$name-populate" "$tool" populate $dir/tree --files 40 --bytes 5M --fragments 30
	umount $dir
	fsck "$name" $dev
	up $dev ro,noatime
	"$tool" manifest $dir --layout --access >"$scratch/is"
	umount $dir
	up $dev ro,noatime ext4
	"$tool" manifest $dir --layout --access >"$scratch/want"
	umount $dir
	same "$name-manifest" "$scratch/want" "$scratch/is"
}

if is_ext4rs; then
	fresh $dev -O ^has_journal
	refuses no-journal rw journal
	refuses no-journal ro journal
	fresh $dev -O ^extent,^64bit
	refuses no-extents rw extent
	refuses no-extents ro extent
	for word in casefold encrypt inline_data mmp ea_inode large_dir; do
		fresh $dev -O $word
		mark
		if mount -t ext4rs $dev $dir 2>/dev/null; then
			umount $dir
			works $word -O $word
		else
			refuses $word rw $word
			refuses $word ro $word
		fi
	done
fi
fresh $dev
debugfs -w -R 'feature FEATURE_I30' $dev >/dev/null 2>&1
refuses unknown-incompat rw 'FEATURE_I30|0x40000000|40000000|unsupported optional features'
refuses unknown-incompat ro 'FEATURE_I30|0x40000000|40000000|unsupported optional features'
fresh $dev
debugfs -w -R 'feature FEATURE_R30' $dev >/dev/null 2>&1
refuses unknown-ro-compat rw 'FEATURE_R30|0x40000000|40000000|unsupported optional features'
up $dev ro
check features-unknown-ro-compat-ro ls $dir/lost+found
check features-unknown-ro-compat-stays-ro sh -c "! mount -o remount,rw $dir 2>&1"
umount $dir

# An indirect file on a volume that has extents: refused alone.
fresh $dev -O ^extent,^64bit
up $dev rw ext4
echo old >$dir/old
mkdir $dir/directory
umount $dir
tune2fs -O extent $dev >/dev/null
up $dev rw ext4
echo new >$dir/new
umount $dir
if is_ext4rs; then
	if mount -t ext4rs $dev $dir; then
		check features-indirect-file-refused sh -c "! cat $dir/old"
		check features-extent-file-beside-it [ "$(cat $dir/new)" = new ]
		umount $dir
	else
		# The root directory itself has no extents here.
		ok features-indirect-root-refused
	fi
	fsck features-indirect $dev
fi

# extra FILE: the bytes of its inode behind the first 128 that have a meaning.
extra() { debugfs -R "stat $1" $dev 2>/dev/null | sed -n 's/^Size of extra inode fields: //p'; }

# Inodes of older systems have fewer fields. They get the others when they change, unless attributes
# leave no room.
fresh $dev -I 256
printf '%100s' long >/tmp/value
for file in plain named full; do
	echo "write /etc/hostname $file"
	echo "set_inode_field $file extra_isize 4"
done >/tmp/commands
cat >>/tmp/commands <<-END
	ea_set named user.name value
	ea_set named user.empty ""
	ea_set full user.long -f /tmp/value
END
debugfs -w -f /tmp/commands $dev >"$scratch/said" 2>&1
fsck features-old-inodes-before $dev
for file in plain named full; do
	check features-old-inodes-$file-before [ "$(extra $file)" = 4 ]
done
up $dev
touch -d 2100-01-01T00:00Z $dir/plain $dir/named $dir/full
down features-old-inodes $dev
for file in plain named; do
	check features-old-inodes-$file [ "$(extra $file)" = 32 ]
done
up $dev
touch -d 2100-01-01T00:00Z "$scratch/want"
check features-old-inodes-time [ "$(stat -c %Y $dir/plain $dir/named)" = "$(stat -c %Y "$scratch"/{want,want})" ]
check features-old-inodes-named [ "$(getfattr --only-values -n user.name $dir/named)" = value ]
check features-old-inodes-empty getfattr -n user.empty $dir/named
check features-old-inodes-full [ "$(getfattr --only-values -n user.long $dir/full)" = "$(cat /tmp/value)" ]
setfattr -n user.more -v 1 $dir/named
setfattr -x user.long $dir/full
touch $dir/full
down features-old-inodes-changed $dev
check features-old-inodes-full [ "$(extra full)" = 32 ]

works no-64bit -O ^64bit
works no-flex-bg -O ^flex_bg
works no-csum -O ^metadata_csum,^metadata_csum_seed,^orphan_file
works gdt-csum -O ^metadata_csum,^metadata_csum_seed,^orphan_file,uninit_bg
works no-csum-seed -O ^metadata_csum_seed
works no-orphan-file -O ^orphan_file
works no-dir-index -O ^dir_index
works small-inodes -I 128
works large-inodes -I 1024 -b 4096
works no-resize-inode -O ^resize_inode
works meta-bg -O ^resize_inode,meta_bg -b 1024
works sparse-super2 -O sparse_super2 -b 1024
works large-journal -J size=16
works few-inodes -N 256
blocks=60001 works odd-size -b 1024
finish
