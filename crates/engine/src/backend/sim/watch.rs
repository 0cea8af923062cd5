//! What the simulator waits on: one epoll instance with the descriptors of pending ops, a timer and a bell.

use crate::inflight::Token;
use crate::sys;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::time::{Duration, Instant};

/// epoll data of the bell and the timer. Tokens have the top bit clear.
const BELL: u64 = u64::MAX;
const TIMER: u64 = u64::MAX - 1;
/// Events taken from the kernel in one call.
const BATCH: usize = 64;

pub(super) struct Watch {
    epoll: OwnedFd,
    bell: OwnedFd,
    timer: OwnedFd,
}

impl Watch {
    pub(super) fn new() -> io::Result<Self> {
        // SAFETY: no pointers.
        let (epoll, timer) = unsafe {
            let flags = libc::TFD_CLOEXEC | libc::TFD_NONBLOCK;
            let epoll = sys::owned(sys::check(libc::epoll_create1(libc::EPOLL_CLOEXEC))?);
            (
                epoll,
                sys::owned(sys::check(libc::timerfd_create(libc::CLOCK_MONOTONIC, flags))?),
            )
        };
        let watch = Watch {
            epoll,
            bell: sys::eventfd()?,
            timer,
        };
        watch.control(
            libc::EPOLL_CTL_ADD,
            watch.bell.as_raw_fd(),
            libc::EPOLLIN as u32,
            BELL,
        )?;
        watch.control(
            libc::EPOLL_CTL_ADD,
            watch.timer.as_raw_fd(),
            libc::EPOLLIN as u32,
            TIMER,
        )?;
        Ok(watch)
    }

    fn control(&self, action: i32, fd: RawFd, events: u32, data: u64) -> io::Result<()> {
        let mut event = libc::epoll_event { events, u64: data };
        // SAFETY: the event is a live local that the kernel copies.
        sys::check(unsafe { libc::epoll_ctl(self.epoll.as_raw_fd(), action, fd, &raw mut event) }).map(drop)
    }

    /// `edge`: tell of each wake-up once.
    pub(super) fn add(&self, token: Token, fd: RawFd, events: u32, edge: bool) -> io::Result<()> {
        let mode = if edge { libc::EPOLLET as u32 } else { 0 };
        self.control(libc::EPOLL_CTL_ADD, fd, events | mode, token.0)
    }

    pub(super) fn remove(&self, fd: RawFd) {
        // Closing alone would not do: the file lives on behind the descriptor that this is a duplicate of.
        let _ = self.control(libc::EPOLL_CTL_DEL, fd, 0, 0);
    }

    pub(super) fn wake(&self) {
        sys::eventfd_signal(self.bell.as_raw_fd());
    }

    /// None disarms.
    pub(super) fn arm(&self, at: Option<Instant>) {
        sys::timerfd_set(self.timer.as_raw_fd(), at);
    }

    /// Waits at most this long, and says which watched descriptors have which events.
    pub(super) fn wait(&self, timeout: Option<Duration>) -> io::Result<Vec<(Token, u32)>> {
        let mut events = [libc::epoll_event { events: 0, u64: 0 }; BATCH];
        let count = sys::epoll_wait(self.epoll.as_raw_fd(), &mut events, timeout)?;
        let mut ready = Vec::new();
        for event in &events[..count] {
            match event.u64 {
                BELL => sys::eventfd_drain(self.bell.as_raw_fd()),
                TIMER => sys::eventfd_drain(self.timer.as_raw_fd()),
                token => ready.push((Token(token), event.events)),
            }
        }
        Ok(ready)
    }
}

impl AsRawFd for Watch {
    fn as_raw_fd(&self) -> RawFd {
        self.epoll.as_raw_fd()
    }
}
