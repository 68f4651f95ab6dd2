#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#: boot=small mem=1G disks=160M,128M timeout=300
#
# What programs rely on, at every block size; what is left on the disk is what the program saw.
. "$(dirname "$0")/lib.sh"

for block in 1024 2048 4096; do
	name=behave-$((block / 1024))k
	"$tool" fill /dev/vdb --bytes 160M
	fresh /dev/vdb -b "$block" -E lazy_itable_init=1,nodiscard
	up /dev/vdb
	cases "$tool" behave $dir --prefix "$name/"
	sync
	"$tool" manifest $dir >/tmp/is
	down "$name" /dev/vdb
	up /dev/vdb ro ext4
	"$tool" manifest $dir >/tmp/want
	same "$name-on-disk" /tmp/want /tmp/is
	umount $dir
done
finish
