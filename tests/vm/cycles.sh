#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#: mem=1G disks=512M timeout=200 load=no
#
# The module loaded and unloaded twenty times, with mounts between.
. "$(dirname "$0")/lib.sh"

fresh /dev/vdb
cases "$tool" cycles /dev/vdb $dir --fs "$FS" --module "$(if is_ext4rs; then echo "$MODULE"; fi)" \
	--prefix cycles/
fsck cycles /dev/vdb
finish
