#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Run inside the sysroot: builds the module for the stock kernel in build/stock.
#
#   build.sh [MAKE ARGUMENT...]
set -euo pipefail
. /etc/ext4rs-kernel
top=$(cd "$(dirname "$0")/.." && pwd -P)
out=${OUT:-$top/build/stock}

mkdir -p "$out"
# BTF of a module is made from the kernel's own vmlinux, which is not here.
make -s -C "$KERNEL_SOURCE" -j"$(nproc)" M="$top" MO="$out" \
	CC=x86_64-linux-gnu-gcc-14 CONFIG_DEBUG_INFO_BTF_MODULES= \
	LOCALVERSION="${KERNEL_RELEASE#"$(make -s -C "$KERNEL_SOURCE" kernelversion)"}" "$@"
printf '%s\n' "$KERNEL_RELEASE" >"$out/release"
