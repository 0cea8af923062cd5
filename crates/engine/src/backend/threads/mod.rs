//! The thread pool as a backend of its own: the semantic reference and the universal fallback.

use super::helper::Helper;
use super::{Backend, CancelOutcome, Raw, Taken};
use crate::config::Config;
use crate::inflight::{Slot, Token};
use crate::op::OpKind;
use crate::probe::Support;
use std::collections::TryReserveError;
use std::io;
use std::os::fd::RawFd;
use std::time::Duration;

pub(crate) struct Threads {
    helper: Helper,
}

impl Threads {
    pub(crate) fn new(config: &Config) -> io::Result<Self> {
        Ok(Threads {
            helper: Helper::new(config.max_threads)?,
        })
    }
}

impl Backend for Threads {
    fn support(&self, kind: OpKind) -> Support {
        match kind {
            OpKind::Poll | OpKind::Timeout => Support::Reactor,
            _ => Support::Native,
        }
    }

    fn make_room(&mut self, ops: usize) -> Result<(), TryReserveError> {
        self.helper.make_room(ops)
    }

    fn submit(&mut self, token: Token, slot: &mut Slot) -> Taken {
        self.helper.submit(token, slot);
        Taken::Yes
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }

    fn wait(&mut self, min: usize, timeout: Option<Duration>, done: &mut Vec<Raw>) -> io::Result<()> {
        let timeout = if min == 0 { Some(Duration::ZERO) } else { timeout };
        self.helper.wait(timeout, done)
    }

    fn cancel(&mut self, token: Token, done: &mut Vec<Raw>) -> CancelOutcome {
        self.helper.cancel(token, done)
    }

    fn eventfd(&mut self) -> io::Result<RawFd> {
        Ok(self.helper.poll_fd())
    }

    fn wake(&mut self) {
        self.helper.wake();
    }

    fn forget_threads(&mut self) {
        self.helper.forget_threads();
    }
}
