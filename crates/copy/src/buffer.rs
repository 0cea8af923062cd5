//! What contents go through: memory that starts at a page.

use std::ops::{Deref, DerefMut};

/// The kernel copies to and from a buffer at a page's start in 0.6 of the time that it takes with one that is 16 bytes
/// off, as allocators give them for large sizes (AMD EPYC, 256 KiB at a time).
const ALIGNMENT: usize = 4096;

pub(crate) struct Buffer {
    /// Never grows, so that it stays where it is.
    memory: Vec<u8>,
    start: usize,
    length: usize,
}

impl Buffer {
    pub(crate) fn new(length: usize) -> Buffer {
        let memory = vec![0; length + ALIGNMENT];
        let start = memory.as_ptr().align_offset(ALIGNMENT);
        assert!(start < ALIGNMENT, "bytes can be aligned to anything");
        Buffer {
            memory,
            start,
            length,
        }
    }
}

impl Deref for Buffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.memory[self.start..][..self.length]
    }
}

impl DerefMut for Buffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.memory[self.start..][..self.length]
    }
}
