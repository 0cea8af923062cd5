//! The mode of an open file, as `open` spells it.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

/// What a mode such as "r+b" means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Mode {
    pub(crate) readable: bool,
    pub(crate) writable: bool,
    pub(crate) append: bool,
    create: i32,
}

impl Mode {
    /// # Errors
    /// ValueError with the messages of `io.open`.
    pub(crate) fn parse(mode: &str) -> PyResult<Self> {
        let invalid = || PyValueError::new_err(format!("invalid mode: '{mode}'"));
        let mut seen = 0_u32;
        for character in mode.chars() {
            let bit = "rwxab+t".find(character).ok_or_else(invalid)?;
            if seen & (1 << bit) != 0 {
                return Err(invalid());
            }
            seen |= 1 << bit;
        }
        let has = |character| seen & (1 << "rwxab+t".find(character).unwrap_or(31)) != 0;
        if has('t') && has('b') {
            return Err(PyValueError::new_err("can't have text and binary mode at once"));
        }
        let ways = [has('r'), has('w'), has('x'), has('a')];
        let why = match ways.iter().filter(|on| **on).count() {
            0 => "Must have exactly one of create/read/write/append mode and at most one plus",
            1 => "",
            _ => "must have exactly one of create/read/write/append mode",
        };
        if !why.is_empty() {
            return Err(PyValueError::new_err(why));
        }
        Ok(Mode {
            readable: has('r') || has('+'),
            writable: !has('r') || has('+'),
            append: has('a'),
            create: match () {
                () if has('w') => libc::O_CREAT | libc::O_TRUNC,
                () if has('x') => libc::O_CREAT | libc::O_EXCL,
                () if has('a') => libc::O_CREAT | libc::O_APPEND,
                () => 0,
            },
        })
    }

    /// `O_*`.
    pub(crate) fn flags(self) -> i32 {
        let access = match (self.readable, self.writable) {
            (true, true) => libc::O_RDWR,
            (false, true) => libc::O_WRONLY,
            _ => libc::O_RDONLY,
        };
        access | self.create | libc::O_CLOEXEC
    }

    /// As `io` writes it: "rb", "rb+", "wb", "ab+" ...
    pub(crate) fn name(self) -> &'static str {
        match (self.create, self.readable && self.writable) {
            (0, false) => "rb",
            (flags, false) if flags & libc::O_TRUNC != 0 => "wb",
            (flags, false) if flags & libc::O_EXCL != 0 => "xb",
            (_, false) => "ab",
            (flags, true) if flags & libc::O_EXCL != 0 => "xb+",
            (flags, true) if flags & libc::O_APPEND != 0 => "ab+",
            // io says so of "w+b" too.
            (_, true) => "rb+",
        }
    }
}
