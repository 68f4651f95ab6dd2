#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Puts the built module where `mount -t ext4rs` finds and loads it.
#
#   install.sh FOLDER        build/stock or build/kdir; INSTALL_MOD_PATH is a
#                            root to install under, as for the kernel's modules
set -euo pipefail
# shellcheck source=lib.sh
. "$(dirname "$0")/lib.sh"
PATH=$PATH:/usr/sbin:/sbin

built=$1
root=$(realpath -m "${INSTALL_MOD_PATH:-/}")
root=${root%/}
release=$(cat "$built/release")
modules=$root/lib/modules/$release

# The host's own, or where it has none the sysroot's.
run_depmod() {
	if command -v depmod >/dev/null; then
		depmod -b "${root:-/}" "$release"
	else
		EXT4RS_BIND=$root/lib/modules "$top/qemu/enter" depmod -b "${root:-/}" "$release"
	fi
}

install -D -m 644 "$built/ext4rs.ko" "$modules/updates/ext4rs.ko"
run_depmod || die "depmod failed for $modules"
echo "installed: $modules/updates/ext4rs.ko"
if [ -z "$root" ] && [ "$release" != "$(uname -r)" ]; then
	echo "note: it is for the kernel $release; this machine runs $(uname -r)"
fi
