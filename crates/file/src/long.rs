//! Long reads: past the buffer, straight into the caller's memory.
//!
//! The caller's position moves only when all bytes are there, so a caller that goes away has taken nothing.
//! The op in flight keeps the memory alive, and its bytes are dropped.

use crate::buffered::{Buffered, Flight, Step};
use crate::running::Running;
use crate::span::Span;
use crate::transfer::Transfer;
use proactor_engine::buffer::Memory;
use proactor_engine::op::{File, FileKind};
use proactor_engine::Error;
use std::sync::Arc;

/// Lower bound on a long read: shorter ones are copied from the buffer, because setting up a transfer takes
/// as long.
const LEAST: usize = 16 * 1024;

impl Buffered {
    /// Returns true if `count` bytes are better read by [`read_long`](Self::read_long), because as many as
    /// would fill the buffer are missing. Only disk files qualify: bytes read from a pipe are gone from there
    /// and have to stay here.
    ///
    /// `Blocked` if that depends on the read in flight, or on the one that is begun next.
    pub fn is_long(&self, count: usize) -> Step<bool> {
        let missing = count.saturating_sub(self.coming());
        let long = missing >= self.block.max(LEAST)
            && self.seekable
            && matches!(self.file().map(File::kind), Some(Ok(FileKind::Disk)));
        match long && self.flight.is_some() {
            true => Step::Blocked,
            false => Step::Ready(long),
        }
    }

    /// Begins to read the bytes from the caller's position on into `memory`, whose first `have` bytes have
    /// been read already. With `once`, it reads no more than one system call would. Returns false if it has
    /// to wait for the op in flight or the one that [`start`](Self::start) returns. Afterwards
    /// [`long_read`](Self::long_read) reports its end.
    ///
    /// # Errors
    /// A failed flush's.
    ///
    /// # Panics
    /// If the memory is not writable, or has no room for more than is there.
    pub fn read_long(&mut self, memory: Arc<dyn Memory>, have: usize, once: bool) -> Result<bool, Error> {
        if self.flush()? == Step::Blocked || self.flight.is_some() {
            return Ok(false);
        }
        assert!(memory.writable());
        let have = if have == 0 {
            self.copy_unread(&*memory)
        } else {
            have
        };
        let room: Arc<dyn Memory> = Arc::new(Span::of(Arc::clone(&memory), have..memory.len()));
        let file = self.file.as_ref().expect("a file that is not closed");
        let at = self.position + have as u64;
        self.ahead
            .begin_long(self.direct.as_deref(), at, memory.ptr().wrapping_add(have));
        let mut transfer = Transfer::read(file, at, vec![room]).direct(self.direct());
        if once {
            transfer = transfer.once();
        }
        self.running = Some(Running::of_caller(transfer));
        self.flight = Some(Flight::Long { have });
        self.long = None;
        Ok(true)
    }

    /// Copies the bytes that were read ahead. They stay unread until the caller has all.
    fn copy_unread(&self, memory: &dyn Memory) -> usize {
        assert!(self.read_so_far() < memory.len());
        let mut have = 0;
        for part in [self.unread(), self.ahead.bytes()] {
            // SAFETY: the memory is writable, longer than both, and lent to this read; what was read is memory of ours.
            unsafe { std::ptr::copy_nonoverlapping(part.as_ptr(), memory.ptr().add(have), part.len()) };
            have += part.len();
        }
        have
    }

    /// Returns the number of bytes that the long read has put into its memory: all, or all up to the end. The
    /// position stays.
    ///
    /// # Errors
    /// The read's. Nothing is taken then.
    pub fn long_read(&mut self) -> Result<Step<usize>, Error> {
        match self.long.take() {
            Some(found) => found.map(Step::Ready),
            None => Ok(Step::Blocked),
        }
    }

    /// Advances the position by the `count` bytes of a long read.
    pub fn take_long(&mut self, count: usize) {
        let from = self.read_until();
        self.forget();
        self.position += count as u64;
        self.has_read_on(from, count);
    }

    /// Ends the call: nothing is missing or asked for any more. Returns true if the op of a long read is in
    /// flight and may be cancelled.
    pub fn give_up(&mut self) -> bool {
        self.missing = 0;
        self.asked = None;
        if !matches!(self.flight, Some(Flight::Long { .. })) {
            return false;
        }
        let in_flight = self.running.as_mut().is_some_and(Running::stop);
        if !in_flight {
            self.running = None;
            self.flight = None;
        }
        in_flight
    }
}
