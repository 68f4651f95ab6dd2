// SPDX-License-Identifier: GPL-2.0

/* A queue that memory reclaim may wait for, with workers on any CPU. */
struct workqueue_struct *rust_helper_alloc_reclaim_workqueue(const char *name)
{
	return alloc_workqueue("%s", WQ_MEM_RECLAIM | WQ_UNBOUND, 0, name);
}
