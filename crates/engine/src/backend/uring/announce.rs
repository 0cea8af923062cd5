//! The descriptor that another event loop watches: an epoll instance over the ring's eventfd and the helper.
//!
//! The helper is not announced by way of the ring. Its wake-up is a write to an eventfd, and one eventfd does not signal
//! another from within a write (`eventfd_signal_allowed`): the ring puts that off, and on Linux 6.18 it did not always
//! come.

use crate::sys;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};

pub(super) struct Announcer {
    epoll: OwnedFd,
    event: OwnedFd,
}

impl Announcer {
    pub(super) fn new() -> io::Result<Self> {
        // SAFETY: no pointers.
        let epoll = sys::owned(sys::check(unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) })?);
        let announcer = Announcer {
            epoll,
            event: sys::eventfd()?,
        };
        announcer.add(announcer.event.as_raw_fd())?;
        Ok(announcer)
    }

    /// Announces this descriptor's readiness too.
    pub(super) fn add(&self, fd: RawFd) -> io::Result<()> {
        let mut event = libc::epoll_event {
            events: libc::EPOLLIN as u32,
            u64: 0,
        };
        // SAFETY: the event is a live local that the kernel copies.
        sys::check(unsafe {
            libc::epoll_ctl(self.epoll.as_raw_fd(), libc::EPOLL_CTL_ADD, fd, &raw mut event)
        })
        .map(drop)
    }

    /// What the ring signals.
    pub(super) fn eventfd(&self) -> RawFd {
        self.event.as_raw_fd()
    }

    pub(super) fn signal(&self) {
        sys::eventfd_signal(self.eventfd());
    }

    pub(super) fn drain(&self) {
        sys::eventfd_drain(self.eventfd());
    }
}

impl AsRawFd for Announcer {
    fn as_raw_fd(&self) -> RawFd {
        self.epoll.as_raw_fd()
    }
}
