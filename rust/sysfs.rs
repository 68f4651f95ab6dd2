// SPDX-License-Identifier: GPL-2.0

//! Numbers that a filesystem shows under `/sys/fs/`.
//!
//! `/sys/fs/<type>` is a [`Root`], made when the type is registered; each volume has a [`Directory`]
//! in it, with groups of read-only files.
//!
//! C headers: [`include/linux/kobject.h`](srctree/include/linux/kobject.h),
//! [`include/linux/sysfs.h`](srctree/include/linux/sysfs.h)

use crate::{
    bindings,
    fs::{registration, FileSystem, SuperBlock},
};
use core::{marker::PhantomData, ptr, ptr::NonNull};
use kernel::{
    container_of,
    error::to_result,
    ffi,
    prelude::*,
    sync::{Arc, Completion},
    types::Opaque,
};

/// The directory of a filesystem type, `/sys/fs/<type>`.
///
/// # Invariants
///
/// Owns one reference to a kobject that is in sysfs.
pub struct Root(NonNull<bindings::kobject>);

// SAFETY: Kobjects are shared between tasks by design.
unsafe impl Send for Root {}
// SAFETY: As above.
unsafe impl Sync for Root {}

impl Root {
    /// Makes the directory.
    pub fn new(name: &CStr) -> Result<Self> {
        // SAFETY: The name is copied; `fs_kobj` is made at boot and stays.
        let ptr =
            unsafe { bindings::kobject_create_and_add(name.as_char_ptr(), bindings::fs_kobj) };
        // INVARIANT: The reference is ours.
        Ok(Self(NonNull::new(ptr).ok_or(ENOMEM)?))
    }
}

impl Drop for Root {
    fn drop(&mut self) {
        // SAFETY: By the type invariant the reference is ours.
        unsafe { bindings::kobject_put(self.0.as_ptr()) };
    }
}

/// One file: its name, and how its number is read from the volume's data.
pub type Attribute<D> = (&'static CStr, fn(&D) -> u64);

/// Files that belong together.
pub struct Group<D: 'static> {
    /// The directory that they are in, or `None` for the volume's own.
    pub name: Option<&'static CStr>,
    /// The files.
    pub attributes: &'static [Attribute<D>],
}

/// A file as C knows it.
#[repr(C)]
struct Slot<D> {
    // First, so that a pointer to it is a pointer to the slot.
    attribute: bindings::attribute,
    show: fn(&D) -> u64,
}

/// A group as C knows it. `group` points into the other two, which do not change.
struct GroupSlots<D> {
    _slots: KVec<Slot<D>>,
    _pointers: KVec<*mut bindings::attribute>,
    group: bindings::attribute_group,
}

impl<D> GroupSlots<D> {
    fn new(group: &Group<D>) -> Result<Self> {
        let mut slots = KVec::with_capacity(group.attributes.len(), GFP_KERNEL)?;
        for &(name, show) in group.attributes {
            let mut attribute = bindings::attribute::default();
            // SAFETY: The attribute is ours; the name is static.
            unsafe { bindings::sysfs_attr_set(&raw mut attribute, name.as_char_ptr(), 0o444) };
            slots.push(Slot { attribute, show }, GFP_KERNEL)?;
        }
        let mut pointers = KVec::with_capacity(slots.len() + 1, GFP_KERNEL)?;
        for slot in slots.iter_mut() {
            pointers.push(ptr::from_mut(slot).cast(), GFP_KERNEL)?;
        }
        pointers.push(ptr::null_mut(), GFP_KERNEL)?;
        let mut out = bindings::attribute_group {
            name: group.name.map_or(ptr::null(), |name| name.as_char_ptr()),
            ..Default::default()
        };
        out.__bindgen_anon_2.attrs = pointers.as_mut_ptr();
        Ok(Self {
            _slots: slots,
            _pointers: pointers,
            group: out,
        })
    }
}

/// The directory of one volume, `/sys/fs/<type>/<name>`. Dropping it removes it, and waits for
/// whoever reads a file in it.
///
/// # Invariants
///
/// `kobject` is initialised, and its reference count was not given up. Until it is, nothing else
/// of the value changes.
#[pin_data(PinnedDrop)]
pub struct Directory<D: Send + Sync + 'static> {
    #[pin]
    kobject: Opaque<bindings::kobject>,
    #[pin]
    released: Completion,
    data: Arc<D>,
    groups: KVec<GroupSlots<D>>,
    _data: PhantomData<D>,
}

// SAFETY: C only reads what is in it; `D` is `Send + Sync`.
unsafe impl<D: Send + Sync> Send for Directory<D> {}
// SAFETY: As above.
unsafe impl<D: Send + Sync> Sync for Directory<D> {}

impl<D: Send + Sync> Directory<D> {
    const OPS: bindings::sysfs_ops = bindings::sysfs_ops {
        show: Some(Self::show),
        store: None,
    };

    const TYPE: bindings::kobj_type = bindings::kobj_type {
        release: Some(Self::release),
        sysfs_ops: &Self::OPS,
        ..pin_init::zeroed()
    };

    /// Makes the directory of a volume, named after its device, with its files, which show numbers
    /// of `data`.
    pub fn new<T: FileSystem>(
        sb: &SuperBlock<T>,
        data: Arc<D>,
        groups: &'static [Group<D>],
    ) -> Result<Pin<KBox<Self>>> {
        // SAFETY: The type of a superblock of `T` is that of a registration, which outlives it.
        let root = unsafe { registration::sysfs_root::<T>((*sb.as_ptr()).s_type.cast()) };
        let mut slots = KVec::with_capacity(groups.len(), GFP_KERNEL)?;
        for group in groups {
            slots.push(GroupSlots::new(group)?, GFP_KERNEL)?;
        }
        let this = KBox::pin_init(
            pin_init!(Self {
                kobject <- Opaque::ffi_init(|kobject: *mut bindings::kobject| {
                    // SAFETY: `kobject` is memory for one, pinned from now on. INVARIANT: It is
                    // initialised with one reference, which `drop` gives up.
                    unsafe {
                        kobject.write_bytes(0, 1);
                        bindings::kobject_init(kobject, &Self::TYPE);
                    }
                }),
                released <- Completion::new(),
                data,
                groups: slots,
                _data: PhantomData,
            }),
            GFP_KERNEL,
        )?;
        this.add(root, sb.id())?;
        Ok(this)
    }

    /// Shows the directory. After an error `drop` takes back what was done.
    fn add(&self, root: &Root, name: &CStr) -> Result {
        // SAFETY: Kobject and parent are live; the name is copied.
        to_result(unsafe {
            bindings::kobject_add(
                self.kobject.get(),
                root.0.as_ptr(),
                c"%s".as_char_ptr(),
                name.as_char_ptr(),
            )
        })?;
        for slots in &self.groups {
            // SAFETY: The kobject is in sysfs. The group and what it points to live, unchanged,
            // until the kobject is deleted.
            to_result(unsafe { bindings::sysfs_create_group(self.kobject.get(), &slots.group) })?;
        }
        Ok(())
    }

    /// # Safety
    ///
    /// Called by sysfs for a file of a `Directory<D>`, which is not deleted before the call ends:
    /// `kobject` is its kobject, `attribute` is in a [`Slot<D>`], `buffer` is a page.
    unsafe extern "C" fn show(
        kobject: *mut bindings::kobject,
        attribute: *mut bindings::attribute,
        buffer: *mut ffi::c_char,
    ) -> isize {
        // SAFETY: By the function's requirements.
        let (this, slot) = unsafe {
            (
                &*container_of!(Opaque::cast_from(kobject), Self, kobject),
                &*attribute.cast::<Slot<D>>(),
            )
        };
        let value = (slot.show)(&this.data);
        // SAFETY: By the function's requirements; the argument is of the format's type.
        unsafe { bindings::sysfs_emit(buffer, c"%llu\n".as_char_ptr(), value) as isize }
    }

    /// # Safety
    ///
    /// Called when the last reference to the kobject of a `Directory<D>` is gone; `drop` waits.
    unsafe extern "C" fn release(kobject: *mut bindings::kobject) {
        // SAFETY: By the function's requirements.
        let this = unsafe { &*container_of!(Opaque::cast_from(kobject), Self, kobject) };
        this.released.complete_all();
    }
}

#[pinned_drop]
impl<D: Send + Sync> PinnedDrop for Directory<D> {
    fn drop(self: Pin<&mut Self>) {
        // SAFETY: By the type invariant the kobject is initialised. Deleting it, if it was added,
        // removes all files and waits for their readers; the reference is given up once.
        unsafe {
            bindings::kobject_del(self.kobject.get());
            bindings::kobject_put(self.kobject.get());
        }
        self.released.wait_for_completion();
    }
}
