//! Ops that wait for something other than data.

use super::{Events, Handle};
use std::time::Duration;

/// `struct __kernel_timespec`: 64-bit seconds on every architecture, unlike libc's `timespec`.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct KernelTimespec {
    pub(crate) seconds: i64,
    pub(crate) nanoseconds: i64,
}

/// Waits until a descriptor has one of these events, and gives those that it has.
#[derive(Debug)]
#[non_exhaustive]
pub struct Poll {
    /// The descriptor.
    pub file: Handle,
    /// What it waits for. (A ring also ends a poll of a socket whose peer has shut down its side, with `READ_HANG_UP` if
    /// nothing else is to be told.)
    pub events: Events,
    /// Complete again and again until cancelled. [`Completion::more`](crate::Completion) says whether there will be
    /// another. Linux 5.13 for the ring.
    pub multishot: bool,
}

impl Poll {
    /// Once.
    ///
    /// ```
    /// # use proactor_engine::{Driver, op::{Events, File, Poll}};
    /// # let mut driver = Driver::new()?;
    /// let (reader, writer) = std::io::pipe()?;
    /// let found = driver.run(Poll::new(writer, Events::WRITABLE))?;
    /// assert!(found.is_writable() && !found.is_error());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn new(file: impl Into<Handle>, events: Events) -> Self {
        Poll {
            file: file.into(),
            events,
            multishot: false,
        }
    }

    /// One completion for each wake-up, until cancelled.
    ///
    /// ```
    /// # use proactor_engine::{Io, op::{Events, Poll}};
    /// # use std::io::{Read, Write};
    /// # let io = Io::new()?;
    /// let (mut reader, mut writer) = std::io::pipe()?;
    /// let mut events = io.events(Poll::multishot(reader.try_clone()?, Events::READABLE));
    /// writer.write_all(b"a")?;
    /// let found = io.block_on(events.next())?.expect("it goes on");
    /// assert!(found?.is_readable());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn multishot(file: impl Into<Handle>, events: Events) -> Self {
        Poll {
            multishot: true,
            ..Self::new(file, events)
        }
    }

    /// What of the kernel's answer was asked for. A ring adds POLLRDHUP unasked (Linux 6.18).
    pub(crate) fn asked_for(&self, res: i32) -> Events {
        const ALWAYS: Events = Events::ERROR.union(Events::HANG_UP).union(Events::INVALID);
        let found = res as u16;
        match found & (self.events | ALWAYS).bits() {
            0 => Events::from_bits(found),
            events => Events::from_bits(events),
        }
    }
}

/// Ends when the time has passed (CLOCK_MONOTONIC).
#[derive(Debug)]
#[non_exhaustive]
pub struct Timeout {
    /// From the submission on.
    pub after: Duration,
    pub(crate) timespec: KernelTimespec,
}

impl Timeout {
    /// After this long.
    ///
    /// ```
    /// # use proactor_engine::{Driver, op::Timeout};
    /// # use std::time::Duration;
    /// # let mut driver = Driver::new()?;
    /// driver.run(Timeout::new(Duration::from_millis(1)))?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
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
    ///
    /// ```
    /// # use proactor_engine::{Driver, op::Nop};
    /// # let mut driver = Driver::new()?;
    /// driver.run(Nop::new())?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn new() -> Self {
        Nop
    }
}
