# SPDX-License-Identifier: GPL-2.0
#
# What a person types. How the module itself is built stands in Kbuild, which
# the kernel's build reads instead of this file.

# A kernel tree of one's own; empty: the stock Debian kernel in the sysroot.
KDIR ?=
# One test by name; empty: all.
T ?=
# The filesystem under test; ext4 tests the tests.
FS ?= ext4rs

# xfstests: a built tree; which tests; and how.
XFSTESTS ?=
TESTS ?= -g quick
CONFIG ?= 4k
JOBS ?= 1
TIMEOUT_FACTOR ?= 1
RESUME ?=

# make bench: which workloads, filesystems and disk; rounds; the large files' size; COUNT=1: instructions.
W ?=
ROUNDS ?=
DISK ?=
SIZE ?=
COUNT ?=
SCALE ?=
# make bench-compare: two results.json.
A ?=
B ?=

# For tests that do random things: where to begin, and how much.
SEED ?=
SEEDS ?=
STEPS ?=
settings = $(foreach name,SEED SEEDS STEPS,$(if $($(name)),--set "$(name)=$($(name))"))

built := build/$(if $(KDIR),kdir,stock)

# Recipes start the kernel's build and scripts, which choose their own jobs; a
# target's prerequisites are made one after the other.
.NOTPARALLEL:
.PHONY: all modules help setup run test test-long xfstests bench bench-quick bench-compare lint shell install clean

all: modules

modules: ## build the module (the default); KDIR=/path/to/build: for your own kernel
ifeq ($(KDIR),)
	@qemu/enter bash qemu/build.sh modules
else
	@bash qemu/build-kdir.sh "$(KDIR)" $(MAKEOVERRIDES)
endif
	@echo "module: $(CURDIR)/$(built)/ext4rs.ko, for the kernel $$(cat $(built)/release)"

setup: ## make the sysroot: tools, stock kernel, kernel source (done when needed, too)
	@qemu/setup.sh --tests
	@echo "setup: ready"

run: modules ## do the main job in a VM: mkfs, mount, write, fsync, unmount, check; print a table
	@qemu/vm --name main --mem 2G --disk 4G --env FS=$(FS) --env MODULE=$(CURDIR)/$(built)/ext4rs.ko -- bash tests/run-main

test: ## run the tests; T=name: only that one; FS=ext4: check the tests themselves
	@tests/run --fs "$(FS)" $(if $(T),--only "$(T)") $(settings)

test-long: ## run the tests, the long ones too
	@tests/run --fs "$(FS)" --long $(settings)

xfstests: ## run xfstests; XFSTESTS=a built tree; TESTS="-g quick" CONFIG=4k FS=ext4rs JOBS=1 RESUME=1
	@tests/xfstests/run --look "$(XFSTESTS)"
	@$(if $(filter ext4rs,$(FS)),$(MAKE) --no-print-directory modules)
	@tests/xfstests/run "$(XFSTESTS)" --tests "$(TESTS)" --config "$(CONFIG)" --fs "$(FS)" --jobs "$(JOBS)" \
		--factor "$(TIMEOUT_FACTOR)" --resume "$(RESUME)"

# FS has a default for the tests; a bench takes all filesystems unless some are named.
narrowed = $(if $(W),--workloads "$(W)") $(if $(filter-out file default,$(origin FS)),--fs "$(FS)") \
	$(if $(ROUNDS),--rounds "$(ROUNDS)") $(if $(DISK),--disk "$(DISK)") $(if $(SIZE),--size "$(SIZE)") \
	$(if $(COUNT),--count) $(if $(SCALE),--scale "$(SCALE)")

bench: modules ## measure beside ext4, XFS, btrfs; W=W1,W4 FS=ext4rs,ext4 ROUNDS=5 DISK=fast SIZE=512M COUNT=1
	@tests/bench/run $(narrowed)

bench-quick: modules ## the same, short: four workloads, one round
	@tests/bench/run --quick $(narrowed)

bench-compare: ## what changed beyond the noise; A=old.json B=new.json
	@$(if $(and $(A),$(B)),,echo "bench-compare: A=old.json B=new.json, please" >&2; exit 2;) tests/bench/run --compare \
		"$(abspath $(A))" "$(abspath $(B))"

lint: ## check format, clippy, the two walls, comments and words
	@tests/lint

shell: modules ## a prompt in the VM: module loaded, disks vdb and vdc, folder build/shared at /shared
	@qemu/shell $(CURDIR)/$(built)/ext4rs.ko

install: modules ## install the module for `mount -t ext4rs`; INSTALL_MOD_PATH=root
	@INSTALL_MOD_PATH="$(INSTALL_MOD_PATH)" bash qemu/install.sh $(built)

clean: ## remove what was built here (not the sysroot in the cache folder)
	rm -rf build

help: ## this list
	@sed -n 's/^\([a-z-]*\):[^#]*## /\1\t/p' $(firstword $(MAKEFILE_LIST)) | awk -F '\t' '{ printf "make %-13s %s\n", $$1, $$2 }'
