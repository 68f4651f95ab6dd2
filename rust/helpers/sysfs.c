// SPDX-License-Identifier: GPL-2.0

/* With a lock class for lockdep, which wants one for what is not static. */
void rust_helper_sysfs_attr_set(struct attribute *attr, const char *name,
				umode_t mode)
{
	sysfs_attr_init(attr);
	attr->name = name;
	attr->mode = mode;
}
