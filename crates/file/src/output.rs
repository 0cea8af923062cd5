//! What has been written and is not yet with the kernel.

use std::collections::TryReserveError;

/// Bytes on their way. Invariant: in file order they are those in flight, then `active`; `at` is where `active` starts.
#[derive(Default)]
pub(crate) struct Output {
    active: Vec<u8>,
    /// Used before, and empty.
    spare: Vec<u8>,
    /// Where `active` goes, for a file with positions.
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

    /// Makes the buffer on first use.
    ///
    /// # Errors
    /// If there is no memory for `block` bytes.
    pub(crate) fn make(&mut self, block: usize) -> Result<(), TryReserveError> {
        if self.active.capacity() == 0 {
            self.active = std::mem::take(&mut self.spare);
            self.active.try_reserve_exact(block)?;
        }
        Ok(())
    }

    /// Adds bytes for which [`make`](Self::make) and [`has_room`](Self::has_room) have answered.
    pub(crate) fn push(&mut self, data: &[u8]) {
        self.active.extend_from_slice(data);
    }

    /// The bytes to be written now, and where. The next ones come behind them.
    pub(crate) fn take(&mut self) -> (Vec<u8>, u64) {
        let spare = std::mem::take(&mut self.spare);
        let data = std::mem::replace(&mut self.active, spare);
        let at = self.at;
        self.at += data.len() as u64;
        (data, at)
    }

    /// As `take`, without the last `keep` bytes.
    pub(crate) fn take_all_but(&mut self, keep: usize) -> (Vec<u8>, u64) {
        let (mut data, at) = self.take();
        let kept = data.len() - keep;
        self.active.extend_from_slice(&data[kept..]);
        self.at -= keep as u64;
        data.truncate(kept);
        (data, at)
    }

    /// Memory of bytes that have been written.
    pub(crate) fn written(&mut self, mut memory: Vec<u8>, block: usize) {
        if memory.capacity() <= 2 * block {
            memory.clear();
            self.spare = memory;
        }
    }

    /// Bytes that could not be written: they are the next to try.
    pub(crate) fn give_back(&mut self, data: &[u8], at: u64) {
        self.active.splice(..0, data.iter().copied());
        self.at = at;
    }

    pub(crate) fn clear(&mut self) {
        self.active.clear();
    }
}
