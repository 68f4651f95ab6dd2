#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Builds the module in build/kdir for a kernel tree of the user's own, on the
# host, with the toolchain that the tree was made with.
#
#   build-kdir.sh TREE [MAKE ARGUMENT...]
set -euo pipefail
# shellcheck source=lib.sh
. "$(dirname "$0")/lib.sh"

tree=$1
shift
out=$top/build/kdir
config=$tree/include/config/auto.conf

# A text value of the tree's configuration; auto.conf has them without quotes.
config_text() {
	sed -n "s/^$1=//p" "$config"
}

check_tree() {
	local advice="plain 'make' builds for the stock Debian kernel"
	[ -d "$tree" ] || die "KDIR=$tree: no such folder ($advice)"
	[ -e "$config" ] || die "KDIR=$tree is no configured kernel build tree: it lacks include/config/auto.conf ($advice)"
	grep -q '^CONFIG_RUST=y' "$config" || die "KDIR=$tree: this kernel is built without CONFIG_RUST ($advice)"
	[ -e "$tree/rust/libkernel.rmeta" ] ||
		die "KDIR=$tree lacks the Rust metadata (rust/libkernel.rmeta; Debian's headers packages do): build the tree itself ($advice)"
}

# A crate's metadata can be read by the very compiler that wrote it and no other.
check_rustc() {
	local want have
	want=$(config_text CONFIG_RUSTC_VERSION_TEXT)
	have=$("${RUSTC:-rustc}" --version 2>/dev/null) || have="no rustc"
	[ "$want" = "$have" ] || die "KDIR=$tree was made with '$want'; here is '$have' (RUSTC=... names another)"
}

# The C compiler by the name that the tree's configuration gives it, unless the
# caller named one.
compiler() {
	local name
	name=$(config_text CONFIG_CC_VERSION_TEXT)
	name=${name%% *}
	case " $* " in
	*" CC="* | *" LLVM="*) ;;
	*) if command -v "$name" >/dev/null; then printf 'CC=%s\n' "$name"; fi ;;
	esac
}

check_checkout
check_tree
check_rustc
mkdir -p "$out"
# shellcheck disable=SC2046 # nothing, or one word
make -s -C "$tree" -j"$(nproc)" M="$top" MO="$out" $(compiler "$@") "$@" modules
cp "$tree/include/config/kernel.release" "$out/release"
