//! The two queues: room, push, enter, reap.
//!
//! With SQPOLL a push is a store: io_uring_enter is called only if the kernel's thread sleeps, if the completion queue
//! has overflown, or if this thread is going to sleep.

use super::{Ring, BORROWED, IGNORED, OPS_BIT, OWNER_BITS, QUIET, TAG_BITS, WAKE};
use crate::sys::{self, ring::RingFd};
use io_uring::{cqueue, squeue};
use std::io;
use std::sync::atomic::{fence, Ordering};
use std::time::{Duration, Instant};

/// One completion of a borrowed entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Event {
    /// The tag that the entry was pushed with; 61 bits.
    pub tag: u64,
    /// A count or a negated errno, as the kernel gives it.
    pub res: i32,
    /// The kernel's `IORING_CQE_F_` flags.
    pub flags: u32,
}

impl Event {
    /// Whether more events will come for the same entry (a multishot entry, or the notification of a zero-copy send).
    pub fn more(&self) -> bool {
        cqueue::more(self.flags)
    }

    /// The id of the provided buffer that the kernel has filled, if it took one.
    pub fn buffer_id(&self) -> Option<u16> {
        cqueue::buffer_select(self.flags)
    }

    /// Whether this is the notification that the memory of a zero-copy send is free again.
    pub fn is_notification(&self) -> bool {
        cqueue::notif(self.flags)
    }

    /// Whether the socket has more data than this receive returned.
    pub fn socket_nonempty(&self) -> bool {
        cqueue::sock_nonempty(self.flags)
    }
}

/// A completion that is not a borrower's.
pub(crate) struct Entry {
    pub(crate) user_data: u64,
    pub(crate) res: i32,
    pub(crate) more: bool,
}

impl Ring {
    /// Entries that the kernel has not taken yet.
    pub(crate) fn queued(&mut self) -> usize {
        self.ring.submission().len()
    }

    /// Makes room for this many entries in one piece, after handing what is there to the kernel if need be.
    pub(crate) fn reserve(&mut self, entries: usize) -> bool {
        if self.room() >= entries {
            return true;
        }
        // With SQPOLL the kernel thread may need a moment to take them; the caller tries again later.
        if let Err(e) = self.hand_over() {
            self.lost |= sys::is_forbidden(&e);
        }
        self.room() >= entries
    }

    fn room(&mut self) -> usize {
        let sq = self.ring.submission();
        sq.capacity() - sq.len()
    }

    /// Queues an entry, for which [`reserve`](Self::reserve) has made room.
    pub(crate) fn push(&mut self, entry: &squeue::Entry) {
        // SAFETY: what the entry points to is in a slab slot, in the helper, static or a borrower's (see `push_borrowed`),
        // and stays there until its completion has been read.
        unsafe { self.ring.submission().push(entry).expect("room was reserved") }
    }

    /// As `push`, after handing what is there to the kernel if need be. False: there is no room.
    #[inline(always)]
    pub(crate) fn push_or_flush(&mut self, entry: &squeue::Entry) -> bool {
        // SAFETY: as in `push`.
        if unsafe { self.ring.submission().push(entry) }.is_ok() {
            return true;
        }
        let room = self.reserve(1);
        if room {
            self.push(entry);
        }
        room
    }

    /// Whether completions need a system call to appear: queued entries, deferred task work, an overflown queue, device
    /// polling.
    #[inline]
    pub(crate) fn needs_enter(&mut self) -> bool {
        let sq = self.ring.submission();
        if sq.taskrun() || sq.cq_overflow() || self.iopoll {
            return true;
        }
        !sq.is_empty() && (!self.sqpoll || sq.need_wakeup())
    }

    /// Whether the kernel has taken all entries, and the results of those that have ended since can be read.
    #[inline]
    pub(crate) fn has_handed_over(&mut self) -> bool {
        let sq = self.ring.submission();
        sq.is_empty() && !sq.cq_overflow()
    }

    /// Whether completions of deferred work or of an overflown queue wait for the next enter.
    pub(crate) fn has_deferred(&mut self) -> bool {
        let sq = self.ring.submission();
        sq.taskrun() || sq.cq_overflow()
    }

    /// Hands the queued entries to the kernel, without waiting and without looking for completions.
    pub(crate) fn hand_over(&mut self) -> io::Result<()> {
        match self.wakeup_flags() {
            None => Ok(()),
            Some(flags) => self.call(0, flags, None).map(drop),
        }
    }

    /// The flags with which io_uring_enter must be called to get the queued entries taken. None: the kernel's thread is
    /// awake and takes them by itself.
    fn wakeup_flags(&mut self) -> Option<u32> {
        if !self.sqpoll {
            return Some(0);
        }
        // The kernel's thread sets NEED_WAKEUP and then looks at the tail once more; this is the other half of that handshake.
        // Without the barrier both sides may miss each other, and the entries lie there.
        fence(Ordering::SeqCst);
        self.ring
            .submission()
            .need_wakeup()
            .then_some(sys::ring::ENTER_SQ_WAKEUP)
    }

    fn call(&mut self, want: usize, flags: u32, timeout: Option<Duration>) -> io::Result<usize> {
        let queued = self.queued() as u32;
        let ring = match self.registered_index {
            Some(index) => RingFd::Registered(index),
            None => RingFd::Descriptor(self.fd()),
        };
        let iowait = if self.no_iowait && want > 0 {
            sys::ring::ENTER_NO_IOWAIT
        } else {
            0
        };
        self.enters += 1;
        sys::ring::enter(ring, queued, want as u32, flags | iowait, timeout)
    }

    /// Hands the queued entries to the kernel and waits until `want` completions are there. True: the wait was cut short,
    /// by a signal or by a timeout op.
    pub(crate) fn enter(&mut self, want: usize, timeout: Option<Duration>) -> io::Result<bool> {
        let queued = self.queued();
        let want = want.min(self.ring.completion().capacity());
        let start = timeout
            .filter(|timeout| !timeout.is_zero())
            .map(|_| Instant::now());
        let has_time = |timeout| start.is_some_and(|start| start.elapsed() < timeout);
        match self.enter_for(want, timeout) {
            // A call that has submitted returns that number even if a signal has ended its wait.
            Ok(submitted) => Ok(submitted > 0
                && submitted == queued
                && self.ring.completion().len() < want
                && timeout.is_none_or(has_time)),
            // EBUSY: completions have to be read before more can be submitted. ETIME: the time has passed.
            Err(e) if matches!(e.raw_os_error(), Some(libc::EBUSY | libc::ETIME | libc::EAGAIN)) => Ok(false),
            Err(e) => {
                self.lost |= sys::is_forbidden(&e);
                Err(e)
            }
        }
    }

    /// Returns the number of entries that were submitted, or 0 where that says nothing.
    fn enter_for(&mut self, want: usize, timeout: Option<Duration>) -> io::Result<usize> {
        let wakeup = self.wakeup_flags();
        if wakeup.is_none() && want == 0 && !self.has_deferred() && !self.iopoll {
            return Ok(0);
        }
        if want > 0 && self.sqpoll && self.spin(want, timeout)? {
            return Ok(0);
        }
        // GETEVENTS also flushes an overflown completion queue and runs deferred task work.
        let flags = self.wakeup_flags().unwrap_or(0) | sys::ring::ENTER_GETEVENTS;
        match timeout {
            Some(timeout) if want > 0 && !self.timed_wait => self.wait_by_poll(timeout).map(|()| 0),
            timeout => {
                let submitted = self.call(want, flags, timeout.filter(|_| want > 0))?;
                Ok(if want == 0 { 0 } else { submitted })
            }
        }
    }

    /// Looks at the completion queue for `user_spin` before this thread sleeps. True: `want` completions are there.
    fn spin(&mut self, want: usize, timeout: Option<Duration>) -> io::Result<bool> {
        if self.user_spin.is_zero() {
            return Ok(false);
        }
        self.hand_over()?;
        let limit = timeout.map_or(self.user_spin, |timeout| timeout.min(self.user_spin));
        let start = Instant::now();
        loop {
            if self.ring.completion().len() >= want {
                return Ok(true);
            }
            if self.has_deferred() || start.elapsed() >= limit {
                return Ok(false);
            }
            std::hint::spin_loop();
        }
    }

    /// Waits where io_uring_enter takes no timeout (Linux 5.10): the ring's own descriptor polls readable instead.
    fn wait_by_poll(&mut self, timeout: Duration) -> io::Result<()> {
        self.hand_over()?;
        let mut entry = libc::pollfd {
            fd: self.fd(),
            events: libc::POLLIN,
            revents: 0,
        };
        let timeout_ms = i32::try_from(timeout.as_nanos().div_ceil(1_000_000)).unwrap_or(i32::MAX);
        // SAFETY: one live pollfd.
        sys::check(unsafe { libc::poll(&raw mut entry, 1, timeout_ms) }).map(drop)
    }

    #[cold]
    fn note_wakeup(&mut self) {
        self.woken = true;
        if let Some(waker) = &self.waker {
            waker.drain();
        }
    }

    /// Reads what is in the completion queue, without a system call: events are kept for the borrower, those of ops are handed
    /// to `op`, everything else to `other`.
    #[inline]
    pub(crate) fn reap(&mut self, mut op: impl FnMut(Entry), mut other: impl FnMut(Entry)) {
        let mut woken = false;
        for entry in self.ring.completion() {
            let user_data = entry.user_data();
            let (res, flags) = (entry.result(), entry.flags());
            if user_data & OPS_BIT == 0 {
                op(Entry {
                    user_data,
                    res,
                    more: cqueue::more(flags),
                });
                continue;
            }
            if user_data & OWNER_BITS == BORROWED {
                let is_counted = !cqueue::more(flags) && user_data & QUIET == 0;
                self.borrowed -= usize::from(is_counted);
                self.events.push(Event {
                    tag: user_data & TAG_BITS,
                    res,
                    flags,
                });
                continue;
            }
            match user_data {
                WAKE => {
                    woken |= res >= 0;
                    if let Some(waker) = &mut self.waker {
                        waker.armed &= cqueue::more(flags);
                    }
                }
                IGNORED => {}
                _ => other(Entry {
                    user_data,
                    res,
                    more: cqueue::more(flags),
                }),
            }
        }
        if woken {
            self.note_wakeup();
        }
    }
}
