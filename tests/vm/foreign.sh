#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#: mem=1G disks=1G timeout=400
#
# What the kernel's ext4 made reads the same under ext4rs, and is still the same after ext4rs has
# written beside it.
. "$(dirname "$0")/lib.sh"

refusing=()
if is_ext4rs; then refusing=(--refusing); fi

# manifest OPTIONS FILESYSTEM FILE: the volume as one filesystem sees it.
manifest() {
	up /dev/vdb "$1" "$2"
	"$tool" manifest $dir/foreign --layout --access "${@:4}" >"$3" || not_ok manifest "under $2"
}

# round NAME BLOCK-SIZE NAMES
round() {
	local name=$1 names=$3
	fresh /dev/vdb -b "$2"
	up /dev/vdb noatime ext4
	check "$name-make" "$tool" foreign $dir/foreign
	"$tool" many $dir/many --seed 7 --count "$names"
	"$tool" populate $dir/tree --files 150 --bytes 24M --fragments 500
	sync
	umount $dir
	# Directories of the other hashes.
	for hash in legacy tea; do
		tune2fs -E hash_alg=$hash /dev/vdb >/dev/null
		up /dev/vdb noatime ext4
		"$tool" many $dir/$hash --seed 8 --count 700
		umount $dir
	done
	tune2fs -E hash_alg=half_md4 /dev/vdb >/dev/null
	fsck "$name-made" /dev/vdb

	manifest ro ext4 /tmp/want
	"$tool" access $dir/foreign/access >/tmp/want-access
	umount $dir
	manifest ro "$FS" /tmp/is
	"$tool" access $dir/foreign/access >/tmp/is-access
	same "$name-manifest" /tmp/want /tmp/is
	same "$name-access" /tmp/want-access /tmp/is-access
	for part in unwritten sparse pieces attributes; do
		check "$name-readback-$part" "$tool" readback $dir/foreign/$part
	done
	check "$name-tree" "$tool" verify $dir/tree --files 150 --bytes 24M --fragments 500
	check "$name-many" "$tool" find $dir/many --seed 7 --count "$names"
	for hash in legacy tea; do
		check "$name-many-$hash" "$tool" find $dir/$hash --seed 8 --count 700
	done
	umount $dir

	# Written to: what was there stays as it was.
	manifest noatime ext4 /tmp/want --xattrs
	umount $dir
	up /dev/vdb noatime
	"$tool" populate $dir/new --files 100 --bytes 16M --fragments 300
	down "$name-written" /dev/vdb
	manifest noatime ext4 /tmp/is --xattrs
	same "$name-kept" /tmp/want /tmp/is
	check "$name-new" "$tool" verify $dir/new --files 100 --bytes 16M --fragments 300
	umount $dir

	up /dev/vdb
	check "$name-flags" "$tool" flags "$dir/foreign" "${refusing[@]}"
	down "$name-flags" /dev/vdb
}

round foreign-1k 1024 4000
round foreign-4k 4096 20000
finish
