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

# For tests that do random things: where to begin, and how much.
SEED ?=
SEEDS ?=
STEPS ?=
settings = $(foreach name,SEED SEEDS STEPS,$(if $($(name)),--set "$(name)=$($(name))"))

built := build/$(if $(KDIR),kdir,stock)

# Recipes start the kernel's build and scripts, which choose their own jobs; a
# target's prerequisites are made one after the other.
.NOTPARALLEL:
.PHONY: all modules help setup run test test-long xfstests lint shell install clean

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

lint: ## check format, clippy, the two walls, comments and words
	@tests/lint

shell: modules ## a prompt in the VM: module loaded, disks vdb and vdc, folder build/shared at /shared
	@qemu/shell $(CURDIR)/$(built)/ext4rs.ko

install: modules ## install the module for `mount -t ext4rs`; INSTALL_MOD_PATH=root
	@INSTALL_MOD_PATH="$(INSTALL_MOD_PATH)" bash qemu/install.sh $(built)

clean: ## remove what was built here (not the sysroot in the cache folder)
	rm -rf build

help: ## this list
	@sed -n 's/^\([a-z-]*\):[^#]*## /\1\t/p' $(firstword $(MAKEFILE_LIST)) | awk -F '\t' '{ printf "make %-10s %s\n", $$1, $$2 }'
