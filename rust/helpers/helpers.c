// SPDX-License-Identifier: GPL-2.0
/*
 * Non-trivial C macros and inline functions cannot be called from Rust; each
 * gets a symbol here. One file per C header's subject, all included from this
 * one, as in the kernel's rust/helpers/.
 */

#include <linux/buffer_head.h>
#include <linux/fs.h>
#include <linux/fs_context.h>
#include <linux/iomap.h>
#include <linux/jbd2.h>
#include <linux/pagemap.h>
#include <linux/writeback.h>

#include "buffer_head.c"
#include "cred.c"
#include "fs.c"
#include "folio.c"
#include "iomap.c"
#include "jbd2.c"
#include "mbcache.c"
#include "workqueue.c"
#include "writeback.c"
#include "percpu_counter.c"
#include "sysfs.c"
