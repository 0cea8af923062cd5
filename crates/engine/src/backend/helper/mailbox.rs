//! Where other threads put results for the driver's thread.

use crate::backend::Raw;
use crate::inflight::Token;
use crate::sys;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::sync::Mutex;

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

    /// Readable while results wait.
    pub(crate) fn eventfd(&self) -> RawFd {
        self.eventfd.as_raw_fd()
    }

    /// Posts one result. The eventfd is written once per batch, by whoever finds the box empty.
    pub(crate) fn post(&self, raw: Raw) {
        let mut done = self
            .done
            .lock()
            .expect("no thread panics while it holds the mailbox");
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
        into.append(
            &mut self
                .done
                .lock()
                .expect("no thread panics while it holds the mailbox"),
        );
    }

    /// Takes the result of this op, if it is here. Others stay: their owners keep count of them elsewhere.
    pub(crate) fn take_one(&self, token: Token, into: &mut Vec<Raw>) {
        let mut done = self
            .done
            .lock()
            .expect("no thread panics while it holds the mailbox");
        if let Some(at) = done.iter().position(|raw| raw.token == token) {
            into.push(done.remove(at));
        }
    }
}
