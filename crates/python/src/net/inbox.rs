//! Received bytes that nobody has read yet.

use std::collections::TryReserveError;

/// Memory that an empty inbox may keep.
const KEPT_BYTES: usize = 64 << 10;

/// Bytes in the order in which they came.
#[derive(Default)]
pub(crate) struct Inbox {
    bytes: Vec<u8>,
    /// Bytes at the beginning that were read.
    read: usize,
    /// Unread bytes that were searched for a separator in vain.
    searched: usize,
}

impl Inbox {
    pub(crate) fn len(&self) -> usize {
        self.bytes.len() - self.read
    }

    pub(crate) fn unread(&self) -> &[u8] {
        &self.bytes[self.read..]
    }

    /// Adds bytes.
    ///
    /// # Errors
    /// If there is no memory for them.
    pub(crate) fn push(&mut self, bytes: &[u8]) -> Result<(), TryReserveError> {
        if self.read == self.bytes.len() {
            self.bytes.clear();
            self.read = 0;
        } else if self.read > self.bytes.len() / 2 && self.bytes.len() + bytes.len() > self.bytes.capacity() {
            self.bytes.drain(..self.read);
            self.read = 0;
        }
        self.bytes.try_reserve(bytes.len())?;
        // allocates: reserved above
        self.bytes.extend_from_slice(bytes);
        Ok(())
    }

    /// Takes note that `count` bytes were read.
    pub(crate) fn consume(&mut self, count: usize) {
        debug_assert!(count <= self.len());
        self.read += count;
        self.searched = 0;
        if self.read == self.bytes.len() {
            self.read = 0;
            self.bytes.clear();
            if self.bytes.capacity() > KEPT_BYTES {
                self.bytes = Vec::new();
            }
        }
    }

    /// The number of bytes up to the end of the first `separator`. Bytes that were searched before are not searched again.
    pub(crate) fn find(&mut self, separator: &[u8]) -> Option<usize> {
        let from = self.searched.min(self.len());
        let at = memchr::memmem::find(&self.unread()[from..], separator);
        if let Some(at) = at {
            return Some(from + at + separator.len());
        }
        // The separator may have begun in the last bytes.
        self.searched = self.len().saturating_sub(separator.len() - 1);
        None
    }

    /// Forgets what was searched: the next search is for another separator.
    pub(crate) fn search_anew(&mut self) {
        self.searched = 0;
    }
}
