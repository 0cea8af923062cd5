//! A driver that was made in one thread and is used in another.

use super::Driver;
use std::fmt;
use std::io;

/// A driver on io_uring that nobody can use yet, of [`Config::build_disabled`](crate::Config::build_disabled): a thread takes it
/// and enables it, and the ring is that thread's from then on.
///
/// ```no_run
/// # fn main() -> std::io::Result<()> {
/// let disabled = proactor_engine::Driver::builder().build_disabled()?;
/// std::thread::spawn(move || {
///     let mut driver = disabled.enable()?;
///     driver.run(proactor_engine::op::Nop).map_err(std::io::Error::other)?;
///     std::io::Result::Ok(())
/// });
/// # Ok(()) }
/// ```
pub struct Disabled(Driver);

// SAFETY: a driver is bound to a thread by what its ring knows of its submitter, and by what was accepted. A disabled ring has
// no submitter (Linux sets it when the ring is enabled), its descriptor is not registered with the thread that made it, and
// no op was accepted: its backend is io_uring's, which is `Send` (asserted in `backend/uring`), and all its queues are empty.
unsafe impl Send for Disabled {}

impl Disabled {
    pub(crate) fn new(driver: Driver) -> Self {
        Disabled(driver)
    }

    /// Begins the ring in this thread.
    ///
    /// # Errors
    /// Why the ring cannot be used, in words; an error in a forked child.
    pub fn enable(mut self) -> io::Result<Driver> {
        self.0.ring()?.enable()?;
        Ok(self.0)
    }
}

impl fmt::Debug for Disabled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Disabled").finish_non_exhaustive()
    }
}
