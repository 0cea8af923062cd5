//! Ops that wait for something other than data.

use super::Handle;
use std::fmt;
use std::time::Duration;

/// `struct __kernel_timespec`: 64-bit seconds on every architecture, unlike libc's `timespec`.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct KernelTimespec {
    pub(crate) seconds: i64,
    pub(crate) nanoseconds: i64,
}

/// Waits until a descriptor has one of these `POLL*` events. The result is the event mask.
#[derive(Debug)]
pub struct Poll {
    /// The descriptor.
    pub file: Handle,
    /// `POLLIN`, `POLLOUT` and so on. POLLERR, POLLHUP and POLLNVAL are always reported. (A ring also ends a poll of a
    /// socket whose peer has shut down its side, with POLLRDHUP if nothing else is to be told.)
    pub events: u16,
    /// Complete again and again until cancelled. [`Completion::more`](crate::Completion) says whether there will be
    /// another. Linux 5.13 for the ring.
    pub multishot: bool,
}

impl Poll {
    /// One event.
    pub fn new(file: impl Into<Handle>, events: i16) -> Self {
        Poll {
            file: file.into(),
            events: events as u16,
            multishot: false,
        }
    }

    /// One completion for each wake-up, until cancelled.
    pub fn multishot(file: impl Into<Handle>, events: i16) -> Self {
        Poll {
            multishot: true,
            ..Self::new(file, events)
        }
    }

    /// What of the kernel's answer was asked for. A ring adds POLLRDHUP unasked (Linux 6.18).
    pub(crate) fn asked_for(&self, res: i32) -> Events {
        const ALWAYS: u16 = (libc::POLLERR | libc::POLLHUP | libc::POLLNVAL) as u16;
        match res as u16 & (self.events | ALWAYS) {
            0 => Events(res as u16),
            events => Events(events),
        }
    }
}

/// The `POLL*` events that a [`Poll`] has found.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Events(u16);

impl Events {
    /// Events from the bits that `poll(2)` knows.
    pub const fn from_bits(bits: u16) -> Self {
        Events(bits)
    }

    /// The bits, as in `poll(2)`.
    pub const fn bits(self) -> u16 {
        self.0
    }

    /// Whether there is any of these events (`libc::POLLIN` and so on).
    pub const fn contains(self, events: i16) -> bool {
        self.0 & events as u16 != 0
    }

    /// POLLIN: a read will not block.
    pub const fn is_readable(self) -> bool {
        self.contains(libc::POLLIN)
    }

    /// POLLOUT: a write will not block.
    pub const fn is_writable(self) -> bool {
        self.contains(libc::POLLOUT)
    }

    /// POLLHUP: the peer is gone. There may be bytes left to read.
    pub const fn is_hang_up(self) -> bool {
        self.contains(libc::POLLHUP)
    }

    /// POLLERR or POLLNVAL.
    pub const fn is_error(self) -> bool {
        self.contains(libc::POLLERR | libc::POLLNVAL)
    }
}

impl fmt::Debug for Events {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const NAMES: [(i16, &str); 7] = [
            (libc::POLLIN, "IN"),
            (libc::POLLPRI, "PRI"),
            (libc::POLLOUT, "OUT"),
            (libc::POLLERR, "ERR"),
            (libc::POLLHUP, "HUP"),
            (libc::POLLNVAL, "NVAL"),
            (libc::POLLRDHUP, "RDHUP"),
        ];
        let names: Vec<&str> = NAMES
            .iter()
            .filter(|(event, _)| self.contains(*event))
            .map(|(_, name)| *name)
            .collect(); // allocates: at most a name for each bit
        write!(f, "Events({:#x} {})", self.0, names.join("|"))
    }
}

/// Completes with 0 when the time has passed (CLOCK_MONOTONIC).
#[derive(Debug)]
pub struct Timeout {
    /// From the submission on.
    pub after: Duration,
    pub(crate) timespec: KernelTimespec,
}

impl Timeout {
    /// After this long.
    pub fn new(after: Duration) -> Self {
        Timeout {
            after,
            timespec: KernelTimespec::default(),
        }
    }

    pub(crate) fn prepare(&mut self) -> *const KernelTimespec {
        self.timespec = KernelTimespec {
            seconds: self.after.as_secs().min(i64::MAX as u64) as i64,
            nanoseconds: self.after.subsec_nanos().into(),
        };
        &raw const self.timespec
    }
}

/// Does nothing, by way of the backend: what a round trip costs.
#[derive(Debug, Default)]
pub struct Nop;

impl Nop {
    /// A nop.
    pub fn new() -> Self {
        Nop
    }
}
