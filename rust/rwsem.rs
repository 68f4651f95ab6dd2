// SPDX-License-Identifier: GPL-2.0

//! A sleeping lock with many readers or one writer.
//!
//! C header: [`include/linux/rwsem.h`](srctree/include/linux/rwsem.h)

use crate::bindings;
use core::{
    cell::UnsafeCell,
    marker::PhantomPinned,
    ops::{Deref, DerefMut},
};
use kernel::{
    prelude::*,
    sync::LockClassKey,
    types::{NotThreadSafe, Opaque},
};
use pin_init::Wrapper;

/// A value behind the kernel's `struct rw_semaphore`.
///
/// Readers share the value, a writer has it alone. Both sides may sleep, while they wait and while
/// they hold the lock. A waiting writer holds up new readers, so a task that has it for reading
/// must not take it for reading again.
///
/// # Examples
///
/// ```ignore
/// #[pin_data]
/// struct Map {
///     #[pin]
///     root: RwSemaphore<[u8; 60]>,
/// }
///
/// pin_init!(Map {
///     root <- RwSemaphore::new([0; 60], c"map", kernel::static_lock_class!()),
/// })
/// ```
#[pin_data]
pub struct RwSemaphore<T: ?Sized> {
    /// The lock. Its list of waiters points back at it.
    #[pin]
    state: Opaque<bindings::rw_semaphore>,

    #[pin]
    _pin: PhantomPinned,

    /// What the lock protects.
    #[pin]
    data: UnsafeCell<T>,
}

// SAFETY: Moving the lock between tasks moves the value, and nothing else that a task owns.
unsafe impl<T: ?Sized + Send> Send for RwSemaphore<T> {}

// SAFETY: A shared lock gives several tasks `&T` at once (so `T: Sync`) and one of them `&mut T`
// after another (so `T: Send`).
unsafe impl<T: ?Sized + Send + Sync> Sync for RwSemaphore<T> {}

impl<T> RwSemaphore<T> {
    /// Makes a lock, free, around `value`. `name` and `key` are lockdep's: one class for each place
    /// in the code that makes locks.
    pub fn new(
        value: impl PinInit<T>,
        name: &'static CStr,
        key: Pin<&'static LockClassKey>,
    ) -> impl PinInit<Self> {
        pin_init!(Self {
            state <- Opaque::ffi_init(|slot| {
                // SAFETY: `slot` is valid for the write, and stays where it is; name and key are
                // static.
                unsafe { bindings::__init_rwsem(slot, name.as_char_ptr(), key.as_ptr()) }
            }),
            _pin: PhantomPinned,
            data <- UnsafeCell::pin_init(value),
        })
    }
}

impl<T: ?Sized> RwSemaphore<T> {
    /// Takes the lock for reading. Sleeps while a writer has it or waits for it.
    pub fn read(&self) -> ReadGuard<'_, T> {
        // SAFETY: The lock was initialised by `new`, the only constructor.
        unsafe { bindings::down_read(self.state.get()) };
        // INVARIANT: Just taken.
        ReadGuard {
            lock: self,
            _not_send: NotThreadSafe,
        }
    }

    /// Takes the lock for writing. Sleeps while anybody else has it.
    pub fn write(&self) -> WriteGuard<'_, T> {
        // SAFETY: The lock was initialised by `new`, the only constructor.
        unsafe { bindings::down_write(self.state.get()) };
        // INVARIANT: Just taken.
        WriteGuard {
            lock: self,
            _not_send: NotThreadSafe,
        }
    }

    /// Takes the lock for writing if nobody has it. Does not sleep.
    pub fn try_write(&self) -> Option<WriteGuard<'_, T>> {
        // SAFETY: The lock was initialised by `new`, the only constructor.
        let taken = unsafe { bindings::down_write_trylock(self.state.get()) } != 0;
        // INVARIANT: Just taken.
        taken.then(|| WriteGuard {
            lock: self,
            _not_send: NotThreadSafe,
        })
    }
}

/// The lock held for reading, until dropped.
///
/// # Invariants
///
/// The task that made the guard holds the lock for reading.
#[must_use = "the lock is released as soon as the guard is unused"]
pub struct ReadGuard<'a, T: ?Sized> {
    lock: &'a RwSemaphore<T>,
    _not_send: NotThreadSafe,
}

// SAFETY: Through a shared guard there is only `&T`.
unsafe impl<T: ?Sized + Sync> Sync for ReadGuard<'_, T> {}

impl<T: ?Sized> Deref for ReadGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: By the invariant no writer has the value.
        unsafe { &*self.lock.data.get() }
    }
}

impl<T: ?Sized> Drop for ReadGuard<'_, T> {
    fn drop(&mut self) {
        // SAFETY: By the invariant this task holds the lock for reading.
        unsafe { bindings::up_read(self.lock.state.get()) };
    }
}

/// The lock held for writing, until dropped.
///
/// # Invariants
///
/// The task that made the guard holds the lock for writing.
#[must_use = "the lock is released as soon as the guard is unused"]
pub struct WriteGuard<'a, T: ?Sized> {
    lock: &'a RwSemaphore<T>,
    _not_send: NotThreadSafe,
}

// SAFETY: Through a shared guard there is only `&T`.
unsafe impl<T: ?Sized + Sync> Sync for WriteGuard<'_, T> {}

impl<T: ?Sized> Deref for WriteGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: By the invariant nobody else has the value.
        unsafe { &*self.lock.data.get() }
    }
}

impl<T: ?Sized + Unpin> DerefMut for WriteGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: By the invariant nobody else has the value; `T` may be moved.
        unsafe { &mut *self.lock.data.get() }
    }
}

impl<T: ?Sized> Drop for WriteGuard<'_, T> {
    fn drop(&mut self) {
        // SAFETY: By the invariant this task holds the lock for writing.
        unsafe { bindings::up_write(self.lock.state.get()) };
    }
}
