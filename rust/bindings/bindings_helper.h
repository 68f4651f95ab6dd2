/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The C that rust/ is written against. bindgen reads this file; the helpers are
 * included so that their definitions become declarations in Rust.
 */

#include <linux/backing-dev.h>
#include <linux/bio.h>
#include <linux/blkdev.h>
#include <linux/buffer_head.h>
#include <linux/exportfs.h>
#include <linux/falloc.h>
#include <linux/fiemap.h>
#include <linux/fileattr.h>
#include <linux/filelock.h>
#include <linux/fs.h>
#include <linux/fs_context.h>
#include <linux/fs_parser.h>
#include <linux/iomap.h>
#include <linux/iversion.h>
#include <linux/jbd2.h>
#include <linux/kobject.h>
#include <linux/mbcache.h>
#include <linux/namei.h>
#include <linux/pagemap.h>
#include <linux/part_stat.h>
#include <linux/percpu_counter.h>
#include <linux/random.h>
#include <linux/posix_acl.h>
#include <linux/posix_acl_xattr.h>
#include <linux/quotaops.h>
#include <linux/ratelimit.h>
#include <linux/rwsem.h>
#include <linux/security.h>
#include <linux/seq_file.h>
#include <linux/slab.h>
#include <linux/statfs.h>
#include <linux/sysfs.h>
#include <linux/workqueue.h>
#include <linux/writeback.h>
#include <linux/xattr.h>

#include "../helpers/helpers.c"

/* Constants that are expressions bindgen does not evaluate. */
const unsigned long RUST_CONST_HELPER_SB_RDONLY = SB_RDONLY;
const unsigned long RUST_CONST_HELPER_SB_LAZYTIME = SB_LAZYTIME;
const unsigned long RUST_CONST_HELPER_SB_POSIXACL = SB_POSIXACL;
const unsigned int RUST_CONST_HELPER_FS_VALUE_FLAG = fs_value_is_flag;
const unsigned int RUST_CONST_HELPER_FS_VALUE_STRING = fs_value_is_string;
