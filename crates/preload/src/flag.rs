//! An eventfd in a real set that is readable while a socket of ours is ready that the real set does not have.
//!
//! It tells those who look at the real set alone: another thread that waits there, an outer set, a poll.

use crate::set::{Inner, Phase, Set};
use crate::{real, table};
use libc::{c_int, epoll_event};
use std::sync::atomic::Ordering;
use std::time::Duration;

/// A program's data may be any number, but no pointer of its is this one.
static MARK: u8 = 0;

fn mark() -> u64 {
    (&raw const MARK) as u64
}

impl Inner {
    /// Puts the eventfd into the real set. It is set when the lock is released.
    pub(crate) fn add_flag(&mut self, set: &Set) {
        if self.flag >= 0 || self.epfd < 0 {
            return;
        }
        // SAFETY: no pointer is passed.
        let fd = unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) };
        if fd < 0 {
            return;
        }
        table::set_own(fd);
        self.flag = fd;
        self.flagged = false;
        set.has_flag.store(true, Ordering::Release);
        let mut event = epoll_event {
            events: libc::EPOLLIN as u32,
            u64: mark(),
        };
        // SAFETY: one live event.
        unsafe { real::epoll_ctl(self.epfd, libc::EPOLL_CTL_ADD, fd, &raw mut event) };
    }

    /// Makes the eventfd readable, or not.
    pub(crate) fn fly(&mut self) {
        if self.flag_is_parents {
            return;
        }
        let is_ready = self.phase != Phase::Ring && self.has_ready();
        if std::mem::replace(&mut self.flagged, is_ready) == is_ready {
            return;
        }
        let before = crate::errno();
        let mut one = 1u64;
        let one = (&raw mut one).cast();
        // SAFETY: eight live bytes.
        unsafe {
            if is_ready {
                real::write(self.flag, one, 8);
            } else {
                real::read(self.flag, one, 8);
            }
        }
        crate::set_errno(before);
    }

    /// Takes the eventfd's event out of `count` events. Returns how many are left.
    ///
    /// # Safety
    /// `events` has as many.
    pub(crate) unsafe fn without_flag(&self, events: *mut epoll_event, count: usize) -> usize {
        if self.flag < 0 {
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
    pub(crate) fn drop_flag(&mut self, set: &Set) {
        let fd = std::mem::replace(&mut self.flag, -1);
        self.flag_is_parents = false;
        set.has_flag.store(false, Ordering::Release);
        if fd >= 0 {
            table::clear(fd);
            // SAFETY: the descriptor is this set's own.
            unsafe { real::close(fd) };
        }
    }
}

/// What is left of a wait for the real set, in whole milliseconds.
pub(crate) fn milliseconds(left: Option<Duration>) -> c_int {
    left.map_or(-1, |left| {
        let up = left.saturating_add(Duration::from_micros(999));
        c_int::try_from(up.as_millis()).unwrap_or(c_int::MAX)
    })
}
