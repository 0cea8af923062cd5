//! Errors for sizes, given by a file or a caller, that there is no memory for.

use proactor_engine::op::{Blocking, Op};
use std::io;

pub(crate) use proactor_engine::memory::{append, reserve, zeroed};

/// Makes an op that fails for lack of memory, in place of the one that could not be allocated.
pub(crate) fn failing_op(name: &'static str) -> Op {
    Blocking::new(name, |_| Err(io::ErrorKind::OutOfMemory.into())).into()
}
