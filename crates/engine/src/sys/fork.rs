//! Knowing, for the price of one load, that this process is a child of the one that made a driver.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::Once;

static GENERATION: AtomicU32 = AtomicU32::new(0);
static INSTALL: Once = Once::new();

extern "C" fn in_child() {
    // Only atomic stores: the child of a threaded process may do nothing that takes a lock.
    GENERATION.fetch_add(1, Ordering::Relaxed);
    crate::descriptors::forget_parent();
}

/// A number that differs after each `fork()` on the child's side: what belongs to one process compares it with the number from
/// its beginning.
///
/// `getpid()` would do, but has been a system call since glibc 2.25.
#[inline]
pub fn generation() -> u32 {
    INSTALL.call_once(|| {
        // SAFETY: `in_child` is async-signal-safe and lives as long as the process.
        unsafe { libc::pthread_atfork(None, None, Some(in_child)) };
    });
    current()
}

/// The same number, where [`generation`] was called before.
#[inline]
pub(crate) fn current() -> u32 {
    GENERATION.load(Ordering::Relaxed)
}
