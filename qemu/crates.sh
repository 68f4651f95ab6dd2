#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Run inside the sysroot by qemu/setup.sh: builds the programs from crates.io and
# puts them into /usr/local/bin. Can be run again after it was cut short.
#
#   crates.sh NAME VERSION ...        two words for each program
set -euo pipefail

# Somebody waits for this, and the programs wait for the kernel: only what does
# work of its own on every byte is optimised.
export CARGO_PROFILE_RELEASE_OPT_LEVEL=0 CARGO_PROFILE_RELEASE_DEBUG=0
# One folder for all: what they share is built once.
export CARGO_TARGET_DIR=/tmp/crates

while [ $# -ge 2 ]; do
	cargo install --locked --config "profile.release.package.$1.opt-level=1" \
		--root /usr/local --version "$2" "$1"
	shift 2
done
