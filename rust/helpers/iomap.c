// SPDX-License-Identifier: GPL-2.0

void rust_helper_iomap_bio_read_folio(struct folio *folio,
				      const struct iomap_ops *ops)
{
	iomap_bio_read_folio(folio, ops);
}

void rust_helper_iomap_bio_readahead(struct readahead_control *rac,
				     const struct iomap_ops *ops)
{
	iomap_bio_readahead(rac, ops);
}

struct file *rust_helper_vm_fault_file(const struct vm_fault *vmf)
{
	return vmf->vma->vm_file;
}

void rust_helper_sb_start_pagefault(struct super_block *sb)
{
	sb_start_pagefault(sb);
}

void rust_helper_sb_end_pagefault(struct super_block *sb)
{
	sb_end_pagefault(sb);
}
