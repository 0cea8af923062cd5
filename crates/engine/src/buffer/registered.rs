//! Buffers that a ring has pinned once, so that no op has to look up its pages again.
//!
//! A backend without registration treats them as ordinary memory, so one program runs everywhere.

use super::AlignedBuf;
use std::collections::TryReserveError;
use std::sync::Arc;

/// The memory of all registered buffers of one driver. It outlives every `RegisteredBuf` cut from it.
pub(crate) struct BufferTable {
    memory: AlignedBuf,
    each_bytes: usize,
    /// The driver whose ring has pinned it; another driver uses the memory as ordinary memory.
    pub(crate) driver_id: u64,
}

impl BufferTable {
    /// None: no memory for so much.
    pub(crate) fn new(count: usize, each_bytes: usize, driver_id: u64) -> Option<Arc<Self>> {
        // Page alignment serves O_DIRECT on every block size up to a page and makes each buffer whole pages.
        let page = crate::sys::page_size();
        let each_bytes = each_bytes.checked_next_multiple_of(page)?;
        Some(Arc::new(BufferTable {
            memory: AlignedBuf::try_zeroed(count.checked_mul(each_bytes)?, page)?,
            each_bytes,
            driver_id,
        }))
    }

    pub(crate) fn iovecs(&self) -> Result<Vec<libc::iovec>, TryReserveError> {
        let iovec = |i| libc::iovec {
            iov_base: self.memory.ptr().wrapping_add(i * self.each_bytes).cast(),
            iov_len: self.each_bytes,
        };
        self.each(iovec)
    }

    pub(crate) fn buffers(self: &Arc<Self>) -> Result<Vec<RegisteredBuf>, TryReserveError> {
        let buffer = |index| RegisteredBuf {
            table: Arc::clone(self),
            index: index as u16,
            len: 0,
        };
        self.each(buffer)
    }

    /// What `make` makes of the number of each buffer.
    fn each<T>(&self, make: impl Fn(usize) -> T) -> Result<Vec<T>, TryReserveError> {
        let count = self.memory.len() / self.each_bytes;
        let mut all = Vec::new();
        all.try_reserve_exact(count)?;
        all.extend((0..count).map(make)); // allocates: there is room
        Ok(all)
    }
}

/// One registered buffer, page aligned. Made by [`Driver::register_buffers`](crate::Driver::register_buffers).
pub struct RegisteredBuf {
    table: Arc<BufferTable>,
    index: u16,
    len: usize,
}

impl RegisteredBuf {
    /// Bytes in use.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether no byte is in use.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Size in bytes: what was asked for, rounded up to whole pages.
    pub fn capacity(&self) -> usize {
        self.table.each_bytes
    }

    /// Puts the first `len` bytes in use.
    ///
    /// # Panics
    /// If `len > capacity()`.
    pub fn set_len(&mut self, len: usize) {
        assert!(len <= self.capacity());
        self.len = len;
    }

    pub(crate) fn index_in(&self, driver_id: u64) -> Option<u16> {
        (self.table.driver_id == driver_id).then_some(self.index)
    }

    pub(crate) fn ptr(&self) -> *mut u8 {
        self.table
            .memory
            .ptr()
            .wrapping_add(self.index as usize * self.table.each_bytes)
    }
}

impl std::ops::Deref for RegisteredBuf {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        // SAFETY: the table is zeroed memory and no other RegisteredBuf covers this index.
        unsafe { std::slice::from_raw_parts(self.ptr(), self.len) }
    }
}

impl std::ops::DerefMut for RegisteredBuf {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `deref`; `&mut self` makes the access unique, since `buffers()` cuts each index once.
        unsafe { std::slice::from_raw_parts_mut(self.ptr(), self.len) }
    }
}
