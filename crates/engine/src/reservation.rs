//! Descriptors for calls that are no ops, and take their turn with those that are.

use crate::descriptors::{self, Opens, Permit};
use crate::memory;
use crate::op::Blocking;
use std::io;
use std::os::fd::{FromRawFd, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The op's name in errors.
const NAME: &str = "open";

/// The right to open some descriptors, for a call that closes them by itself: it must not wait for a caller in between.
///
/// ```
/// let copy = proactor_engine::Reservation::new(2);
/// if !copy.take() {
///     proactor_engine::Driver::new()?.run(copy.wait())?;
/// }
/// // Now open two files, and close them.
/// copy.release();
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Reservation {
    count: i64,
    held: Arc<Mutex<Held>>,
}

#[derive(Debug, Default)]
struct Held {
    permit: Option<Permit>,
    /// Nobody needs them any more.
    released: bool,
}

impl Reservation {
    /// A reservation of `count` descriptors, none of which is granted yet.
    pub fn new(count: u8) -> Self {
        Reservation {
            count: count.into(),
            held: Arc::default(),
        }
    }

    /// Whether they could be had without waiting.
    pub fn take(&self) -> bool {
        let permit = match self.count {
            0 => None,
            count => match descriptors::take_at_once(Opens::Passing, count) {
                Some(permit) => Some(permit),
                None => return false,
            },
        };
        locked(&self.held).grant(permit)
    }

    /// Waits for them as ops do: it fails with EMFILE when no op of the process has got one for long enough. Those that
    /// were granted before, and were not there, are given back.
    pub fn wait(&self) -> Blocking {
        let before = locked(&self.held).permit.take();
        drop(before);
        let (count, held) = (self.count, Arc::clone(&self.held));
        let mut op = Blocking::new(NAME, move |_| {
            // The kernel knows whether there are so many.
            let lacking = || io::ErrorKind::OutOfMemory.into();
            let tried: Vec<OwnedFd> = memory::collect((0..count).map(|_| any()), lacking)?;
            // The op's own permit is of as many, and ends with the op.
            let permit = (count > 0).then(|| Permit::new(Opens::Passing, count));
            drop(tried);
            locked(&held).grant(permit);
            Ok(0)
        });
        op.opens = (count > 0).then_some(Opens::Passing);
        op.descriptors = i32::try_from(count).unwrap_or(i32::MAX);
        op
    }

    /// Says that the descriptors exist now: the kernel counts them.
    pub fn opened(&self) {
        if let Some(permit) = &mut locked(&self.held).permit {
            permit.opened();
        }
    }

    /// Gives them back, and those that come later too.
    pub fn release(&self) {
        let mut held = locked(&self.held);
        held.released = true;
        let permit = held.permit.take();
        drop(held);
        drop(permit);
    }
}

impl Held {
    fn grant(&mut self, permit: Option<Permit>) -> bool {
        if !self.released {
            self.permit = permit;
        }
        !self.released
    }
}

fn locked(held: &Mutex<Held>) -> MutexGuard<'_, Held> {
    held.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The root directory.
fn any() -> io::Result<OwnedFd> {
    // SAFETY: the path is static; a descriptor that is returned is ours.
    unsafe {
        match libc::open(c"/".as_ptr(), libc::O_PATH | libc::O_CLOEXEC) {
            -1 => Err(io::Error::last_os_error()),
            fd => Ok(OwnedFd::from_raw_fd(fd)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Config, Engine};

    #[test]
    fn what_is_waited_for_is_held_until_it_is_released() {
        let mut driver = Config::default()
            .engine(Engine::Threads)
            .build()
            .expect("a driver");
        let reservation = Reservation::new(3);
        driver.run(reservation.wait()).expect("granted");
        assert!(locked(&reservation.held).permit.is_some());
        reservation.opened();
        assert!(locked(&reservation.held).permit.is_some());
        reservation.release();
        assert!(locked(&reservation.held).permit.is_none());
    }

    #[test]
    fn what_comes_too_late_is_given_back() {
        let mut driver = Config::default()
            .engine(Engine::Threads)
            .build()
            .expect("a driver");
        let reservation = Reservation::new(2);
        let op = reservation.wait();
        reservation.release();
        driver.run(op).expect("granted");
        assert!(locked(&reservation.held).permit.is_none());
        assert!(!reservation.take());
    }
}
