//! Where other threads put results for the driver's thread.

use crate::backend::Raw;
use crate::inflight::Token;
use crate::sys;
use std::collections::TryReserveError;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::sync::{Mutex, MutexGuard};

pub(crate) struct Mailbox {
    done: Mutex<Vec<Raw>>,
    eventfd: OwnedFd,
}

impl Mailbox {
    pub(crate) fn new() -> io::Result<Self> {
        Ok(Mailbox {
            done: Mutex::new(Vec::new()),
            eventfd: sys::eventfd()?,
        })
    }

    /// Makes room for the results of so many ops in all.
    pub(crate) fn make_room(&self, ops: usize) -> Result<(), TryReserveError> {
        let mut done = self.lock();
        let more = ops.saturating_sub(done.len());
        done.try_reserve(more)
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Raw>> {
        self.done
            .lock()
            .expect("no thread panics while it holds the mailbox")
    }

    /// Readable while results wait.
    pub(crate) fn eventfd(&self) -> RawFd {
        self.eventfd.as_raw_fd()
    }

    /// Posts one result. The eventfd is written once per batch, by whoever finds the box empty.
    pub(crate) fn post(&self, raw: Raw) {
        let mut done = self.lock();
        let first = done.is_empty();
        done.push(raw);
        drop(done);
        if first {
            self.wake();
        }
    }

    pub(crate) fn wake(&self) {
        sys::eventfd_signal(self.eventfd());
    }

    /// Takes all results. The eventfd is not reset here: the reactor does that when it reports it.
    pub(crate) fn take(&self, into: &mut Vec<Raw>) {
        into.append(&mut self.lock());
    }

    /// Takes the result of this op, if it is here. Others stay: their owners keep count of them elsewhere.
    pub(crate) fn take_one(&self, token: Token, into: &mut Vec<Raw>) {
        let mut done = self.lock();
        if let Some(at) = done.iter().position(|raw| raw.token == token) {
            into.push(done.remove(at));
        }
    }
}
