//! The descriptor that another event loop watches: an epoll instance over the ring's eventfd and the helper.
//!
//! One eventfd does not signal another from within a write (`eventfd_signal_allowed` in the kernel): the ring puts that
//! off, and Linux 6.18 does so once per registration and loses all later ones. So the helper is not announced by way of
//! the ring, and ops that wait for eventfds go to the helper while somebody watches.

use crate::op::Op;
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
        sys::epoll_add(self.epoll.as_raw_fd(), fd)
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

/// Whether the op's completion may come from inside a write to an eventfd.
pub(super) fn would_go_unheard(op: &Op) -> bool {
    let file = match op {
        Op::Poll(o) => &o.file,
        Op::Read(o) => &o.file,
        Op::ReadV(o) => &o.file,
        _ => return false,
    };
    file.facts().is_ok_and(|facts| facts.anonymous)
}
