//! One io_uring: its set-up, its two queues, buffers for receives, registered files, wake-ups from other threads.
//!
//! A [`Driver`](crate::Driver) on io_uring lends its ring to code that needs more than ops, such as sockets:
//! [`Driver::push`](crate::Driver::push) queues an entry, [`Driver::wait_events`](crate::Driver::wait_events) brings its
//! [`Event`]s. This is the low-level interface, for kernels from 5.19 on.
//!
//! The io_uring backend turns ops into entries of this ring; a borrower (`driver/lend.rs`) pushes its own. It must not know ops, the slab or the driver.
//! Invariant: `user_data` names the owner of an entry by its top two bits, so that the completion queue, which all
//! owners share, is read in one place (`queue.rs`).

mod buffers;
mod files;
mod queue;
mod setup;
mod wake;

pub use buffers::BufferRing;
pub use io_uring::{opcode, squeue, types};
pub(crate) use queue::Entry;
pub use queue::Event;
pub use wake::Waker;

use crate::config::Config;
use crate::sys;
use files::FileTable;
use io_uring::IoUring;
use std::io;
use std::mem::ManuallyDrop;
use std::os::fd::{AsRawFd, RawFd};
use std::sync::Arc;
use std::time::Duration;

/// The top two bits of `user_data`: 0x is an op's token, 10 a borrower's entry, 11 the ring's own.
pub(crate) const OWNER_BITS: u64 = 0b11 << 62;
/// Not set in an op's token.
const OPS_BIT: u64 = 1 << 63;
pub(crate) const BORROWED: u64 = 0b10 << 62;
/// Of a borrower's entry that has no completion if it succeeds.
const QUIET: u64 = 1 << 61;
const TAG_BITS: u64 = QUIET - 1;
/// The poll on the helper's descriptor.
pub(crate) const HELPER: u64 = u64::MAX;
/// A request to cancel one op, whose answer is waited for.
pub(crate) const CANCEL: u64 = u64::MAX - 1;
/// The poll on the waker's descriptor.
const WAKE: u64 = u64::MAX - 2;
/// A request to cancel, whose answer does not matter.
const IGNORED: u64 = u64::MAX - 3;

/// The `user_data` under which the ring holds a borrower's entry: what another entry names it by, such as a cancellation or
/// a removal of a timeout.
pub fn lent_user_data(tag: u64) -> u64 {
    BORROWED | (tag & TAG_BITS)
}

/// As [`lent_user_data`], for an entry with `IOSQE_CQE_SKIP_SUCCESS`: it has an event only if it fails. The driver waits for no
/// event of it; [`Driver::has_handed_over`](crate::Driver::has_handed_over) tells that it has ended.
pub fn quiet_user_data(tag: u64) -> u64 {
    QUIET | lent_user_data(tag)
}

/// An io_uring instance, used by one thread.
pub(crate) struct Ring {
    /// Dropped by hand: in a forked child only its descriptor may be closed.
    ring: ManuallyDrop<IoUring>,
    /// The index under which this thread has registered the ring's descriptor (Linux 5.18).
    registered_index: Option<u32>,
    pub(crate) opcodes: [bool; 256],
    pub(crate) iopoll: bool,
    /// Single reads and writes of any file are for this ring.
    pub(crate) transfers: bool,
    pub(crate) sqpoll: bool,
    /// io_uring_enter takes a timeout (Linux 5.11).
    timed_wait: bool,
    no_iowait: bool,
    user_spin: Duration,
    pub(crate) features: Vec<&'static str>,
    forked: bool,
    /// A filter forbids io_uring_enter since the ring was made: nothing can be submitted or cancelled any more.
    pub(crate) lost: bool,
    /// Calls of io_uring_enter so far.
    enters: u64,
    /// Borrowed entries whose last completion has not been read, without quiet ones.
    borrowed: usize,
    events: Vec<Event>,
    files: FileTable,
    /// What the kernel receives into, kept until the ring is gone.
    buffers: Vec<Arc<buffers::Memory>>,
    waker: Option<wake::Watch>,
    /// The waker was used since the borrower last collected events.
    woken: bool,
}

impl Ring {
    pub(crate) fn new(config: &Config) -> io::Result<Self> {
        setup::ring(config)
    }

    /// Calls of io_uring_enter so far.
    pub(crate) fn enters(&self) -> u64 {
        self.enters
    }

    /// Borrowed entries whose last event has not been read, without quiet ones.
    pub(crate) fn borrowed(&self) -> usize {
        self.borrowed
    }

    /// Whether a waker was used since the borrower last collected events.
    pub(crate) fn was_woken(&self) -> bool {
        self.woken
    }

    /// Number of events that wait for the borrower.
    pub(crate) fn event_count(&self) -> usize {
        self.events.len()
    }

    /// Moves the events to the end of `out`. Returns whether a waker was used, and forgets it.
    pub(crate) fn take_events(&mut self, out: &mut Vec<Event>) -> bool {
        if out.is_empty() {
            std::mem::swap(out, &mut self.events);
        } else {
            out.append(&mut self.events);
        }
        std::mem::take(&mut self.woken)
    }

    /// Queues a borrower's entry under `tag`.
    ///
    /// # Errors
    /// `InvalidInput` if `tag` does not fit 61 bits, `WouldBlock` if the submission queue is full and the kernel takes
    /// nothing from it now.
    ///
    /// # Safety
    /// All memory that the entry names stays valid and unused until the last event with this tag has been collected.
    pub(crate) unsafe fn push_borrowed(&mut self, entry: squeue::Entry, tag: u64) -> io::Result<()> {
        if tag & !TAG_BITS != 0 {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                format!("the tag {tag:#x} has more than 61 bits"),
            ));
        }
        if !self.reserve(1) {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        self.push(&entry.user_data(BORROWED | tag));
        self.borrowed += 1;
        Ok(())
    }

    /// Queues a borrower's entries, whose `user_data` is set already. Returns how many the queue had room for.
    ///
    /// # Safety
    /// As [`push_borrowed`](Self::push_borrowed), for each.
    pub(crate) unsafe fn push_all_borrowed(&mut self, entries: &[squeue::Entry]) -> usize {
        let (mut pushed, mut quiet) = (0, 0);
        while pushed < entries.len() && self.reserve(1) {
            let mut queue = self.ring.submission();
            let room = queue.capacity() - queue.len();
            let some = &entries[pushed..entries.len().min(pushed + room)];
            // SAFETY: the caller's promise.
            unsafe { queue.push_multiple(some) }.expect("there is room");
            pushed += some.len();
            quiet += some.iter().filter(|one| one.get_user_data() & QUIET != 0).count();
        }
        self.borrowed += pushed - quiet;
        pushed
    }

    /// Asks the kernel to end every borrowed entry, after all ops have completed.
    pub(crate) fn cancel_borrowed(&mut self) {
        if self.borrowed > 0 && self.reserve(1) {
            // ANY finds entries of all owners; the waker's poll is armed again by the next wait (`arm_waker`).
            let all = io_uring::types::CancelBuilder::any();
            let entry = io_uring::opcode::AsyncCancel2::new(all).build();
            self.push(&entry.user_data(IGNORED));
        }
    }

    pub(crate) fn submitter(&self) -> io_uring::Submitter<'_> {
        self.ring.submitter()
    }

    /// The ring's own descriptor.
    pub(crate) fn fd(&self) -> RawFd {
        self.ring.as_raw_fd()
    }

    /// Says that this process is a forked child, in which the queues are not mapped.
    pub(crate) fn forget(&mut self) {
        self.forked = true;
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        if self.forked {
            // The queues were never mapped here (MADV_DONTFORK). Whatever lies at their addresses now is not ours to
            // unmap.
            // SAFETY: the descriptor is this process's copy; the ring that it belongs to is not used or dropped any more.
            unsafe { libc::close(self.fd()) };
            return;
        }
        if let Some(index) = self.registered_index {
            sys::ring::unregister_descriptor(self.fd(), index);
        }
        // The kernel lets go of the buffer rings when the ring is gone, so they are freed after it (field order does
        // not matter for a ManuallyDrop that is dropped here).
        // SAFETY: dropped only here, and not used after.
        unsafe { ManuallyDrop::drop(&mut self.ring) };
    }
}
