//! Wake-ups from other threads: an eventfd that the ring polls.

use super::{Ring, WAKE};
use crate::sys;
use io_uring::{opcode, types};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::sync::Arc;

/// Ends a wait for events in the thread that owns the driver.
///
/// Any number of clones may be used by any threads. Wake-ups that happen before the driver's next wait count as one. A
/// waker that outlives its driver does nothing.
#[derive(Debug, Clone)]
pub struct Waker {
    event: Arc<OwnedFd>,
}

impl Waker {
    pub(crate) fn of(event: Arc<OwnedFd>) -> Self {
        Waker { event }
    }

    /// Ends the wait that is going on, or the next one.
    pub fn wake(&self) {
        sys::eventfd_signal(self.event.as_raw_fd());
    }
}

/// The ring's side of its wakers.
pub(super) struct Watch {
    event: Arc<OwnedFd>,
    /// The poll is in the ring.
    pub(super) armed: bool,
}

impl Watch {
    pub(super) fn drain(&self) {
        sys::eventfd_drain(self.event.as_raw_fd());
    }
}

impl Ring {
    /// Returns a waker for this ring. All wakers of a ring share one descriptor.
    ///
    /// # Errors
    /// EMFILE or ENFILE if the eventfd cannot be made.
    pub(crate) fn waker(&mut self) -> io::Result<Waker> {
        let event = match &self.waker {
            Some(watch) => Arc::clone(&watch.event),
            None => {
                let event = Arc::new(sys::eventfd()?);
                self.waker = Some(Watch {
                    event: Arc::clone(&event),
                    armed: false,
                });
                event
            }
        };
        Ok(Waker::of(event))
    }

    /// The descriptor of the wakers. A loop that watches the ring must watch it as well: the ring's own eventfd is not
    /// signalled from within a write to another eventfd (`backend/uring/announce.rs`).
    pub(crate) fn waker_fd(&self) -> Option<RawFd> {
        self.waker.as_ref().map(|watch| watch.event.as_raw_fd())
    }

    /// Polls the wakers' descriptor, unless the ring does so already.
    pub(crate) fn arm_waker(&mut self) {
        let Some(fd) = self
            .waker
            .as_ref()
            .filter(|watch| !watch.armed)
            .map(|_| self.waker_fd())
        else {
            return;
        };
        let fd = types::Fd(fd.expect("there is a waker"));
        if self.reserve(1) {
            let poll = opcode::PollAdd::new(fd, libc::POLLIN as u32).multi(true);
            self.push(&poll.build().user_data(WAKE));
            if let Some(watch) = &mut self.waker {
                watch.armed = true;
            }
        }
    }
}
