//! A part of a buffer as an op's memory.

use proactor_engine::buffer::{Buf, Memory};
use std::any::Any;

/// Spare capacity of a vector: a read fills it without moving the bytes that are there.
pub(crate) struct Room {
    vec: Vec<u8>,
    ptr: *mut u8,
    len: usize,
}

// SAFETY: the vector's memory belongs to this value alone; the pointer goes wherever the value goes.
unsafe impl Send for Room {}
// SAFETY: shared access reads the address and the length, which do not change.
unsafe impl Sync for Room {}

impl Room {
    /// Lends at most `most` bytes of the spare capacity.
    pub(crate) fn new(mut vec: Vec<u8>, most: usize) -> Self {
        let room = vec.spare_capacity_mut();
        let (ptr, len) = (room.as_mut_ptr().cast(), room.len().min(most));
        Room { vec, ptr, len }
    }

    /// Returns the room that an op has brought back.
    pub(crate) fn from_buf(buf: Buf) -> Option<Self> {
        match buf {
            Buf::Shared(memory) => memory.into_any().downcast().ok().map(|room| *room),
            _ => None,
        }
    }

    /// Returns the vector, extended by the `filled` bytes that an op has put there.
    ///
    /// # Safety
    /// The op has written that many bytes from the start of the room.
    pub(crate) unsafe fn into_vec(mut self, filled: usize) -> Vec<u8> {
        debug_assert!(filled <= self.len);
        let len = self.vec.len() + filled;
        // SAFETY: the caller vouches for the bytes, and the room was within the capacity.
        unsafe { self.vec.set_len(len) };
        self.vec
    }
}

// SAFETY: the vector is neither touched nor moved off its heap memory while this value exists.
unsafe impl Memory for Room {
    fn ptr(&self) -> *mut u8 {
        self.ptr
    }
    fn len(&self) -> usize {
        self.len
    }
    fn writable(&self) -> bool {
        true
    }
    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self
    }
}

/// A buffer without its first bytes, which have been written.
pub(crate) struct Rest {
    buf: Buf,
    skip: usize,
}

impl Rest {
    /// Shows `buf` without its first `skip` bytes; `skip` is at most its length.
    ///
    /// The rest of a `Rest` must be made from the whole buffer ([`unwrap`](Self::unwrap)): one inside another asks its inner
    /// one twice for each address, so the cost of a nest doubles with its depth.
    pub(crate) fn of(buf: Buf, skip: usize) -> Buf {
        if skip == 0 {
            return buf;
        }
        let memory: Box<dyn Memory> = Box::new(Rest { buf, skip });
        Buf::from(memory)
    }

    /// Gives back the buffer that [`of`](Self::of) has wrapped with the same `skip`.
    pub(crate) fn unwrap(buf: Buf, skip: usize) -> Buf {
        match buf {
            Buf::Shared(memory) if skip > 0 => match memory.into_any().downcast::<Rest>() {
                Ok(rest) => rest.buf,
                Err(_) => unreachable!("a buffer with bytes to skip is a Rest"),
            },
            whole => whole,
        }
    }

    /// Wraps a buffer and shows all of it.
    pub(crate) fn whole(buf: Buf) -> Self {
        Rest { buf, skip: 0 }
    }

    /// Gives back the buffer, with its first bytes.
    pub(crate) fn into_whole(self) -> Buf {
        self.buf
    }

    fn bytes(&self) -> &[u8] {
        &self.buf.as_slice()[self.skip..]
    }
}

// SAFETY: a `Buf`'s bytes stay at one address while it exists, and it exists as long as this value. Only its first
// `len()` bytes are shown, all initialised, and never for writing.
unsafe impl Memory for Rest {
    fn ptr(&self) -> *mut u8 {
        self.bytes().as_ptr().cast_mut()
    }
    fn len(&self) -> usize {
        self.bytes().len()
    }
    fn writable(&self) -> bool {
        false
    }
    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self
    }
}
