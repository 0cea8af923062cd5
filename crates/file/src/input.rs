//! Bytes that have been read ahead of the caller.

use crate::memory;
use crate::part::Room;
use proactor_engine::buffer::{AlignedBuf, Buf, Memory};
use std::collections::TryReserveError;
use std::ops::Deref;

/// Bytes read and not yet consumed. Invariant: the unread ones are the next bytes of the file, from its position on.
#[derive(Default)]
pub(crate) struct Input {
    block: Block,
    /// Start of the unread bytes; those before it are consumed.
    start: usize,
    /// Unread bytes, counted from `start`, that contain no line end.
    searched: usize,
}

/// Memory that holds bytes read from the file.
enum Block {
    Vec(Vec<u8>),
    /// Aligned memory of a read-ahead with O_DIRECT.
    Aligned(AlignedBuf),
}

impl Default for Block {
    fn default() -> Self {
        Block::Vec(Vec::new())
    }
}

impl Deref for Block {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        match self {
            Block::Vec(vec) => vec,
            Block::Aligned(buf) => buf,
        }
    }
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

    /// Steps back over consumed bytes, if they are still here.
    pub(crate) fn unconsume(&mut self, count: u64) -> bool {
        let back = usize::try_from(count).ok().filter(|&count| count <= self.start);
        if let Some(count) = back {
            self.start -= count;
            self.searched = 0;
        }
        back.is_some()
    }

    /// Returns the number of consumed bytes that are still here.
    pub(crate) fn consumed(&self) -> u64 {
        self.start as u64
    }

    pub(crate) fn clear(&mut self) {
        match &mut self.block {
            Block::Vec(vec) => vec.clear(),
            Block::Aligned(_) => self.block = Block::default(),
        }
        self.start = 0;
        self.searched = 0;
    }

    /// Returns the length of the next line with its end, searching at most `limit` bytes; `None` if they hold
    /// no line end.
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

    /// Makes sure that there is memory for `count` more bytes.
    ///
    /// # Errors
    /// If there is none.
    pub(crate) fn reserve(&mut self, count: usize) -> Result<(), TryReserveError> {
        memory::reserve(self.unread_vec()?, count)
    }

    /// Returns the room for `count` more bytes to be read into. The memory is away until `filled`.
    ///
    /// # Errors
    /// If there is no memory for them. Nothing is given away then.
    pub(crate) fn room(&mut self, count: usize) -> Result<Buf, TryReserveError> {
        let vec = self.unread_vec()?;
        memory::reserve(vec, count)?;
        let vec = std::mem::take(vec);
        let memory: Box<dyn Memory> = Box::new(Room::new(vec, count));
        Ok(Buf::from(memory))
    }

    /// Returns the unread bytes as a vector that holds nothing else.
    fn unread_vec(&mut self) -> Result<&mut Vec<u8>, TryReserveError> {
        let start = std::mem::take(&mut self.start);
        if let Block::Aligned(buf) = &self.block {
            let mut vec = Vec::new();
            if let Err(e) = memory::append(&mut vec, &buf[start..]) {
                self.start = start;
                return Err(e);
            }
            self.block = Block::Vec(vec);
        } else if let Block::Vec(vec) = &mut self.block {
            vec.drain(..start);
        }
        match &mut self.block {
            Block::Vec(vec) => Ok(vec),
            Block::Aligned(_) => unreachable!("it has just been copied"),
        }
    }

    /// Adds bytes that have been read. If the bytes before them are consumed, nothing is copied, and their
    /// aligned memory is returned.
    ///
    /// # Errors
    /// If there is no memory for them. They are not added then.
    pub(crate) fn append(&mut self, more: AlignedBuf) -> Result<Option<AlignedBuf>, TryReserveError> {
        if self.unread().is_empty() {
            self.start = 0;
            self.searched = 0;
            return Ok(match std::mem::replace(&mut self.block, Block::Aligned(more)) {
                Block::Aligned(used) => Some(used),
                Block::Vec(_) => None,
            });
        }
        memory::append(self.unread_vec()?, &more)?;
        Ok(Some(more))
    }

    pub(crate) fn expect(&mut self, count: usize) {
        let more = count.saturating_sub(self.unread().len());
        if let Block::Vec(vec) = &mut self.block {
            let _ = vec.try_reserve_exact(more);
        }
    }

    /// Takes the memory back, with `count` more bytes in it.
    pub(crate) fn filled(&mut self, buffer: Buf, count: usize) {
        let room = Room::from_buf(buffer).expect("the room that was given away");
        // SAFETY: the result of a read into this very memory.
        self.block = Block::Vec(unsafe { room.into_vec(count) });
    }

    /// Frees memory that a large read has made necessary.
    pub(crate) fn shrink(&mut self, block: usize) {
        if let Block::Vec(vec) = &self.block {
            if self.start == vec.len() && vec.capacity() > 2 * block {
                self.block = Block::default();
                self.start = 0;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(bytes: &[u8]) -> Input {
        Input {
            block: Block::Vec(bytes.to_vec()),
            ..Input::default()
        }
    }

    #[test]
    fn a_line_is_as_long_as_its_limit_without_more_bytes() {
        // Asking for more would wait for a pipe's writer.
        assert_eq!(of(b"abcde").line(5), Some(5));
        assert_eq!(of(b"abcde").line(4), Some(4));
        assert_eq!(of(b"abcde").line(6), None);
        assert_eq!(of(b"ab\nde").line(3), Some(3));
    }

    #[test]
    fn all_that_was_consumed_can_be_stepped_back_over() {
        let mut input = of(b"abcde");
        input.consume(3);
        assert!(!input.unconsume(4));
        assert!(input.unconsume(3));
        assert_eq!(input.unread(), b"abcde");
    }
}
