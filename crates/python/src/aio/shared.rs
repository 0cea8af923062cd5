//! A context that several threads use: who is inside it, and how they wait for its events.
//!
//! It does not know ops or events. Invariant: nobody waits while the context is locked, so that a thread which waits for
//! events does not keep others from submitting. At most one waiter sleeps without a limit, the one that was alone when it
//! came; whoever comes next wakes it.

use std::ffi::c_int;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// How long one of several waiters sleeps at most. Another may have taken the descriptor's signal for events that it then
/// left behind.
const WITH_OTHERS: Duration = Duration::from_millis(1);

/// What threads need to share one context.
pub(super) struct Shared {
    /// None once the context is closed. A thread that waits has them for as long as it does.
    descriptors: Mutex<Option<Arc<Descriptors>>>,
    waiters: AtomicUsize,
    /// The thread that is inside, by the address of a variable of its own; 0 for none.
    holder: AtomicUsize,
    process: u32,
}

struct Descriptors {
    /// Readable while there are completions. Our own descriptor, so that closing the driver does not pull it from under a
    /// thread that waits.
    events: OwnedFd,
    /// An eventfd, readable when the waiter without a limit has to look again.
    wake: OwnedFd,
}

/// This thread, as a number that no other live thread has.
fn me() -> usize {
    thread_local!(static PLACE: u8 = const { 0 });
    PLACE.with(|place| std::ptr::from_ref(place) as usize)
}

impl Shared {
    /// For a driver whose descriptor this is.
    pub(super) fn new(events: RawFd) -> io::Result<Self> {
        // SAFETY: the driver, which the caller holds, keeps the descriptor open during this call.
        let events = unsafe { BorrowedFd::borrow_raw(events) }.try_clone_to_owned()?;
        // SAFETY: no pointers.
        let wake = unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) };
        if wake < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the kernel has just made it, and nobody else knows it.
        let wake = unsafe { OwnedFd::from_raw_fd(wake) };
        Ok(Shared {
            descriptors: Mutex::new(Some(Arc::new(Descriptors { events, wake }))),
            waiters: AtomicUsize::new(0),
            holder: AtomicUsize::new(0),
            process: std::process::id(),
        })
    }

    /// Whether the calling thread is inside already: the code that it runs was called from there.
    pub(super) fn is_inside(&self) -> bool {
        self.holder.load(Ordering::Relaxed) == me()
    }

    /// Whether this is a fork's child. A thread that was inside at that time is not here to leave.
    pub(super) fn is_forked(&self) -> bool {
        self.process != std::process::id()
    }

    pub(super) fn enter(&self) {
        self.holder.store(me(), Ordering::Relaxed);
    }

    pub(super) fn leave(&self) {
        self.holder.store(0, Ordering::Relaxed);
    }

    /// Begins a wait; to be called inside, on a context that is not closed.
    pub(super) fn waiter(&self) -> Option<Waiter<'_>> {
        let descriptors = self.descriptors().clone()?;
        if self.waiters.fetch_add(1, Ordering::SeqCst) > 0 {
            descriptors.ring();
        }
        Some(Waiter {
            shared: self,
            descriptors,
        })
    }

    /// Makes the waiter without a limit look at events that this thread has collected and leaves to it. The driver's
    /// descriptor no longer tells of them. To be called inside.
    pub(super) fn wake_waiter(&self) {
        if self.waiters.load(Ordering::SeqCst) > 0 {
            if let Some(descriptors) = &*self.descriptors() {
                descriptors.ring();
            }
        }
    }

    /// Sends those who wait away, and closes the descriptors when the last of them has gone; to be called inside.
    pub(super) fn close(&self) {
        if let Some(descriptors) = self.descriptors().take() {
            descriptors.ring();
        }
    }

    fn descriptors(&self) -> MutexGuard<'_, Option<Arc<Descriptors>>> {
        self.descriptors.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Descriptors {
    /// Makes the waiter without a limit look again.
    fn ring(&self) {
        let one = 1_u64.to_ne_bytes();
        // SAFETY: the buffer is ours and has eight bytes. A counter that is full is readable all the same.
        unsafe { libc::write(self.wake.as_raw_fd(), one.as_ptr().cast(), one.len()) };
    }
}

/// One thread's wait, which may sleep several times.
pub(super) struct Waiter<'a> {
    shared: &'a Shared,
    descriptors: Arc<Descriptors>,
}

impl Waiter<'_> {
    /// Sleeps until there may be events, or for so long at most; to be called outside. `Interrupted` after a signal.
    pub(super) fn sleep(&self, limit: Option<Duration>) -> io::Result<()> {
        let Descriptors { events, wake } = &*self.descriptors;
        let alone = self.shared.waiters.load(Ordering::SeqCst) == 1;
        let limit = if alone {
            limit
        } else {
            Some(limit.map_or(WITH_OTHERS, |limit| limit.min(WITH_OTHERS)))
        };
        let poll = |fd: RawFd| libc::pollfd {
            fd,
            events: libc::POLLIN,
            revents: 0,
        };
        let mut fds = [poll(events.as_raw_fd()), poll(wake.as_raw_fd())];
        let watched = if alone { 2 } else { 1 };
        // Rounded up, for a wait that ends early is repeated without end.
        let limit = limit.map_or(-1, |limit| {
            c_int::try_from(limit.as_nanos().div_ceil(1_000_000)).unwrap_or(c_int::MAX)
        });
        // SAFETY: the array is ours and has as many entries as are watched.
        if unsafe { libc::poll(fds.as_mut_ptr(), watched, limit) } < 0 {
            return Err(io::Error::last_os_error());
        }
        if fds[1].revents != 0 {
            let mut count = [0_u8; 8];
            // SAFETY: the buffer is ours and has eight bytes.
            unsafe { libc::read(wake.as_raw_fd(), count.as_mut_ptr().cast(), count.len()) };
        }
        Ok(())
    }
}

impl Drop for Waiter<'_> {
    fn drop(&mut self) {
        self.shared.waiters.fetch_sub(1, Ordering::SeqCst);
    }
}
