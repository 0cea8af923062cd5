//! A part of memory that is shared.

use proactor_engine::buffer::{Buf, Memory};
use std::any::Any;
use std::ops::Range;
use std::sync::Arc;

/// Part of shared memory, as the memory of an op.
pub(crate) struct Span {
    memory: Arc<dyn Memory>,
    range: Range<usize>,
}

impl Span {
    /// # Panics
    /// If the range does not lie within the memory.
    pub(crate) fn of(memory: Arc<dyn Memory>, range: Range<usize>) -> Self {
        assert!(range.start <= range.end && range.end <= memory.len());
        Span { memory, range }
    }

    pub(crate) fn into_buf(self) -> Buf {
        let memory: Box<dyn Memory> = Box::new(self);
        Buf::from(memory)
    }
}

// SAFETY: the memory stays where it is while this value holds it, and the range lies within it.
unsafe impl Memory for Span {
    fn ptr(&self) -> *mut u8 {
        self.memory.ptr().wrapping_add(self.range.start)
    }
    fn len(&self) -> usize {
        self.range.len()
    }
    fn writable(&self) -> bool {
        self.memory.writable()
    }
    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self
    }
}
