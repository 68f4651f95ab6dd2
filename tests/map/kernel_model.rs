// SPDX-License-Identifier: GPL-2.0

//! What the mapping uses of the kernel crate.

use std::cell::Cell;

thread_local! {
    static SPINLOCKS: Cell<u32> = const { Cell::new(0) };
    static NODES: Cell<i64> = const { Cell::new(0) };
    static MEMORY: Cell<u32> = const { Cell::new(u32::MAX) };
}

/// Fails the test if the thread holds a spinlock: to be called where the kernel may sleep.
pub(crate) fn might_sleep() {
    assert_eq!(SPINLOCKS.get(), 0, "sleeping under a spinlock");
}

/// Notes that a spinlock was taken; `nested` says that it may be an inner one.
pub(crate) fn enter_atomic(nested: bool) {
    assert!(nested || SPINLOCKS.get() == 0, "spinlock inside a spinlock");
    SPINLOCKS.set(SPINLOCKS.get() + 1);
}

/// Notes that a spinlock was released.
pub(crate) fn leave_atomic() {
    SPINLOCKS.set(SPINLOCKS.get() - 1);
}

/// Nodes of trees, in use or set aside, that this thread has.
pub(crate) fn live_nodes() -> i64 {
    NODES.get()
}

/// Lets the next `count` allocations of memory succeed and those after them fail.
pub(crate) fn limit_memory(count: u32) {
    MEMORY.set(count);
}

fn allocate_memory() -> prelude::Result {
    might_sleep();
    match MEMORY.get() {
        0 => Err(prelude::ENOMEM),
        u32::MAX => Ok(()),
        left => {
            MEMORY.set(left - 1);
            Ok(())
        }
    }
}

pub(crate) mod prelude {
    pub(crate) use crate::{fmt, pin_init};
    pub(crate) use macros::pin_data;

    /// An errno.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub(crate) struct Error(pub(crate) i32);

    pub(crate) type Result<T = (), E = Error> = core::result::Result<T, E>;

    pub(crate) const EIO: Error = Error(5);
    pub(crate) const ENOMEM: Error = Error(12);
    pub(crate) const EINVAL: Error = Error(22);
    pub(crate) const EFBIG: Error = Error(27);
    pub(crate) const ENOSPC: Error = Error(28);
    pub(crate) const EFSCORRUPTED: Error = Error(117);

    /// Flags of an allocation.
    #[derive(Clone, Copy)]
    pub(crate) struct Flags;
    pub(crate) const GFP_KERNEL: Flags = Flags;

    /// An initialiser is a value here.
    pub(crate) trait PinInit<T> {
        fn value(self) -> T;
    }

    impl<T> PinInit<T> for T {
        fn value(self) -> T {
            self
        }
    }

    pub(crate) type KVec<T> = Vec<T>;

    /// What `KVec` has and `Vec` has not.
    pub(crate) trait FromElem<T>: Sized {
        fn from_elem(value: T, len: usize, flags: Flags) -> Result<Self>;
    }

    impl<T: Clone> FromElem<T> for Vec<T> {
        fn from_elem(value: T, len: usize, _: Flags) -> Result<Self> {
            super::allocate_memory()?;
            Ok(vec![value; len])
        }
    }
}

pub(crate) mod fmt {
    pub(crate) use core::fmt::Arguments;
}

#[macro_export]
macro_rules! fmt {
    ($($arg:tt)*) => { format_args!($($arg)*) };
}

#[macro_export]
macro_rules! pin_init {
    (Self { $($fields:tt)* }) => {
        $crate::pin_init!(@ [] $($fields)*)
    };
    (@ [$($done:tt)*] $field:ident: $value:expr, $($rest:tt)*) => {
        $crate::pin_init!(@ [$($done)* $field: $value,] $($rest)*)
    };
    (@ [$($done:tt)*] $field:ident <- $init:expr, $($rest:tt)*) => {
        $crate::pin_init!(@ [$($done)* $field: $init,] $($rest)*)
    };
    (@ [$($done:tt)*]) => {
        Self { $($done)* }
    };
}

#[macro_export]
macro_rules! new_spinlock {
    ($value:expr, $name:literal) => {
        $crate::sync::SpinLock::new($value)
    };
}

#[macro_export]
macro_rules! static_lock_class {
    () => {
        ()
    };
}

pub(crate) mod sync {
    use std::sync::{Mutex, MutexGuard};

    /// A lock under which nothing may sleep.
    pub(crate) struct SpinLock<T>(Mutex<T>);

    impl<T> SpinLock<T> {
        pub(crate) fn new(value: T) -> Self {
            Self(Mutex::new(value))
        }

        pub(crate) fn lock(&self) -> lock::Guard<'_, T, lock::spinlock::SpinLockBackend> {
            super::enter_atomic(false);
            lock::Guard {
                inner: self.0.try_lock().expect("spinlock taken twice"),
                _backend: lock::spinlock::SpinLockBackend,
            }
        }
    }

    pub(crate) mod lock {
        use super::MutexGuard;
        use std::ops::{Deref, DerefMut};

        pub(crate) mod spinlock {
            pub(crate) struct SpinLockBackend;
        }

        pub(crate) struct Guard<'a, T, B> {
            pub(super) inner: MutexGuard<'a, T>,
            pub(super) _backend: B,
        }

        impl<T, B> Drop for Guard<'_, T, B> {
            fn drop(&mut self) {
                super::super::leave_atomic();
            }
        }

        impl<T, B> Deref for Guard<'_, T, B> {
            type Target = T;
            fn deref(&self) -> &T {
                &self.inner
            }
        }

        impl<T, B> DerefMut for Guard<'_, T, B> {
            fn deref_mut(&mut self) -> &mut T {
                &mut self.inner
            }
        }
    }

    pub(crate) mod atomic {
        use std::sync::atomic::{AtomicU32, Ordering::SeqCst};

        pub(crate) mod ordering {
            pub(crate) struct Acquire;
            pub(crate) struct Release;
        }

        pub(crate) struct Atomic<T>(AtomicU32, std::marker::PhantomData<T>);

        impl Atomic<u32> {
            pub(crate) fn new(value: u32) -> Self {
                Self(AtomicU32::new(value), std::marker::PhantomData)
            }

            pub(crate) fn load(&self, _: ordering::Acquire) -> u32 {
                self.0.load(SeqCst)
            }

            pub(crate) fn fetch_add(&self, n: u32, _: ordering::Release) -> u32 {
                self.0.fetch_add(n, SeqCst)
            }
        }
    }
}

/// `kernel::rbtree` on a `BTreeMap`.
pub(crate) mod rbtree {
    use super::{
        prelude::{Flags, Result},
        NODES,
    };
    use std::{collections::BTreeMap, marker::PhantomData};

    /// The memory of one node; counted.
    struct Memory;

    impl Memory {
        fn new() -> Self {
            NODES.set(NODES.get() + 1);
            Self
        }
    }

    impl Drop for Memory {
        fn drop(&mut self) {
            NODES.set(NODES.get() - 1);
        }
    }

    pub(crate) struct RBTreeNodeReservation<K, V>(Memory, PhantomData<(K, V)>);

    impl<K, V> RBTreeNodeReservation<K, V> {
        pub(crate) fn new(_: Flags) -> Result<Self> {
            super::allocate_memory()?;
            Ok(Self(Memory::new(), PhantomData))
        }

        pub(crate) fn into_node(self, key: K, value: V) -> RBTreeNode<K, V> {
            RBTreeNode {
                memory: self.0,
                key,
                value,
            }
        }
    }

    pub(crate) struct RBTreeNode<K, V> {
        memory: Memory,
        key: K,
        value: V,
    }

    impl<K, V> RBTreeNode<K, V> {
        pub(crate) fn into_reservation(self) -> RBTreeNodeReservation<K, V> {
            RBTreeNodeReservation(self.memory, PhantomData)
        }
    }

    pub(crate) struct RBTree<K, V>(BTreeMap<K, (V, Memory)>);

    impl<K: Ord, V> Default for RBTree<K, V> {
        fn default() -> Self {
            Self(BTreeMap::new())
        }
    }

    impl<K: Ord, V> RBTree<K, V> {
        pub(crate) fn is_empty(&self) -> bool {
            self.0.is_empty()
        }

        pub(crate) fn insert(&mut self, node: RBTreeNode<K, V>) {
            let old = self.0.insert(node.key, (node.value, node.memory));
            assert!(old.is_none(), "a node of this key is there");
        }

        pub(crate) fn remove_node(&mut self, key: &K) -> Option<RBTreeNode<K, V>> {
            let (key, (value, memory)) = self.0.remove_entry(key)?;
            Some(RBTreeNode { memory, key, value })
        }

        pub(crate) fn cursor_lower_bound(&self, key: &K) -> Option<Cursor<'_, K, V>> {
            let (key, value) = self.0.range(key..).next()?;
            Some(Cursor {
                tree: self,
                at: (key, &value.0),
            })
        }

        pub(crate) fn cursor_back(&self) -> Option<Cursor<'_, K, V>> {
            let (key, value) = self.0.iter().next_back()?;
            Some(Cursor {
                tree: self,
                at: (key, &value.0),
            })
        }

        /// Not in the kernel's: all entries.
        pub(crate) fn entries(&self) -> impl Iterator<Item = (&K, &V)> {
            self.0.iter().map(|(key, value)| (key, &value.0))
        }
    }

    pub(crate) struct Cursor<'a, K, V> {
        tree: &'a RBTree<K, V>,
        at: (&'a K, &'a V),
    }

    impl<'a, K: Ord, V> Cursor<'a, K, V> {
        pub(crate) fn current(&self) -> (&'a K, &'a V) {
            self.at
        }

        pub(crate) fn peek_prev(&self) -> Option<(&'a K, &'a V)> {
            let (key, value) = self.tree.0.range(..self.at.0).next_back()?;
            Some((key, &value.0))
        }
    }
}
