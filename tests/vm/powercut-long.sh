#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#: mem=1G disks=24M,1G timeout=5400 long=yes
#
# Power cuts as in powercut.sh, with many seeds (FIRST_SEED to LAST_SEED) and more kinds of volume.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/libpowercut.sh"

prepare_cuts
for ((seed = ${FIRST_SEED:-101}; seed <= ${LAST_SEED:-105}; seed++)); do
	round "4k-$seed" /dev/vdb "$seed" 100 '' -b 4096
	round "1k-$seed" /dev/ram2 "$seed" 100 '' -b 1024 -J size=1
	round "4k-list-$seed" /dev/ram2 "$seed" 100 '' -b 4096 -O ^orphan_file
	round "1k-list-$seed" /dev/vdb "$seed" 100 '' -b 1024 -O ^orphan_file -J size=1
	round "plain-$seed" /dev/ram2 "$seed" 50 '' -b 1024 -I 128 -O ^metadata_csum,^64bit,^dir_index
	round "2k-$seed" /dev/vdb "$seed" 50 '--tasks 2' -b 2048
done
finish
