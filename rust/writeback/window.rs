// SPDX-License-Identifier: GPL-2.0

//! The end of a range that is written into blocks that hold no data yet.

use super::ends::{EndChain, Written};
use crate::{
    bindings,
    fs::{FileSystem, INode, SuperBlock},
    memalloc::with_nofs,
};
use core::ptr::NonNull;
use kernel::{
    container_of, impl_has_work,
    prelude::*,
    sync::{new_spinlock_irq, Arc, SpinLockIrq},
    workqueue::{new_work, Queue, Work, WorkItem},
};

/// A filesystem that writes into unwritten blocks and says afterwards that they hold data.
pub trait WindowOps: FileSystem {
    /// What a conversion needs and must have before the data is sent, such as a reserved handle.
    /// Dropped if nothing was sent.
    type Payload: Send;

    /// The data of a window is on the device: makes the blocks of `written` ones that hold data,
    /// and raises the size on disk.
    ///
    /// Called once for a window, by a worker of [`WindowOps::conversion_queue`], with no lock held
    /// and all folios of the window under write-back; that ends after the call. Takes no folio
    /// lock and waits for no write-back.
    ///
    /// # Errors
    ///
    /// An error is recorded in the page cache: all of the window counts as failed.
    fn convert(inode: &INode<Self>, payload: Self::Payload, written: &Written) -> Result;

    /// The queue that conversions run on. Memory reclaim waits for it, and it is empty before what
    /// a conversion needs goes.
    fn conversion_queue(sb: &SuperBlock<Self>) -> &Queue;
}

/// What changes in a window while its bios are under way.
struct State<P> {
    /// Bios that are not done, and one more while the submitter still adds some.
    pending: usize,
    /// Bios that are done.
    ends: EndChain,
    /// Taken when the window is over.
    payload: Option<P>,
}

// Nothing in it is pinned.
impl<P> Unpin for State<P> {}

/// The end that the bios of one range share.
///
/// # Invariants
///
/// While `state.pending` is not zero or `state.ends` is not empty, `inode` is live: the submitter
/// borrows it, or a folio of its page cache is under write-back, which eviction waits for.
#[pin_data]
pub(super) struct Window<T: WindowOps> {
    inode: NonNull<bindings::inode>,
    #[pin]
    state: SpinLockIrq<State<T::Payload>>,
    #[pin]
    work: Work<Window<T>>,
}

// SAFETY: The inode is shared between tasks by design, and the payload may change tasks.
unsafe impl<T: WindowOps> Send for Window<T> {}
// SAFETY: Everything that changes is behind the lock.
unsafe impl<T: WindowOps> Sync for Window<T> {}

impl_has_work! {
    impl{T: WindowOps} HasWork<Window<T>> for Window<T> { self.work }
}

impl<T: WindowOps> Window<T> {
    /// A new window, with the submitter's count taken: [`Window::close`] gives it back. Called
    /// from `writepages`, where no allocation enters a filesystem.
    pub(super) fn new(inode: &INode<T>, payload: T::Payload) -> Result<Arc<Self>> {
        let inode = NonNull::new(inode.as_ptr()).ok_or(EINVAL)?;
        let state = State {
            pending: 1,
            ends: EndChain::new(),
            payload: Some(payload),
        };
        Arc::pin_init(
            pin_init!(Self {
                inode,
                state <- new_spinlock_irq!(state, "Window::state"),
                work <- new_work!("Window::work"),
            }),
            GFP_KERNEL,
        )
    }

    /// Makes the window the end of an ioend that is about to be submitted.
    ///
    /// # Safety
    ///
    /// `ioend` is ours and not submitted yet; all of it is in the page cache of the window's inode.
    pub(super) unsafe fn attach(window: &Arc<Self>, ioend: *mut bindings::iomap_ioend) {
        {
            let mut state = window.state.lock();
            state.pending = state.pending.saturating_add(1);
        }
        // SAFETY: The ioend is ours.
        unsafe {
            (*ioend).io_private = Arc::into_raw(window.clone()).cast_mut().cast();
            (*ioend).io_bio.bi_end_io = Some(Self::end_bio);
            bindings::bio_complete_anywhere(&raw mut (*ioend).io_bio);
        }
    }

    /// No bio is added any more. If none was, the payload is dropped here.
    pub(super) fn close(window: Arc<Self>) {
        let unused = {
            let mut state = window.state.lock();
            state.pending = state.pending.saturating_sub(1);
            match (state.pending, state.ends.is_empty()) {
                (0, false) => None,
                (0, true) => state.payload.take(),
                _ => return,
            }
        };
        match unused {
            Some(payload) => drop(payload),
            None => Self::enqueue(window),
        }
    }

    /// Block layer callback; in interrupt context.
    ///
    /// # Safety
    ///
    /// `bio` is in an ioend that [`Window::attach`] was called with, and is done.
    unsafe extern "C" fn end_bio(bio: *mut bindings::bio) {
        // SAFETY: By the function's requirements; `io_private` is the reference `attach` made.
        let (ioend, window) = unsafe {
            let ioend = container_of!(bio, bindings::iomap_ioend, io_bio);
            (*ioend).io_error = bindings::blk_status_to_errno((*bio).bi_status);
            (ioend, Arc::<Self>::from_raw((*ioend).io_private.cast()))
        };
        let last = {
            let mut state = window.state.lock();
            // SAFETY: The bio is done, so that the ioend is ours and passes to the chain.
            unsafe { state.ends.push(ioend) };
            state.pending = state.pending.saturating_sub(1);
            state.pending == 0
        };
        if last {
            Self::enqueue(window);
        }
    }

    /// Hands the window to the worker. Its count of bios has just become zero, which happens once.
    fn enqueue(window: Arc<Self>) {
        // SAFETY: By the type invariant the inode is live: there are ends.
        let inode = unsafe { INode::<T>::from_raw(window.inode.as_ptr()) };
        // It is not in a queue yet, so that this does not fail.
        let _ = T::conversion_queue(inode.super_block()).enqueue(window);
    }
}

impl<T: WindowOps> WorkItem for Window<T> {
    type Pointer = Arc<Self>;

    fn run(this: Arc<Self>) {
        let (ends, payload) = {
            let mut state = this.state.lock();
            (state.ends.take(), state.payload.take())
        };
        // SAFETY: The folios of `ends` are under write-back until `written` is dropped, and the
        // reference is not used after that.
        let inode = unsafe { INode::<T>::from_raw(this.inode.as_ptr()) };
        pin_init::stack_pin_init!(let written = Written::new(ends));
        if let Some(payload) = payload {
            if let Err(error) = with_nofs(|| T::convert(inode, payload, &written)) {
                written.as_mut().fail(error);
            }
        }
    }
}
