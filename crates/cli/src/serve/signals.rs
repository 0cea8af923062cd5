//! SIGTERM, SIGINT and SIGHUP of a server: the first one ends it in order, the second one at once. Should
//! that hang, a third one ends the process.

use crate::signals::{ending, Hooks};
use rustix::io::Errno;
use std::io;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::Arc;

/// Signal listener, active until it is dropped.
pub(super) struct Signals {
    /// Receives a byte with each signal.
    came: UnixStream,
    /// Number of the last signal.
    last: Arc<AtomicUsize>,
    /// True if the next signal ends the process.
    last_chance: Arc<AtomicBool>,
    _hooks: Hooks,
}

impl Signals {
    /// Listens to the signals that ask for an end.
    pub(super) fn listen() -> io::Result<Self> {
        let (came, waker) = UnixStream::pair()?;
        came.set_nonblocking(true)?;
        let last = Arc::new(AtomicUsize::new(0));
        let last_chance = Arc::new(AtomicBool::new(false));
        let mut hooks = Hooks::default();
        for signal in ending() {
            hooks.end(signal, &last_chance)?;
            hooks.tell(signal, &last, &waker)?;
        }
        Ok(Signals {
            came,
            last,
            last_chance,
            _hooks: hooks,
        })
    }

    /// Returns a descriptor that is readable when a signal has come.
    pub(super) fn descriptor(&self) -> &UnixStream {
        &self.came
    }

    /// Returns how many signals have come since the last call.
    pub(super) fn take(&self) -> usize {
        let mut bytes = [0; 16];
        loop {
            match rustix::io::read(&self.came, &mut bytes) {
                Err(Errno::INTR) => {}
                Err(_) => return 0,
                Ok(count) => return count,
            }
        }
    }

    /// Makes the next signal end the process.
    pub(super) fn arm(&self) {
        self.last_chance.store(true, Ordering::Relaxed);
    }

    /// Returns the exit status for the last signal, as a shell would.
    pub(super) fn status(&self) -> u8 {
        128 + self.last.load(Ordering::Relaxed) as u8
    }
}
