//! What has been read ahead of the caller.

use crate::part::Room;
use proactor::buffer::{Buf, Memory};

/// Bytes read and not yet consumed. Invariant: the unread ones are the next bytes of the file, from its position on.
#[derive(Default)]
pub(crate) struct Input {
    block: Vec<u8>,
    /// Consumed: the unread bytes start here.
    start: usize,
    /// No line end in the unread bytes up to here, counted from `start`.
    searched: usize,
}

impl Input {
    pub(crate) fn unread(&self) -> &[u8] {
        &self.block[self.start..]
    }

    pub(crate) fn consume(&mut self, count: usize) {
        self.start += count;
        self.searched = 0;
        debug_assert!(self.start <= self.block.len());
    }

    /// Steps back over bytes consumed before, if they are still here.
    pub(crate) fn unconsume(&mut self, count: u64) -> bool {
        let back = usize::try_from(count).ok().filter(|&count| count <= self.start);
        if let Some(count) = back {
            self.start -= count;
            self.searched = 0;
        }
        back.is_some()
    }

    /// How many consumed bytes are still here.
    pub(crate) fn consumed(&self) -> u64 {
        self.start as u64
    }

    pub(crate) fn clear(&mut self) {
        self.block.clear();
        self.start = 0;
        self.searched = 0;
    }

    /// The length of the next line with its end, of which at most `limit` bytes are looked at; None if there is no line
    /// end yet.
    pub(crate) fn line(&mut self, limit: usize) -> Option<usize> {
        let unread = &self.block[self.start..];
        let within = &unread[..unread.len().min(limit)];
        match memchr::memchr(b'\n', &within[self.searched.min(within.len())..]) {
            Some(at) => Some(self.searched + at + 1),
            None if unread.len() >= limit => Some(limit),
            None => {
                self.searched = within.len();
                None
            }
        }
    }

    /// The room for `count` more bytes, to be read into. Gives the memory away until `filled`.
    pub(crate) fn room(&mut self, count: usize) -> Buf {
        if self.start > 0 {
            self.block.drain(..self.start);
            self.start = 0;
        }
        self.block.reserve(count);
        let memory: Box<dyn Memory> = Box::new(Room::new(std::mem::take(&mut self.block), count));
        Buf::from(memory)
    }

    pub(crate) fn expect(&mut self, count: usize) {
        let more = count.saturating_sub(self.unread().len());
        let _ = self.block.try_reserve_exact(more);
    }

    /// Takes the memory back, with `count` more bytes in it.
    pub(crate) fn filled(&mut self, buffer: Buf, count: usize) {
        let room = Room::from_buf(buffer).expect("the room that was given away");
        // SAFETY: the result of a read into this very memory.
        self.block = unsafe { room.into_vec(count) };
    }

    /// Gives memory back that a large read has made necessary.
    pub(crate) fn shrink(&mut self, block: usize) {
        if self.start == self.block.len() && self.block.capacity() > 2 * block {
            self.block = Vec::new();
            self.start = 0;
        }
    }
}
