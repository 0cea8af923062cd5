//! Buffers by their own type: what a caller puts into an op is what comes back.
//!
//! Inside the engine every buffer is a [`Buf`]. [`Buffer`] is the way there and back, without a copy.

use super::{AlignedBuf, Buf, Memory, RegisteredBuf};

pub(crate) mod sealed {
    /// What only this crate may rely on.
    pub trait Sealed {
        /// The first byte, the number of bytes in use, and whether a read may fill them.
        fn parts(&mut self) -> (*mut u8, usize, bool);
    }
}

use sealed::Sealed;

/// A buffer that an op owns while it is in flight, and that comes back with the same type.
///
/// Implemented for `Vec<u8>`, `Box<[u8]>`, [`AlignedBuf`], [`RegisteredBuf`], `Box<dyn Memory>`, [`Slice`](super::Slice)s
/// of these, and [`Buf`], which is any of them. None of the conversions copies bytes.
pub trait Buffer: Sealed + Into<Buf> + Sized + 'static {
    /// Takes back what [`Into<Buf>`] has made of a buffer of this type.
    #[doc(hidden)]
    fn from_buf(buf: Buf) -> Self;
}

/// What can be given to an op as its buffer: a [`Buffer`], or bytes that are copied into a vector.
pub trait IntoBuffer {
    /// The type that comes back.
    type Buffer: Buffer;
    /// Makes the buffer.
    fn into_buffer(self) -> Self::Buffer;
}

impl<B: Buffer> IntoBuffer for B {
    type Buffer = B;
    fn into_buffer(self) -> B {
        self
    }
}

impl IntoBuffer for &[u8] {
    type Buffer = Vec<u8>;
    fn into_buffer(self) -> Vec<u8> {
        // allocates: the caller asks for a copy, and can give a vector that it has reserved
        self.to_vec()
    }
}

impl<const N: usize> IntoBuffer for &[u8; N] {
    type Buffer = Vec<u8>;
    fn into_buffer(self) -> Vec<u8> {
        // allocates: N is a constant
        self.to_vec()
    }
}

impl IntoBuffer for &str {
    type Buffer = Vec<u8>;
    fn into_buffer(self) -> Vec<u8> {
        self.as_bytes().into_buffer()
    }
}

impl IntoBuffer for String {
    type Buffer = Vec<u8>;
    fn into_buffer(self) -> Vec<u8> {
        self.into_bytes()
    }
}

impl Buffer for Buf {
    fn from_buf(buf: Buf) -> Self {
        buf
    }
}

impl Sealed for Buf {
    fn parts(&mut self) -> (*mut u8, usize, bool) {
        (self.mut_ptr(), self.len(), self.writable())
    }
}

/// The buffers that are variants of [`Buf`].
macro_rules! variants {
    ($($type:ty, $variant:pat => $value:expr;)*) => {$(
        impl Buffer for $type {
            fn from_buf(buf: Buf) -> Self {
                match buf {
                    $variant => $value,
                    other => unreachable!("{other:?} instead of a {}", stringify!($type)),
                }
            }
        }
    )*};
}

variants! {
    Vec<u8>, Buf::Vec(vec) => vec;
    AlignedBuf, Buf::Aligned(aligned) => aligned;
    RegisteredBuf, Buf::Registered(registered) => registered;
    Box<dyn Memory>, Buf::Shared(memory) => memory;
}

impl Sealed for Vec<u8> {
    fn parts(&mut self) -> (*mut u8, usize, bool) {
        (self.as_mut_ptr(), self.len(), true)
    }
}

impl Sealed for AlignedBuf {
    fn parts(&mut self) -> (*mut u8, usize, bool) {
        (self.ptr(), self.len(), true)
    }
}

impl Sealed for RegisteredBuf {
    fn parts(&mut self) -> (*mut u8, usize, bool) {
        (self.ptr(), self.len(), true)
    }
}

impl Sealed for Box<dyn Memory> {
    fn parts(&mut self) -> (*mut u8, usize, bool) {
        (self.ptr(), self.len(), self.writable())
    }
}

/// A boxed slice in an op. Not a vector: a short read would shorten that, and the box with it.
struct Boxed {
    bytes: *mut [u8],
}

// SAFETY: it owns the bytes, as the box did.
unsafe impl Send for Boxed {}
// SAFETY: shared access reads the address and the length only.
unsafe impl Sync for Boxed {}

// SAFETY: the bytes are a box's that is freed in `drop` at the earliest; they never move.
unsafe impl Memory for Boxed {
    fn ptr(&self) -> *mut u8 {
        self.bytes.cast()
    }
    fn len(&self) -> usize {
        self.bytes.len()
    }
    fn writable(&self) -> bool {
        true
    }
    fn into_any(self: Box<Self>) -> Box<dyn std::any::Any> {
        self
    }
}

impl Drop for Boxed {
    fn drop(&mut self) {
        // SAFETY: from `Box::into_raw`; `from_buf` leaves an empty box behind when it takes the bytes.
        drop(unsafe { Box::from_raw(self.bytes) });
    }
}

impl From<Box<[u8]>> for Buf {
    fn from(bytes: Box<[u8]>) -> Self {
        Buf::Shared(Box::new(Boxed {
            bytes: Box::into_raw(bytes),
        }))
    }
}

impl Buffer for Box<[u8]> {
    fn from_buf(buf: Buf) -> Self {
        let Buf::Shared(memory) = buf else {
            unreachable!("{buf:?} instead of a boxed slice")
        };
        let mut boxed = memory.into_any().downcast::<Boxed>().expect("as it went in");
        let bytes = std::mem::replace(&mut boxed.bytes, Box::into_raw(Box::default()));
        // SAFETY: from `Box::into_raw`, and `boxed` has another one now.
        unsafe { Box::from_raw(bytes) }
    }
}

impl Sealed for Box<[u8]> {
    fn parts(&mut self) -> (*mut u8, usize, bool) {
        (self.as_mut_ptr(), self.len(), true)
    }
}
