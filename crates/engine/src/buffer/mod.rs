//! Memory that an op owns while the kernel works on it.
//!
//! A [`Buf`] moves into an op and comes back with its completion. It must not know ops or backends. Invariant: the
//! bytes behind a `Buf` stay at one address for as long as the `Buf` exists, wherever the `Buf` itself is moved.

mod aligned;
mod registered;
mod slice;
mod typed;

pub use aligned::AlignedBuf;
pub(crate) use registered::BufferTable;
pub use registered::RegisteredBuf;
pub use slice::Slice;
pub use typed::{Buffer, IntoBuffer};

use std::fmt;

/// Memory that somebody else owns and lends to an op: a Python buffer, a memory map, a shared segment.
///
/// # Safety
/// From construction until drop, `ptr()` must return the same address, valid for reads of `len()` bytes, and for
/// writes too if `writable()`. Nothing may free, move or resize that memory before the value is dropped. Dropping it
/// must be allowed on any thread.
pub unsafe trait Memory: Send + Sync {
    /// The first byte.
    fn ptr(&self) -> *mut u8;
    /// Size in bytes.
    fn len(&self) -> usize;
    /// Whether reads may fill it.
    fn writable(&self) -> bool;
    /// Whether there are no bytes at all.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// The way back to the concrete type.
    fn into_any(self: Box<Self>) -> Box<dyn std::any::Any>;
}

/// A buffer that moves into an op and comes back in its completion.
///
/// Reads fill at most `capacity()` bytes from the start and set the length; writes send `len()` bytes.
#[non_exhaustive]
pub enum Buf {
    /// An ordinary vector. A read fills its capacity and sets its length.
    Vec(Vec<u8>),
    /// Memory aligned for O_DIRECT.
    Aligned(AlignedBuf),
    /// Memory registered with a driver's ring.
    Registered(RegisteredBuf),
    /// Memory of another owner.
    Shared(Box<dyn Memory>),
}

impl Buf {
    /// Bytes a write sends and a finished read has filled.
    pub fn len(&self) -> usize {
        match self {
            Buf::Vec(v) => v.len(),
            Buf::Aligned(a) => a.len(),
            Buf::Registered(r) => r.len(),
            Buf::Shared(m) => m.len(),
        }
    }

    /// Whether `len()` is 0.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The most bytes a read can fill.
    pub fn capacity(&self) -> usize {
        match self {
            Buf::Vec(v) => v.capacity(),
            Buf::Aligned(a) => a.capacity(),
            Buf::Registered(r) => r.capacity(),
            Buf::Shared(m) => m.len(),
        }
    }

    /// Whether a read may fill it.
    pub fn writable(&self) -> bool {
        !matches!(self, Buf::Shared(m) if !m.writable())
    }

    /// The bytes: what a read filled, or what a write sends.
    pub fn as_slice(&self) -> &[u8] {
        // SAFETY: every variant guarantees `len()` initialised bytes at its pointer while it exists.
        unsafe { std::slice::from_raw_parts(self.ptr(), self.len()) }
    }

    /// The bytes as a vector: without a copy if that is what the buffer is.
    pub fn into_vec(self) -> Vec<u8> {
        match self {
            Buf::Vec(v) => v,
            // allocates: the caller asks for a vector, and has the bytes as `as_slice` otherwise
            other => other.as_slice().to_vec(),
        }
    }

    /// The first byte, to be read only.
    pub(crate) fn ptr(&self) -> *const u8 {
        match self {
            Buf::Vec(v) => v.as_ptr(),
            Buf::Aligned(a) => a.ptr(),
            Buf::Registered(r) => r.ptr(),
            Buf::Shared(m) => m.ptr(),
        }
    }

    /// The first byte, to be written.
    pub(crate) fn mut_ptr(&mut self) -> *mut u8 {
        match self {
            Buf::Vec(v) => v.as_mut_ptr(),
            Buf::Aligned(a) => a.ptr(),
            Buf::Registered(r) => r.ptr(),
            Buf::Shared(m) => m.ptr(),
        }
    }

    /// Puts all of `capacity()` in use; what was not is zero.
    pub(crate) fn use_all(&mut self) {
        match self {
            Buf::Vec(v) => v.resize(v.capacity(), 0), // allocates: nothing, it is the capacity
            Buf::Aligned(a) => a.set_len(a.capacity()),
            Buf::Registered(r) => r.set_len(r.capacity()),
            Buf::Shared(_) => {}
        }
    }

    /// Leaves the first `len` bytes of those in use.
    pub(crate) fn use_first(&mut self, len: usize) {
        match self {
            Buf::Vec(v) => v.truncate(len),
            Buf::Aligned(a) => a.set_len(len),
            Buf::Registered(r) => r.set_len(len),
            Buf::Shared(_) => {}
        }
    }

    /// Says that the first `len` bytes have been filled.
    ///
    /// # Safety
    /// `len <= capacity()`, and the kernel has written (or the buffer already held) that many bytes.
    #[inline(always)]
    pub(crate) unsafe fn set_len(&mut self, len: usize) {
        debug_assert!(len <= self.capacity());
        match self {
            // SAFETY: the caller vouches for `len` initialised bytes within capacity.
            Buf::Vec(v) => unsafe { v.set_len(len) },
            Buf::Aligned(a) => a.set_len(len),
            Buf::Registered(r) => r.set_len(len),
            Buf::Shared(_) => {}
        }
    }
}

impl std::ops::Deref for Buf {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        self.as_slice()
    }
}

impl fmt::Debug for Buf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match self {
            Buf::Vec(_) => "Vec",
            Buf::Aligned(_) => "Aligned",
            Buf::Registered(_) => "Registered",
            Buf::Shared(_) => "Shared",
        };
        write!(f, "Buf::{kind}({}/{} bytes)", self.len(), self.capacity())
    }
}

impl From<Vec<u8>> for Buf {
    fn from(v: Vec<u8>) -> Self {
        Buf::Vec(v)
    }
}

impl From<AlignedBuf> for Buf {
    fn from(a: AlignedBuf) -> Self {
        Buf::Aligned(a)
    }
}

impl From<RegisteredBuf> for Buf {
    fn from(r: RegisteredBuf) -> Self {
        Buf::Registered(r)
    }
}

impl From<Box<dyn Memory>> for Buf {
    fn from(m: Box<dyn Memory>) -> Self {
        Buf::Shared(m)
    }
}

impl From<&[u8]> for Buf {
    fn from(bytes: &[u8]) -> Self {
        // allocates: the caller asks for a copy, and can give a vector that it has reserved
        Buf::Vec(bytes.to_vec())
    }
}

impl<const N: usize> From<&[u8; N]> for Buf {
    fn from(bytes: &[u8; N]) -> Self {
        // allocates: N is a constant
        Buf::Vec(bytes.to_vec())
    }
}
