// SPDX-License-Identifier: GPL-2.0

#include <linux/capability.h>
#include <linux/cred.h>
#include <linux/uidgid.h>
#include <linux/user_namespace.h>

bool rust_helper_cred_may_use_reserve(uid_t uid, gid_t gid)
{
	kgid_t group = make_kgid(&init_user_ns, gid);

	if (uid_eq(make_kuid(&init_user_ns, uid), current_fsuid()))
		return true;
	if (!gid_eq(group, GLOBAL_ROOT_GID) && in_group_p(group))
		return true;
	return capable(CAP_SYS_RESOURCE);
}
