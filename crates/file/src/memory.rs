//! Memory whose size comes from a file or a caller: there may not be enough, which is an error and no abort.

use proactor::op::{Blocking, Op};
use std::collections::TryReserveError;
use std::io;

/// Makes room for `count` more bytes, with some to spare, so that a vector that grows byte by byte is copied rarely.
pub(crate) fn reserve(vec: &mut Vec<u8>, count: usize) -> Result<(), TryReserveError> {
    vec.try_reserve(count).or_else(|_| vec.try_reserve_exact(count))
}

/// Adds bytes to the end.
pub(crate) fn append(vec: &mut Vec<u8>, bytes: &[u8]) -> Result<(), TryReserveError> {
    reserve(vec, bytes.len())?;
    // allocates: there is room
    vec.extend_from_slice(bytes);
    Ok(())
}

/// Makes a vector of `len` zeros.
pub(crate) fn zeroed(len: usize) -> Result<Vec<u8>, TryReserveError> {
    let mut vec = Vec::new();
    vec.try_reserve_exact(len)?;
    // allocates: there is room
    vec.resize(len, 0);
    Ok(vec)
}

/// Makes an op that fails for lack of memory, in place of the one that there is no memory for.
pub(crate) fn failing_op(name: &'static str) -> Op {
    Blocking::new(name, |_| Err(io::ErrorKind::OutOfMemory.into())).into()
}
