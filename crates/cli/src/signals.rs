//! Ctrl-C, SIGTERM and the end of the terminal (SIGHUP): the first ends the work in order, a second Ctrl-C or
//! SIGTERM ends the process at once.

use rustix::event::{poll, PollFd, PollFlags};
use rustix::io::{read, Errno};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGXFSZ};
use signal_hook::SigId;
use std::io;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::Arc;

/// Signal handlers, which are removed when this is dropped.
#[derive(Default)]
pub(crate) struct Hooks(Vec<SigId>);

impl Hooks {
    pub(crate) fn push(&mut self, hook: SigId) {
        self.0.push(hook);
    }

    /// Installs handlers that write the number of the last signal to `last` and a byte to `waker`, in this
    /// order.
    pub(crate) fn tell(
        &mut self,
        signal: i32,
        last: &Arc<AtomicUsize>,
        waker: &UnixStream,
    ) -> io::Result<()> {
        let last = Arc::clone(last);
        self.push(signal_hook::flag::register_usize(signal, last, signal as usize)?);
        let waker = waker.try_clone()?;
        self.push(signal_hook::low_level::pipe::register(signal, waker)?);
        Ok(())
    }

    /// Makes a signal end the process if `armed` is set when it comes.
    pub(crate) fn end(&mut self, signal: i32, armed: &Arc<AtomicBool>) -> io::Result<()> {
        let armed = Arc::clone(armed);
        let hook = signal_hook::flag::register_conditional_shutdown(signal, 128 + signal, armed)?;
        self.push(hook);
        Ok(())
    }
}

impl Drop for Hooks {
    fn drop(&mut self) {
        for hook in self.0.drain(..) {
            signal_hook::low_level::unregister(hook);
        }
    }
}

/// Returns the signals that ask for an end. One that is ignored, as in a shell's background job or below
/// nohup, stays so.
pub(crate) fn ending() -> impl Iterator<Item = i32> {
    [SIGINT, SIGTERM, SIGHUP]
        .into_iter()
        .filter(|signal| !is_ignored(*signal))
}

/// Signal listener, active until it is dropped.
pub(crate) struct Signals {
    /// Number of the signal that came, or 0.
    came: Arc<AtomicUsize>,
    /// Set by the first signal.
    again: Arc<AtomicBool>,
    /// Becomes readable with the first signal, for a task that waits for input.
    wake: UnixStream,
    _hooks: Hooks,
}

impl Signals {
    /// Listens to the signals that ask for an end.
    pub fn listen() -> io::Result<Signals> {
        let (wake, waker) = UnixStream::pair()?;
        let came = Arc::new(AtomicUsize::new(0));
        let again = Arc::new(AtomicBool::new(false));
        let mut hooks = Hooks::default();
        if !is_ignored(SIGXFSZ) {
            // By default it ends the process that writes beyond RLIMIT_FSIZE; caught, it lets the write fail
            // (EFBIG).
            hooks.push(signal_hook::flag::register(SIGXFSZ, Arc::default())?);
        }
        for signal in ending() {
            // A terminal that is closed sends it twice, as a shell does and then the kernel, and systemd behind a SIGTERM.
            if signal != SIGHUP {
                // In this order: the first one finds `again` unset.
                hooks.end(signal, &again)?;
            }
            hooks.push(signal_hook::flag::register(signal, Arc::clone(&again))?);
            hooks.tell(signal, &came, &waker)?;
        }
        Ok(Signals {
            came,
            again,
            wake,
            _hooks: hooks,
        })
    }

    /// Returns a flag that becomes true with the first signal, for callers that do not know signals.
    pub fn flag(&self) -> &AtomicBool {
        &self.again
    }

    /// Returns true if a signal has asked for an end.
    pub fn stop(&self) -> bool {
        self.came.load(Ordering::Relaxed) != 0
    }

    /// Returns the exit status for the signal that came, as a shell would.
    pub fn status(&self) -> Option<u8> {
        match self.came.load(Ordering::Relaxed) {
            0 => None,
            signal => Some(128 + signal as u8),
        }
    }

    /// Reads a line from stdin, without its end. `None` at the end of input and when a signal comes.
    pub fn read_line(&self) -> Option<Vec<u8>> {
        let input = io::stdin();
        let mut line = Vec::new();
        // Byte by byte: what follows the line belongs to the next reader.
        let mut byte = [0];
        while self.wait_for(&input) {
            match read(&input, &mut byte) {
                Ok(0) => break,
                Ok(_) if byte[0] == b'\n' => return Some(line),
                Ok(_) => line.push(byte[0]),
                Err(Errno::INTR) => {}
                Err(_) => break,
            }
        }
        Some(line).filter(|line| !line.is_empty() && !self.stop())
    }

    /// Waits for input or a signal. Returns false for a signal.
    fn wait_for(&self, input: &io::Stdin) -> bool {
        loop {
            let mut both = [
                PollFd::new(input, PollFlags::IN),
                PollFd::new(&self.wake, PollFlags::IN),
            ];
            match poll(&mut both, None) {
                Ok(_) => return both[1].revents().is_empty(),
                Err(Errno::INTR) => {}
                Err(_) => return !self.stop(),
            }
        }
    }
}

fn is_ignored(signal: i32) -> bool {
    let mut action = std::mem::MaybeUninit::<libc::sigaction>::uninit();
    // SAFETY: no new action is given, and the old one is written to a live local if the call succeeds.
    unsafe {
        libc::sigaction(signal, std::ptr::null(), action.as_mut_ptr()) == 0
            && action.assume_init().sa_sigaction == libc::SIG_IGN
    }
}
