//! Bytes that have been written and have not reached the kernel.

use crate::memory;
use std::collections::TryReserveError;

/// Bytes on their way. Invariant: in file order, those in flight come before `active`, which starts at `at`.
#[derive(Default)]
pub(crate) struct Output {
    active: Vec<u8>,
    /// Empty buffer that is kept for reuse.
    spare: Vec<u8>,
    /// Offset of `active`, for a file with positions.
    pub(crate) at: u64,
}

impl Output {
    pub(crate) fn is_empty(&self) -> bool {
        self.active.is_empty()
    }

    pub(crate) fn len(&self) -> usize {
        self.active.len()
    }

    pub(crate) fn has_room(&self, count: usize, block: usize) -> bool {
        self.active.len() + count <= block
    }

    /// Adds bytes. The first call allocates the buffer.
    ///
    /// # Errors
    /// If there is no memory for them, or for a buffer of `block` bytes. They are not taken then.
    pub(crate) fn push(&mut self, data: &[u8], block: usize) -> Result<(), TryReserveError> {
        if self.active.capacity() == 0 {
            self.active = std::mem::take(&mut self.spare);
            self.active.try_reserve_exact(block)?;
        }
        memory::append(&mut self.active, data)
    }

    /// Takes the bytes to write now, and their offset. The next ones follow them.
    pub(crate) fn take(&mut self) -> (Vec<u8>, u64) {
        let spare = std::mem::take(&mut self.spare);
        let data = std::mem::replace(&mut self.active, spare);
        let at = self.at;
        self.at += data.len() as u64;
        (data, at)
    }

    /// Does what `take` does, except for the last `keep` bytes.
    ///
    /// # Errors
    /// If there is no memory for those. Nothing is taken then.
    pub(crate) fn take_all_but(&mut self, keep: usize) -> Result<(Vec<u8>, u64), TryReserveError> {
        memory::reserve(&mut self.spare, keep)?;
        let (mut data, at) = self.take();
        let kept = data.len() - keep;
        // `take` has made the spare buffer, which has room, the active one.
        memory::append(&mut self.active, &data[kept..])?;
        self.at -= keep as u64;
        data.truncate(kept);
        Ok((data, at))
    }

    /// Takes back the memory of bytes that have been written.
    pub(crate) fn written(&mut self, mut memory: Vec<u8>, block: usize) {
        if memory.capacity() <= 2 * block {
            memory.clear();
            self.spare = memory;
        }
    }

    pub(crate) fn clear(&mut self) {
        self.active.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_is_filled_to_its_last_byte() {
        let mut output = Output::default();
        assert!(output.has_room(8, 8));
        assert!(!output.has_room(9, 8));
        output.push(&[0; 5], 8).unwrap();
        assert!(output.has_room(3, 8));
        assert!(!output.has_room(4, 8));
    }
}
