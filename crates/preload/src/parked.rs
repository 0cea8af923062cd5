//! Empty rings of sets that were handed back or closed, kept for the next set of the same thread.
//!
//! The kernel takes a closed ring down later, and interrupts its thread for that: a wait that is under way then would end with
//! EINTR although no signal has come.

use crate::ring::Ring;
use std::sync::{Mutex, TryLockError};

/// Rings that are kept. More threads than this have had sets that are gone.
const MAX_PARKED: usize = 64;

static PARKED: Mutex<Vec<(u32, Ring)>> = Mutex::new(Vec::new());

/// Runs `with` unless another thread is there, which may be gone in a forked child.
fn try_with<R>(with: impl FnOnce(&mut Vec<(u32, Ring)>) -> R) -> Option<R> {
    match PARKED.try_lock() {
        Ok(mut rings) => Some(with(&mut rings)),
        Err(TryLockError::Poisoned(rings)) => Some(with(&mut rings.into_inner())),
        Err(TryLockError::WouldBlock) => None,
    }
}

/// Keeps a thread's ring, in which nothing is left.
pub(crate) fn put(thread: u32, ring: Ring) {
    let before = crate::errno();
    try_with(|rings| {
        rings.push((thread, ring));
        if rings.len() > MAX_PARKED {
            rings.remove(0);
        }
    });
    crate::set_errno(before);
}

/// A ring that this thread has made before.
pub(crate) fn take(thread: u32) -> Option<Ring> {
    try_with(|rings| {
        let at = rings.iter().position(|(owner, _)| *owner == thread)?;
        Some(rings.swap_remove(at).1)
    })
    .flatten()
}

/// Closes a forked child's copies of the descriptors. The queues are not mapped there.
pub(crate) fn forget_in_child() {
    try_with(|rings| rings.drain(..).for_each(|(_, ring)| ring.forget_in_child()));
}
