//! The descriptor that tells other event loops of completions.
//!
//! An eventfd registered with the ring is signalled for each completion, with one gap: a completion that is caused by a
//! write to another eventfd may not signal it from inside that write (the kernel forbids the recursion). Linux defers
//! such a signal; 6.18 does so once per registration and loses all later ones. So what waits for eventfds stays out of
//! the ring while somebody watches: the helper's own descriptor is watched beside the eventfd in one epoll instance, and
//! ops on anonymous descriptors go to the helper.

use crate::op::Op;
use crate::sys;
use io_uring::IoUring;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

pub(super) struct Watch {
    pub(super) epoll: OwnedFd,
    pub(super) eventfd: OwnedFd,
}

impl Watch {
    pub(super) fn new(ring: &IoUring) -> io::Result<Self> {
        let eventfd = sys::eventfd()?;
        // SAFETY: no pointers.
        let epoll = sys::owned(sys::check(unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) })?);
        sys::epoll_add(epoll.as_raw_fd(), eventfd.as_raw_fd())?;
        ring.submitter().register_eventfd(eventfd.as_raw_fd())?;
        // What completed before the registration has signalled nothing.
        sys::eventfd_signal(eventfd.as_raw_fd());
        Ok(Watch { epoll, eventfd })
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
