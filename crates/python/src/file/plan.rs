//! How a file is to be opened.

use super::direct;
use super::mode::Mode;
use pyo3::prelude::*;

/// Size of a buffer in bytes: a write of it is done by a worker in about the time that 1,000 lines take to be written.
pub(super) const BLOCK_BYTES: usize = 32 * 1024;

/// How to open.
pub(super) struct Plan {
    pub(super) name: Py<PyAny>,
    pub(super) mode: Mode,
    /// `open`'s argument.
    pub(super) buffering: i32,
    pub(super) closefd: bool,
    pub(super) engine: Option<String>,
    pub(super) direct: bool,
    pub(super) limiter: Option<Py<PyAny>>,
}

impl Plan {
    pub(super) fn clone_ref(&self, py: Python<'_>) -> Self {
        Plan {
            name: self.name.clone_ref(py),
            engine: self.engine.clone(),
            limiter: self.limiter.as_ref().map(|limiter| limiter.clone_ref(py)),
            ..*self
        }
    }

    /// The size of a buffer.
    pub(super) fn block(&self) -> usize {
        match self.buffering {
            // 1 would be a line, which binary files have not: io warns and takes the default.
            ..=-1 | 1 if self.direct => direct::BLOCK_BYTES,
            ..=-1 | 1 => BLOCK_BYTES,
            bytes => bytes.unsigned_abs() as usize,
        }
    }

    /// Of open(2).
    pub(super) fn flags(&self) -> i32 {
        let direct = if self.direct { libc::O_DIRECT } else { 0 };
        self.mode.flags() | direct
    }
}
