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
        // 0 would disarm the timer.
        let left = at.map_or(Duration::ZERO, |at| {
            at.saturating_duration_since(Instant::now())
                .max(Duration::from_nanos(1))
        });
        let spec = libc::itimerspec {
            it_interval: sys::timespec(Duration::ZERO),
            it_value: sys::timespec(left),
        };
        // SAFETY: the spec is a live local; the old value is not asked for.
        unsafe { libc::timerfd_settime(self.timer.as_raw_fd(), 0, &raw const spec, std::ptr::null_mut()) };
    }

    /// Waits at most this long, and says which watched descriptors have which events.
    pub(super) fn wait(&self, timeout: Option<Duration>) -> io::Result<Vec<(Token, u32)>> {
        let mut events = [libc::epoll_event { events: 0, u64: 0 }; BATCH];
        // Milliseconds, rounded up so that nobody wakes just before the time and spins.
        let timeout_ms = timeout.map_or(-1, |t| {
            i32::try_from(t.as_nanos().div_ceil(1_000_000)).unwrap_or(i32::MAX)
        });
        // SAFETY: the array is live and BATCH long.
        let count = sys::check(unsafe {
            libc::epoll_wait(
                self.epoll.as_raw_fd(),
                events.as_mut_ptr(),
                BATCH as i32,
                timeout_ms,
            )
        })?;
        let mut ready = Vec::new();
        for event in &events[..count as usize] {
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
