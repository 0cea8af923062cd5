//! Received bytes that more than one process has.

use std::sync::atomic::{AtomicU32, Ordering};

/// Bytes that two processes have after a fork, of which each goes to the one that asks first.
pub(crate) struct Shared {
    pub(crate) bytes: Vec<u8>,
    /// How many are taken; in memory that the processes share.
    pub(crate) cursor: &'static AtomicU32,
}

impl Shared {
    /// How many bytes no process has taken yet.
    pub(crate) fn left(&self) -> usize {
        self.bytes.len() - self.cursor.load(Ordering::Acquire) as usize
    }

    /// # Safety
    /// The places are writable, unless `drop`.
    pub(crate) unsafe fn take(&self, to: &[libc::iovec], peek: bool, drop: bool) -> usize {
        let room: usize = to.iter().map(|place| place.iov_len).sum();
        let mut from = self.cursor.load(Ordering::Acquire) as usize;
        let len = loop {
            let len = room.min(self.bytes.len() - from);
            if peek {
                break len;
            }
            let next = (from + len) as u32;
            match self
                .cursor
                .compare_exchange(from as u32, next, Ordering::AcqRel, Ordering::Acquire)
            {
                Ok(_) => break len,
                Err(now) => from = now as usize,
            }
        };
        let mut rest = &self.bytes[from..from + len];
        for place in to {
            let (now, later) = rest.split_at(rest.len().min(place.iov_len));
            if !drop {
                // SAFETY: the caller's promise.
                unsafe { copy(now, place, 0) };
            }
            rest = later;
        }
        len
    }
}

/// # Safety
/// The place is writable from `at` on, for as many bytes.
pub(crate) unsafe fn copy(bytes: &[u8], place: &libc::iovec, at: usize) {
    // SAFETY: the caller's promise.
    unsafe {
        std::ptr::copy_nonoverlapping(bytes.as_ptr(), place.iov_base.cast::<u8>().add(at), bytes.len())
    };
}
