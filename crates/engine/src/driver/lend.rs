//! The driver lends its ring: entries of a borrower's own, beside the driver's ops.
//!
//! Files and sockets of one thread so share one ring, one wait, one fork check and one shutdown. A borrower's entries have
//! no slot and no op: pushing one is a store, and its completion is an [`Event`] of 16 bytes. In exchange the borrower
//! answers for the memory that its entries name.

use super::Driver;
use crate::backend::no_ring;
use crate::ring::{BufferRing, Event, Ring, BORROWED, OWNER_BITS};
use crate::sys;
use io_uring::squeue;
use std::io;
use std::os::fd::{OwnedFd, RawFd};
use std::time::{Duration, Instant};

impl Driver {
    pub(super) fn ring(&mut self) -> io::Result<&mut Ring> {
        self.check_fork()?;
        let usable = !self.iopoll;
        self.backend.ring().filter(|_| usable).ok_or_else(no_ring)
    }

    /// Queues a submission queue entry. Its events come from [`wait_events`](Self::wait_events) with the same `tag`, of which
    /// 61 bits may be used; the entry's own `user_data` is overwritten.
    ///
    /// Nothing reaches the kernel before [`flush`](Self::flush), [`wait`](Self::wait) or `wait_events`, unless the queue fills
    /// up before or the ring has an [`SqPoll`](crate::SqPoll) thread.
    ///
    /// # Errors
    /// `Unsupported` if the driver is not on io_uring or polls its device, `WouldBlock` if the queue is full and the kernel takes
    /// nothing from it now (collect, then try again), `InvalidInput` if the tag has more than 61 bits, and an error in a
    /// forked child.
    ///
    /// # Safety
    /// All memory that the entry names stays valid, and is not used otherwise, until the last event with this tag has been
    /// collected or [`drain_events`](Self::drain_events) has succeeded. The descriptor it names stays open as long. Dropping the driver
    /// drains too, but cannot tell of a failure.
    pub unsafe fn push(&mut self, entry: squeue::Entry, tag: u64) -> io::Result<()> {
        // SAFETY: the caller's promise is the same.
        unsafe { self.ring()?.push_borrowed(entry, tag) }
    }

    /// Queues many entries at once, each with [`lent_user_data`](crate::ring::lent_user_data) or
    /// [`quiet_user_data`](crate::ring::quiet_user_data) of its tag as `user_data`. Returns
    /// how many were queued: fewer than all if the queue is full and the kernel takes nothing from it now (collect, then go on
    /// with the rest).
    ///
    /// # Errors
    /// `Unsupported` as [`push`](Self::push), and an error in a forked child.
    ///
    /// # Panics
    /// If an entry's `user_data` is another.
    ///
    /// # Safety
    /// As [`push`](Self::push), for each entry. What a quiet one names stays as it is until
    /// [`has_handed_over`](Self::has_handed_over) or an event with its tag; nothing waits for it but that.
    pub unsafe fn push_all(&mut self, entries: &[squeue::Entry]) -> io::Result<usize> {
        let are_lent = |is, entry: &squeue::Entry| is & (entry.get_user_data() & OWNER_BITS == BORROWED);
        assert!(
            entries.iter().fold(true, are_lent),
            "an entry's user_data is not that of a borrower"
        );
        // SAFETY: the caller's promise is the same.
        Ok(unsafe { self.ring()?.push_all_borrowed(entries) })
    }

    /// Whether the kernel has taken all entries, and all events of failures since then have been collected: without an
    /// [`SqPoll`](crate::SqPoll) thread, an entry that does not wait has ended then.
    ///
    /// # Errors
    /// `Unsupported` as [`push`](Self::push).
    pub fn has_handed_over(&mut self) -> io::Result<bool> {
        let ring = self.ring()?;
        Ok(ring.has_handed_over() && ring.event_count() == 0)
    }

    /// Collects completions of ops and events of borrowed entries, at least `min` of both together unless `timeout` passes
    /// first or a [`waker`](Self::waker) is used. `min == 0` does not block; without a timeout it waits for ever.
    /// Both vectors are added to. Returns how many were added to both.
    ///
    /// Without borrowed entries and wakers it never waits for more than are pending.
    ///
    /// # Errors
    /// `Unsupported` as [`push`](Self::push); `Interrupted` when a signal handler ran while it waited: nothing is lost, call
    /// again. `OutOfMemory` if `completions` cannot grow, likewise.
    pub fn wait_events(
        &mut self,
        min: usize,
        timeout: Option<Duration>,
        completions: &mut Vec<super::Completion>,
        events: &mut Vec<Event>,
    ) -> io::Result<usize> {
        self.ring()?;
        let before = events.len();
        let lasts = timeout.filter(|timeout| !timeout.is_zero());
        // A wait of no time would still set a timer, and sleep.
        let min = if lasts.is_none() && timeout.is_some() {
            0
        } else {
            min
        };
        let deadline = lasts.and_then(|timeout| Instant::now().checked_add(timeout));
        let mut left = timeout.filter(|timeout| timeout.is_zero() || deadline.is_some());
        loop {
            self.pump();
            let missing = min.saturating_sub(self.ready.len() + events.len() - before);
            let mut raw = std::mem::take(&mut self.raw);
            let result = self.backend.wait_events(missing, left, &mut raw, events);
            for one in raw.drain(..) {
                self.finish(one, false);
            }
            self.raw = raw;
            // Next steps of ops, which must not lie here until the caller returns.
            self.pump();
            let woken = result?;
            let enough = self.ready.len() + events.len() - before >= min;
            if enough || woken || left == Some(Duration::ZERO) || !self.awaits_something()? {
                break;
            }
            if let Some(deadline) = deadline {
                left = Some(deadline.saturating_duration_since(Instant::now()));
            }
        }
        let count = self.ready.len() + events.len() - before;
        completions.try_reserve(self.ready.len())?;
        self.hand_out(self.ready.len(), completions);
        Ok(count)
    }

    fn awaits_something(&mut self) -> io::Result<bool> {
        let ring = self.ring()?;
        Ok(ring.borrowed() > 0 || ring.waker_fd().is_some() || self.accepted() > 0)
    }

    /// Ends all borrowed entries and waits for their last events, which are added to `events`: an accept may have made a
    /// descriptor before it ended.
    ///
    /// # Errors
    /// If the kernel cannot be waited for any more (a seccomp filter that came late): the memory that the entries name must
    /// then never be freed. `Unsupported` as [`push`](Self::push).
    pub fn drain_events(&mut self, events: &mut Vec<Event>) -> io::Result<()> {
        while self.ring()?.borrowed() > 0 {
            self.ring()?.cancel_borrowed();
            match self.wait_events(1, Some(Duration::from_millis(100)), &mut Vec::new(), events) {
                Err(e) if sys::is_forbidden(&e) => return Err(e),
                _ => {}
            }
        }
        // Those that were read from the completion queue before, together with ops.
        self.ring()?.take_events(events);
        Ok(())
    }

    /// Makes a group of provided buffers, from which the kernel takes one for each receive that selects the group
    /// (`IOSQE_BUFFER_SELECT`): at most `bound` (a power of two up to 32,768) of `each_bytes`, of which `count` are offered at
    /// once. Memory is used only by buffers that have been offered. Linux 5.19.
    ///
    /// # Errors
    /// `InvalidInput` for other numbers and on older kernels, ENOMEM above RLIMIT_MEMLOCK, `Unsupported` as
    /// [`push`](Self::push).
    pub fn buffer_ring(&mut self, bound: u16, count: u16, each_bytes: u32) -> io::Result<BufferRing> {
        self.ring()?.make_buffers(bound, count, each_bytes)
    }

    /// Calls of io_uring_enter that this driver has made so far.
    ///
    /// # Errors
    /// `Unsupported` as [`push`](Self::push).
    pub fn enters(&mut self) -> io::Result<u64> {
        Ok(self.ring()?.enters())
    }

    /// The ring's own descriptor, which polls readable while it has completions: for a thread that drives several rings and
    /// sleeps on all of them. Completions that [`wait`](Self::wait) would find elsewhere, such as those of worker threads, do
    /// not show there.
    ///
    /// # Errors
    /// `Unsupported` as [`push`](Self::push).
    pub fn ring_fd(&mut self) -> io::Result<RawFd> {
        Ok(self.ring()?.fd())
    }

    pub(crate) fn duplicate_ring_fd(&mut self) -> io::Result<OwnedFd> {
        let fd = self.ring()?.fd();
        sys::dup(fd)
    }
}
