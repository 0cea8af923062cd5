//! Memory whose address is a multiple of a given power of two, as O_DIRECT demands.

use std::alloc::{self, Layout};
use std::ptr::NonNull;

/// Zeroed memory at an aligned address. Ask [`File::direct_alignment`](crate::op::File::direct_alignment) what a file needs.
#[derive(Debug)]
pub struct AlignedBuf {
    ptr: NonNull<u8>,
    layout: Layout,
    len: usize,
}

// SAFETY: the allocation is owned by this value alone, and any thread may free it.
unsafe impl Send for AlignedBuf {}
// SAFETY: shared access only reads.
unsafe impl Sync for AlignedBuf {}

impl AlignedBuf {
    /// `capacity` zeroed bytes at a multiple of `alignment`, of length 0.
    ///
    /// # Panics
    /// If `alignment` is not a power of two, if `capacity` is 0 or above `isize::MAX` rounded up to `alignment`.
    pub fn new(capacity: usize, alignment: usize) -> Self {
        assert!(capacity > 0, "an aligned buffer needs at least one byte");
        let layout = Layout::from_size_align(capacity, alignment).expect("alignment must be a power of two");
        Self::allocate(layout).unwrap_or_else(|| alloc::handle_alloc_error(layout))
    }

    /// As [`zeroed`](Self::zeroed), but `None` for no memory, no bytes, or an `alignment` that is not a power of two.
    pub fn try_zeroed(len: usize, alignment: usize) -> Option<Self> {
        let layout = Layout::from_size_align(len, alignment).ok()?;
        if len == 0 {
            return None;
        }
        let mut buf = Self::allocate(layout)?;
        buf.len = len;
        Some(buf)
    }

    fn allocate(layout: Layout) -> Option<Self> {
        debug_assert_ne!(layout.size(), 0);
        // SAFETY: the layout's size is not zero: both callers have looked.
        let ptr = NonNull::new(unsafe { alloc::alloc_zeroed(layout) })?;
        Some(AlignedBuf { ptr, layout, len: 0 })
    }

    /// A full buffer: `len() == capacity()`, zeroed, ready to be changed and written.
    pub fn zeroed(len: usize, alignment: usize) -> Self {
        let mut buf = Self::new(len, alignment);
        buf.len = len;
        buf
    }

    /// Bytes in use.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether no byte is in use.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Bytes allocated.
    pub fn capacity(&self) -> usize {
        self.layout.size()
    }

    /// The address is a multiple of this, in bytes.
    pub fn alignment(&self) -> usize {
        self.layout.align()
    }

    /// Puts the first `len` bytes in use.
    ///
    /// # Panics
    /// If `len > capacity()`.
    pub fn set_len(&mut self, len: usize) {
        assert!(len <= self.capacity());
        self.len = len;
    }

    pub(crate) fn ptr(&self) -> *mut u8 {
        self.ptr.as_ptr()
    }
}

impl std::ops::Deref for AlignedBuf {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        // SAFETY: the whole allocation was zeroed, so all `len <= capacity` bytes are initialised.
        unsafe { std::slice::from_raw_parts(self.ptr.as_ptr(), self.len) }
    }
}

impl std::ops::DerefMut for AlignedBuf {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `deref`, and `&mut self` makes the access unique.
        unsafe { std::slice::from_raw_parts_mut(self.ptr.as_ptr(), self.len) }
    }
}

impl Drop for AlignedBuf {
    fn drop(&mut self) {
        // SAFETY: allocated in `new` with this very layout, and freed only here.
        unsafe { alloc::dealloc(self.ptr.as_ptr(), self.layout) }
    }
}
