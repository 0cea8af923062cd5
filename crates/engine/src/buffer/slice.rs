//! A part of a buffer.

use super::typed::sealed::Sealed;
use super::{Buf, Buffer, Memory};
use std::fmt;
use std::ops::{Bound, RangeBounds};

/// A range of a buffer's bytes: a write sends just these, a read fills just these. The rest stays as it is.
///
/// ```
/// use proactor_engine::buffer::Slice;
/// let line = Slice::new(b"key=value\n".to_vec(), 4..9);
/// assert_eq!(line.as_slice(), b"value");
/// assert_eq!(line.into_inner(), b"key=value\n");
/// ```
pub struct Slice<B> {
    buffer: B,
    /// Within `buffer`'s bytes, which have one address however `buffer` is moved.
    start: *mut u8,
    len: usize,
    writable: bool,
}

// SAFETY: the pointer is to bytes that `buffer` owns; it goes where that goes.
unsafe impl<B: Send> Send for Slice<B> {}
// SAFETY: shared access reads the bytes, as that to `buffer` does.
unsafe impl<B: Sync> Sync for Slice<B> {}

impl<B: Buffer> Slice<B> {
    /// The bytes `range` of those in use. (To read into a vector's spare capacity, `resize` it first.)
    ///
    /// # Panics
    /// If `range` reaches beyond the bytes in use, as the index of a slice does.
    pub fn new(mut buffer: B, range: impl RangeBounds<usize>) -> Self {
        let (start, len, writable) = buffer.parts();
        let from = match range.start_bound() {
            Bound::Included(&at) => at,
            Bound::Excluded(&at) => at + 1,
            Bound::Unbounded => 0,
        };
        let to = match range.end_bound() {
            Bound::Included(&at) => at + 1,
            Bound::Excluded(&at) => at,
            Bound::Unbounded => len,
        };
        assert!(from <= to && to <= len, "bytes {from}..{to} of {len}");
        Slice {
            buffer,
            start: start.wrapping_add(from),
            len: to - from,
            writable,
        }
    }

    /// The bytes of the range.
    pub fn as_slice(&self) -> &[u8] {
        // SAFETY: `new` has checked that they are initialised bytes of `buffer`, which nobody else can reach.
        unsafe { std::slice::from_raw_parts(self.start, self.len) }
    }

    /// The whole buffer.
    pub fn into_inner(self) -> B {
        self.buffer
    }
}

impl<B> fmt::Debug for Slice<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Slice({} bytes)", self.len)
    }
}

// SAFETY: every `Buffer` keeps its bytes at one address until it is dropped, and this one is inside.
unsafe impl<B: Buffer + Send + Sync> Memory for Slice<B> {
    fn ptr(&self) -> *mut u8 {
        self.start
    }
    fn len(&self) -> usize {
        self.len
    }
    fn writable(&self) -> bool {
        self.writable
    }
    fn into_any(self: Box<Self>) -> Box<dyn std::any::Any> {
        self
    }
}

impl<B: Buffer + Send + Sync> From<Slice<B>> for Buf {
    fn from(slice: Slice<B>) -> Self {
        Buf::Shared(Box::new(slice))
    }
}

impl<B: Buffer + Send + Sync> Buffer for Slice<B> {
    fn from_buf(buf: Buf) -> Self {
        let Buf::Shared(memory) = buf else {
            unreachable!("{buf:?} instead of a slice")
        };
        *memory.into_any().downcast::<Self>().expect("as it went in")
    }
}

impl<B> Sealed for Slice<B> {
    fn parts(&mut self) -> (*mut u8, usize, bool) {
        (self.start, self.len, self.writable)
    }
}
