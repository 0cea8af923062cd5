//! Reading ahead where the kernel does not: with O_DIRECT, the next block is read while a sequential reader
//! consumes the current one.
//!
//! A read-ahead is an op of the file like any other. There is at most one, and whatever needs the file for
//! itself waits for it. Its bytes follow the unread bytes, in memory of their own, and are dropped with them.
//! Its errors are not reported: a reader that gets there reads again and meets them then.

use crate::buffered::{Buffered, Flight};
use crate::direct::Direct;
use crate::reading::MOST;
use proactor_engine::buffer::{AlignedBuf, Buf};
use proactor_engine::op::{File, Op, Read};

#[derive(Default)]
pub(crate) struct Ahead {
    /// End of the last read: a reader that continues there reads sequentially.
    end: Option<u64>,
    /// Bytes to read as soon as nothing is in flight, in whole O_DIRECT blocks.
    wanted: usize,
    /// Bytes that were read ahead and follow the unread ones.
    landed: Option<AlignedBuf>,
}

impl Ahead {
    pub(crate) fn is_wanted(&self) -> bool {
        self.wanted > 0
    }

    pub(crate) fn give_up(&mut self) {
        self.wanted = 0;
    }

    /// Begins a long read. O_DIRECT reads into aligned memory without a copy, which is faster than copying
    /// what was read ahead, so such a read does not start a sequence.
    pub(crate) fn begin_long(&mut self, direct: Option<&Direct>, at: u64, ptr: *const u8) {
        self.wanted = 0;
        if direct.is_some_and(|direct| direct.past_block(at) == 0 && direct.is_aligned(ptr)) {
            self.end = None;
        }
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        self.landed.as_deref().unwrap_or_default()
    }
}

impl Buffered {
    /// Returns true if the op in flight is a read-ahead, which no caller has asked for yet.
    pub fn is_reading_ahead(&self) -> bool {
        matches!(self.flight, Some(Flight::Ahead { .. }))
    }

    /// Returns the number of bytes that are unread, or will be without another op.
    pub fn coming(&self) -> usize {
        let in_flight = match self.flight {
            Some(Flight::Ahead { count }) => count,
            _ => 0,
        };
        self.read_so_far() + in_flight
    }

    /// Returns the number of bytes that have been read and not consumed.
    pub(crate) fn read_so_far(&self) -> usize {
        self.unread().len() + self.ahead.bytes().len()
    }

    /// Returns the offset at which the bytes that have been read end.
    pub(crate) fn read_until(&self) -> u64 {
        self.position + self.read_so_far() as u64
    }

    /// Drops everything that was read ahead.
    pub(crate) fn forget(&mut self) {
        self.input.clear();
        self.ahead.wanted = 0;
        self.ahead.landed = None;
    }

    /// Records a read of `count` bytes from `from` on that ended where the unread bytes do.
    pub(crate) fn has_read_on(&mut self, from: u64, count: usize) {
        let in_a_sequence = self.ahead.end == Some(from);
        self.ahead.end = Some(self.read_until());
        if in_a_sequence {
            self.read_on(count);
        }
    }

    /// Schedules a read-ahead of about `count` bytes, if the file has them.
    fn read_on(&mut self, count: usize) {
        let at = self.read_until();
        let (Some(direct), Some(Ok(size))) = (&self.direct, self.file.as_ref().map(File::size)) else {
            return;
        };
        if self.reads_ahead && self.block > 0 && direct.past_block(at) == 0 {
            let left = usize::try_from(size.saturating_sub(at)).unwrap_or(usize::MAX);
            let most = count.max(self.block).min(MOST).min(left);
            self.ahead.wanted = most.next_multiple_of(direct.block());
        }
    }

    /// Takes the read-ahead that is scheduled, as an op.
    pub(crate) fn ahead_op(&mut self) -> Option<Op> {
        let (file, direct) = (self.file.as_ref()?, self.direct.as_ref()?);
        let count = std::mem::take(&mut self.ahead.wanted);
        if count == 0 {
            return None;
        }
        // Out of memory, nothing is read ahead; the read that needs the bytes reports it.
        let op = Read::at(file, self.read_until(), direct.memory(count)?);
        self.flight = Some(Flight::Ahead { count });
        Some(op.into())
    }

    /// Takes back an op that was not run.
    pub(crate) fn put_back_ahead(&mut self, buffer: Buf, count: usize) {
        self.ahead.wanted = count;
        self.keep(buffer);
    }

    /// Takes the result of the op: `count` bytes, which are used unless they are `stale`.
    pub(crate) fn landed(&mut self, buffer: Buf, count: usize, stale: bool) {
        match buffer {
            Buf::Aligned(mut memory) if count > 0 && !stale => {
                memory.set_len(count);
                self.ahead.landed = Some(memory);
            }
            other => {
                self.keep(other);
                return;
            }
        }
        // A caller waits for these bytes: the next op is submitted before it is woken.
        let missing = std::mem::take(&mut self.missing);
        if missing > 0 {
            self.use_ahead(missing);
        }
    }

    fn keep(&self, buffer: Buf) {
        if let (Some(direct), Buf::Aligned(memory)) = (&self.direct, buffer) {
            direct.keep(memory);
        }
    }

    /// Makes the bytes that were read ahead unread ones, and schedules about `count` more. Returns false if
    /// there are none.
    pub(crate) fn use_ahead(&mut self, count: usize) -> bool {
        let Some(landed) = self.ahead.landed.take() else {
            return false;
        };
        match self.input.append(landed) {
            Ok(Some(used)) => self.keep(used.into()),
            Ok(None) => {}
            // The read that needs the bytes reads them again, and reports the lack of memory.
            Err(_) => return false,
        }
        self.was_short = false;
        self.ahead.end = Some(self.read_until());
        self.read_on(count);
        true
    }
}
