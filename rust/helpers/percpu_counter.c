// SPDX-License-Identifier: GPL-2.0

int rust_helper_percpu_counter_init_zero(struct percpu_counter *counter)
{
	return percpu_counter_init(counter, 0, GFP_KERNEL);
}

void rust_helper_percpu_counter_add_local(struct percpu_counter *counter, s64 amount)
{
	percpu_counter_add_local(counter, amount);
}
