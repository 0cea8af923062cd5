//! Ways to get an op done. Each backend is a room of its own; none uses another. What they share is in `helper`.
//!
//! A backend takes ops by reference to their slab slot, which stays in place until the backend reports the op's raw
//! result. It never blocks in `submit`.

pub(crate) mod helper;
#[cfg(feature = "linux-aio")]
pub(crate) mod linux_aio;
#[cfg(all(feature = "posix-aio", any(target_env = "gnu", target_env = "musl")))]
pub(crate) mod posix_aio;
#[cfg(feature = "sim")]
pub(crate) mod sim;
pub(crate) mod threads;
pub(crate) mod uring;

use crate::inflight::{Slot, Token};
use crate::op::{Nop, Op, OpKind};
use crate::probe::Support;
use crate::ring::{Event, Ring, Waker};
use std::collections::TryReserveError;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, RawFd};
use std::time::Duration;

/// The result of one op as the kernel gives it.
pub(crate) struct Raw {
    pub(crate) token: Token,
    /// A count or a negated errno.
    pub(crate) res: i32,
    /// There will be another for the same token.
    pub(crate) more: bool,
    /// The op, where it was moved out of its slot to be worked on elsewhere. Then every step of it is done.
    pub(crate) op: Option<Box<Op>>,
}

impl Raw {
    pub(crate) fn new(token: Token, res: i32) -> Self {
        Raw {
            token,
            res,
            more: false,
            op: None,
        }
    }

    /// For an op that could not be started at all.
    pub(crate) fn failed(token: Token, slot: &mut Slot, errno: i32) -> Self {
        if let Some(fd) = &slot.options.notify {
            crate::sys::eventfd_signal(fd.as_raw_fd());
        }
        let op = std::mem::replace(&mut slot.op, Op::Nop(Nop));
        helper::raw_of(token, -errno, Box::new(op))
    }
}

/// What became of a request to cancel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CancelOutcome {
    /// It will complete with ECANCELED and has had no effect, or, for a transfer that had begun, none after what its
    /// completion reports.
    Cancelled,
    /// It is being worked on and was asked to stop; its completion says how that ended.
    Running,
    /// It is complete already.
    Finished,
}

/// Whether a backend took an op.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Taken {
    Yes,
    /// No room just now. Nothing has changed.
    Full,
}

/// The error of a driver that has no ring to lend.
pub(crate) fn no_ring() -> io::Error {
    io::Error::new(
        io::ErrorKind::Unsupported,
        "only a driver on io_uring can lend its ring",
    )
}

pub(crate) trait Backend {
    /// How it does each kind of op.
    fn support(&self, kind: OpKind) -> Support;

    /// Features of the set-up that were found.
    fn features(&self) -> Vec<&'static str> {
        Vec::new()
    }

    /// Makes room for so many ops in all, so that none of them needs memory whose size their number gives.
    fn make_room(&mut self, _ops: usize) -> Result<(), TryReserveError> {
        Ok(())
    }

    /// Takes one op. Must not block. The slot stays where it is until the op's last `Raw`.
    fn submit(&mut self, token: Token, slot: &mut Slot) -> Taken;

    /// Whether the kernel itself can run a chain of these ops, submitted one after the other.
    fn links(&mut self, _ops: &[Op]) -> bool {
        false
    }

    /// Hands what has been taken to the kernel.
    fn flush(&mut self) -> io::Result<()>;

    /// Collects results: at least `min` of them unless `timeout` passes first. `min == 0` never blocks. Fewer may come
    /// back with Ok; EINTR when a signal handler ran.
    fn wait(&mut self, min: usize, timeout: Option<Duration>, done: &mut Vec<Raw>) -> io::Result<()>;

    /// Collects like [`wait`](Self::wait), where events of borrowed entries count as well. Returns whether a
    /// waker has ended it early.
    fn wait_events(
        &mut self,
        _min: usize,
        _timeout: Option<Duration>,
        _done: &mut Vec<Raw>,
        _events: &mut Vec<Event>,
    ) -> io::Result<bool> {
        Err(no_ring())
    }

    /// The ring that the driver lends, where there is one.
    fn ring(&mut self) -> Option<&mut Ring> {
        None
    }

    /// A waker that ends [`wait_events`](Self::wait_events) in another thread.
    fn waker(&mut self) -> io::Result<Waker> {
        Err(no_ring())
    }

    /// Asks for one in-flight op to stop. Results met on the way go to `done`.
    fn cancel(&mut self, token: Token, done: &mut Vec<Raw>) -> CancelOutcome;

    /// A descriptor that polls readable while a result can be collected.
    fn eventfd(&mut self) -> io::Result<RawFd>;

    /// Makes `eventfd()` readable on the driver's own account, until the next `wait`.
    fn wake(&mut self);

    /// In a forked child, before the drop: the worker threads were left behind in the parent, and so was the memory
    /// that the kernel shares with it.
    fn forget_threads(&mut self);

    /// Registers a file. `Ok(None)`: nothing to register here.
    fn register_file(&mut self, _fd: BorrowedFd<'_>) -> io::Result<Option<u32>> {
        Ok(None)
    }

    fn unregister_file(&mut self, _index: u32) -> io::Result<()> {
        Ok(())
    }

    /// Pins these buffers.
    ///
    /// # Safety
    /// The memory must stay allocated until the backend is dropped.
    unsafe fn register_buffers(&mut self, _iovecs: &[libc::iovec]) -> io::Result<()> {
        Ok(())
    }
}
