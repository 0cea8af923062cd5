//! Memory whose size a file system or a caller gives: it is reserved fallibly.

use proactor_engine::memory;
use rustix::io::Errno;
use std::io;
use std::mem::MaybeUninit;

/// Allocates this many zeros.
///
/// # Errors
/// ENOMEM if there is none.
pub(crate) fn zeroed(bytes: usize) -> io::Result<Vec<u8>> {
    memory::zeroed(bytes).map_err(|_| Errno::NOMEM.into())
}

/// Allocates memory that a call of the kernel fills.
///
/// # Errors
/// As [`zeroed`].
pub(crate) fn room(bytes: usize) -> io::Result<Vec<MaybeUninit<u8>>> {
    let mut room = Vec::new();
    room.try_reserve_exact(bytes).map_err(|_| Errno::NOMEM)?;
    room.resize(bytes, MaybeUninit::uninit()); // allocates: there is room
    Ok(room)
}
