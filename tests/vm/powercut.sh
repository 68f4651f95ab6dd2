#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#: mem=1G disks=24M,1G timeout=600
#
# The power goes while the volume is written to. What fsync, O_SYNC, sync and the like had promised
# is there afterwards, the metadata is as after some operation, and no file shows what is not its
# own.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/libpowercut.sh"

prepare_cuts
states=${STATES:-80}
round 4k /dev/vdb "${SEED:-1}" "$states" '' -b 4096
round 1k /dev/ram2 "${SEED:-2}" "$states" '' -b 1024 -J size=1
round 4k-list /dev/ram2 "${SEED:-3}" "$states" '' -b 4096 -O ^orphan_file
round 1k-list /dev/vdb "${SEED:-4}" "$states" '' -b 1024 -O ^orphan_file -J size=1
# Written blocks: the commit sends the data before, also where a folio is half mapped.
round dioread_lock /dev/ram2 "${SEED:-7}" "$((states / 2))" '--options dioread_lock' -b 4096
round dioread_lock-1k /dev/ram2 "${SEED:-8}" "$((states / 2))" '--options dioread_lock' -b 1024 -J size=1
round nodelalloc-dioread_lock /dev/ram2 "${SEED:-9}" "$((states / 2))" '--options nodelalloc,dioread_lock' -b 1024 -J size=1
# The test sees what it looks for: flushes that do nothing, and a filesystem that asks for none.
round no-flush /dev/ram2 "${SEED:-5}" 12 '--losses --blind --seconds 3' -b 4096
round no-barrier /dev/ram2 "${SEED:-6}" 6 '--losses --options nobarrier --seconds 3' -b 4096
finish
