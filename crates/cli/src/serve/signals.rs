//! SIGTERM, SIGINT and SIGHUP of a server: the first one asks it to end in order, the second one at once. Should that hang, a
//! third one ends the process.

use crate::signals::is_ignored;
use rustix::io::Errno;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::SigId;
use std::io;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::Arc;

/// Listens as long as it lives.
pub(super) struct Signals {
    /// Gets a byte with each signal.
    came: UnixStream,
    /// The last signal.
    last: Arc<AtomicUsize>,
    /// The next signal ends the process.
    last_chance: Arc<AtomicBool>,
    hooks: Vec<SigId>,
}

impl Signals {
    /// A signal that is ignored, as in a shell's background job or below nohup, stays so.
    pub(super) fn listen() -> io::Result<Self> {
        let (came, waker) = UnixStream::pair()?;
        came.set_nonblocking(true)?;
        let last = Arc::new(AtomicUsize::new(0));
        let last_chance = Arc::new(AtomicBool::new(false));
        let mut hooks = Vec::new();
        for signal in [SIGINT, SIGTERM, SIGHUP]
            .into_iter()
            .filter(|signal| !is_ignored(*signal))
        {
            let armed = Arc::clone(&last_chance);
            hooks.push(signal_hook::flag::register_conditional_shutdown(
                signal,
                128 + signal,
                armed,
            )?);
            hooks.push(signal_hook::flag::register_usize(
                signal,
                Arc::clone(&last),
                signal as usize,
            )?);
            hooks.push(signal_hook::low_level::pipe::register(
                signal,
                waker.try_clone()?,
            )?);
        }
        Ok(Signals {
            came,
            last,
            last_chance,
            hooks,
        })
    }

    /// Readable when a signal has come.
    pub(super) fn descriptor(&self) -> &UnixStream {
        &self.came
    }

    /// How many have come since it was asked last.
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

    /// Lets the next signal end the process.
    pub(super) fn arm(&self) {
        self.last_chance.store(true, Ordering::Relaxed);
    }

    /// The exit status that tells of the last signal, as a shell would.
    pub(super) fn status(&self) -> u8 {
        128 + self.last.load(Ordering::Relaxed) as u8
    }
}

impl Drop for Signals {
    fn drop(&mut self) {
        for hook in self.hooks.drain(..) {
            signal_hook::low_level::unregister(hook);
        }
    }
}
