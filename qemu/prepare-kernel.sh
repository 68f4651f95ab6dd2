#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Run inside the sysroot by qemu/setup.sh: unpacks the kernel's source and makes
# from it a tree that modules for the stock kernel can be built against. Debian's
# headers package alone will not do: it lacks the metadata of the Rust crates.
set -euo pipefail
. /etc/ext4rs-kernel

headers=/usr/src/linux-headers-$KERNEL_RELEASE

rm -rf "$KERNEL_SOURCE"
echo "unpacking $KERNEL_SOURCE.tar.xz"
tar -C /usr/src -xf "$KERNEL_SOURCE.tar.xz"
cd "$KERNEL_SOURCE"
cp "$headers/.config" .
make -j"$(nproc)" CC=x86_64-linux-gnu-gcc-14 LOCALVERSION="${KERNEL_RELEASE#"$(make -s kernelversion)"}" modules_prepare

release=$(cat include/config/kernel.release)
if [ "$release" != "$KERNEL_RELEASE" ]; then
	echo "the prepared tree calls itself $release, not $KERNEL_RELEASE: its modules would not load"
	exit 1
fi
# The exported symbols of the kernel as Debian built it.
cp "$headers/Module.symvers" .
