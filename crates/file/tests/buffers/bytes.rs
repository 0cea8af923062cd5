//! Memory that a test shares with transfers.

use proactor_engine::buffer::Memory;
use std::sync::Arc;

/// Shared memory, as transfers take it.
pub struct Bytes(*mut u8, usize);

// SAFETY: heap memory that any thread may use; the test looks at it when no op does.
unsafe impl Send for Bytes {}
// SAFETY: as above.
unsafe impl Sync for Bytes {}

impl Bytes {
    pub fn of(data: &[u8]) -> Arc<Self> {
        let len = data.len();
        Arc::new(Bytes(Box::into_raw(Box::<[u8]>::from(data)).cast(), len))
    }

    pub fn zeroed(len: usize) -> Arc<Self> {
        Self::of(&vec![0; len])
    }

    pub fn to_vec(&self) -> Vec<u8> {
        // SAFETY: made from a slice of this length.
        unsafe { std::slice::from_raw_parts(self.0, self.1) }.to_vec()
    }
}

// SAFETY: heap memory, freed in `drop` only.
unsafe impl Memory for Bytes {
    fn ptr(&self) -> *mut u8 {
        self.0
    }
    fn len(&self) -> usize {
        self.1
    }
    fn writable(&self) -> bool {
        true
    }
    fn into_any(self: Box<Self>) -> Box<dyn std::any::Any> {
        self
    }
}

impl Drop for Bytes {
    fn drop(&mut self) {
        // SAFETY: made by `Box::into_raw` from a slice of this length.
        drop(unsafe { Box::from_raw(std::ptr::slice_from_raw_parts_mut(self.0, self.1)) });
    }
}
