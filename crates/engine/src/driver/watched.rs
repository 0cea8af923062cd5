//! A driver that another event loop watches.

use super::Driver;
use crate::sys;
use std::fmt;
use std::io;
use std::ops::{Deref, DerefMut};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};

/// A driver with the descriptor that tells of its completions. Made by [`Driver::watched`].
///
/// It polls readable while a completion can be collected; [`Driver::wait`] with `min == 0` resets it. Do not read from it.
/// What takes an `AsFd` or `AsRawFd` to watch (mio, polling, the `AsyncFd` of tokio) takes this.
///
/// ```
/// use proactor_engine::{Driver, op::Timeout};
/// use std::os::fd::{AsFd, AsRawFd};
/// use std::time::Duration;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let mut driver = Driver::new()?.watched()?;
/// driver.submit(Timeout::new(Duration::from_millis(1)))?;
/// driver.flush()?;
///
/// // Any other loop will do.
/// let mut entry = libc::pollfd { fd: driver.as_fd().as_raw_fd(), events: libc::POLLIN, revents: 0 };
/// // SAFETY: one live entry.
/// assert_eq!(unsafe { libc::poll(&mut entry, 1, -1) }, 1);
///
/// let mut done = Vec::new();
/// assert_eq!(driver.wait(0, 16, None, &mut done)?, 1);
/// # Ok(()) }
/// ```
pub struct Watched {
    driver: Driver,
    /// One of its own: whoever has the driver can put another in its place.
    fd: OwnedFd,
}

impl Driver {
    /// The driver with its descriptor for another event loop, which [`Watched`] gives as an
    /// [`AsFd`]. As with [`eventfd`](Self::eventfd), do this before there are ops.
    ///
    /// # Errors
    /// If the descriptor cannot be made (EMFILE). The driver is then dropped.
    pub fn watched(mut self) -> io::Result<Watched> {
        let fd = self.eventfd().and_then(sys::dup)?;
        Ok(Watched { driver: self, fd })
    }
}

impl Watched {
    /// The driver alone. Its descriptor is closed when the driver is.
    pub fn into_driver(self) -> Driver {
        self.driver
    }
}

impl Deref for Watched {
    type Target = Driver;
    fn deref(&self) -> &Driver {
        &self.driver
    }
}

impl DerefMut for Watched {
    fn deref_mut(&mut self) -> &mut Driver {
        &mut self.driver
    }
}

impl AsFd for Watched {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl AsRawFd for Watched {
    fn as_raw_fd(&self) -> RawFd {
        self.fd.as_raw_fd()
    }
}

impl fmt::Debug for Watched {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Watched")
            .field("fd", &self.fd)
            .finish_non_exhaustive()
    }
}
