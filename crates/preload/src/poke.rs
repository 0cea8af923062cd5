//! Ending another thread's wait for a real set, in which it hears nothing of what is put into ours.

use crate::set::{Inner, Set};
use crate::{real, table};
use libc::{c_int, epoll_event};
use std::sync::atomic::Ordering;

/// A program's data may be any number, but no pointer of its is this one.
static MARK: u8 = 0;

fn mark() -> u64 {
    (&raw const MARK) as u64
}

impl Inner {
    /// Ends a wait for the real set.
    pub(crate) fn poke(&mut self, set: &Set) {
        if self.poke < 0 {
            // SAFETY: no pointer is passed.
            let fd = unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) };
            if fd < 0 {
                return;
            }
            table::set_own(fd);
            self.poke = fd;
            set.is_poked.store(true, Ordering::Release);
            let mut event = epoll_event {
                events: (libc::EPOLLIN | libc::EPOLLET) as u32,
                u64: mark(),
            };
            // SAFETY: one live event.
            unsafe { real::epoll_ctl(self.epfd, libc::EPOLL_CTL_ADD, fd, &raw mut event) };
        }
        let one = 1u64;
        // SAFETY: eight live bytes.
        unsafe { real::write(self.poke, (&raw const one).cast(), 8) };
    }

    /// Takes the mark of a poke out of `count` events. Returns how many are left.
    ///
    /// # Safety
    /// `events` has as many.
    pub(crate) unsafe fn without_pokes(&self, events: *mut epoll_event, count: usize) -> usize {
        if self.poke < 0 {
            return count;
        }
        // SAFETY: the caller's promise. Events are packed, so a slice of them is aligned.
        let events = unsafe { std::slice::from_raw_parts_mut(events, count) };
        let mut kept = 0;
        for at in 0..count {
            if events[at].u64 != mark() {
                events[kept] = events[at];
                kept += 1;
            }
        }
        kept
    }

    /// Closes the eventfd with its set.
    pub(crate) fn end_pokes(&mut self, set: &Set) {
        let fd = std::mem::replace(&mut self.poke, -1);
        set.is_poked.store(false, Ordering::Release);
        if fd >= 0 {
            table::clear(fd);
            // SAFETY: the descriptor is this set's own.
            unsafe { real::close(fd) };
        }
    }
}

/// What is left of a wait for the real set after a poke, in whole milliseconds.
pub(crate) fn milliseconds(left: Option<std::time::Duration>) -> c_int {
    left.map_or(-1, |left| {
        let up = left.saturating_add(std::time::Duration::from_micros(999));
        c_int::try_from(up.as_millis()).unwrap_or(c_int::MAX)
    })
}
