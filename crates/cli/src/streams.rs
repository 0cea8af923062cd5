//! The standard streams. A closed one is replaced by /dev/null, so that no file of ours gets its number, and
//! output to it counts as lost.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};

static STDOUT_IS_CLOSED: AtomicBool = AtomicBool::new(false);

/// Opens /dev/null in the place of each standard stream that is closed, and notes it for `check_stdout`.
///
/// Rust's runtime does the former before `main` and does not report it, so the native binary calls this still
/// earlier. It makes system calls only.
pub extern "C" fn hold_streams() {
    for stream in 0..=2 {
        // SAFETY: it takes a number and returns one; no memory is passed.
        if unsafe { libc::fcntl(stream, libc::F_GETFD) } >= 0 {
            continue;
        }
        if stream == libc::STDOUT_FILENO {
            STDOUT_IS_CLOSED.store(true, Ordering::Relaxed);
        }
        // SAFETY: the path is a constant that ends in a zero. The descriptor is the lowest free number, which is the
        // stream's, and stays open for as long as the process lives.
        unsafe { libc::open(c"/dev/null".as_ptr(), libc::O_RDWR) };
    }
}

/// Returns the error of a write to stdout if it was closed when the process started.
///
/// # Errors
/// EBADF if it was.
pub(crate) fn check_stdout() -> io::Result<()> {
    match STDOUT_IS_CLOSED.load(Ordering::Relaxed) {
        true => Err(io::Error::from_raw_os_error(libc::EBADF)),
        false => Ok(()),
    }
}
