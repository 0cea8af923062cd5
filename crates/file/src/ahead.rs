//! Reading ahead where the kernel does not: with O_DIRECT, the next block is on its way while a sequential reader has this
//! one.
//!
//! It is an op of the file like any other, so there is one at most, and what needs the file for itself waits for it. What it
//! has brought follows the unread bytes, in memory of its own; whatever clears those throws it away. Its errors are
//! nobody's: a reader who gets there reads again, and meets them then.

use crate::buffered::{Buffered, Flight};
use crate::direct::Direct;
use crate::reading::MOST;
use proactor::buffer::{AlignedBuf, Buf};
use proactor::op::{File, Op, Read};

#[derive(Default)]
pub(crate) struct Ahead {
    /// Where the last read has ended: a reader who goes on there reads in a sequence.
    end: Option<u64>,
    /// So many bytes are to be read as soon as nothing is in flight: whole blocks of O_DIRECT.
    wanted: usize,
    /// What has been read, and follows the unread bytes.
    landed: Option<AlignedBuf>,
}

impl Ahead {
    pub(crate) fn is_wanted(&self) -> bool {
        self.wanted > 0
    }

    pub(crate) fn give_up(&mut self) {
        self.wanted = 0;
    }

    /// A long read begins. Into aligned memory O_DIRECT reads without a copy, which is faster than to copy what was read
    /// ahead: this is not the beginning of a sequence.
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
    /// Whether what is in flight is what nobody has asked for yet.
    pub fn is_reading_ahead(&self) -> bool {
        matches!(self.flight, Some(Flight::Ahead { .. }))
    }

    /// How many bytes are unread, or will be without another op.
    pub fn coming(&self) -> usize {
        let in_flight = match self.flight {
            Some(Flight::Ahead { count }) => count,
            _ => 0,
        };
        self.read_so_far() + in_flight
    }

    /// How many bytes have been read and not been consumed.
    pub(crate) fn read_so_far(&self) -> usize {
        self.unread().len() + self.ahead.bytes().len()
    }

    /// Where the bytes end that have been read.
    pub(crate) fn read_until(&self) -> u64 {
        self.position + self.read_so_far() as u64
    }

    /// Nothing that was read is of use any more.
    pub(crate) fn forget(&mut self) {
        self.input.clear();
        self.ahead.wanted = 0;
        self.ahead.landed = None;
    }

    /// A read that was to bring `count` bytes from `from` on has ended where the unread bytes do.
    pub(crate) fn has_read_on(&mut self, from: u64, count: usize) {
        let in_a_sequence = self.ahead.end == Some(from);
        self.ahead.end = Some(self.read_until());
        if in_a_sequence {
            self.read_on(count);
        }
    }

    /// Wants about `count` more bytes to be read, if the file has them.
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

    /// The op that is wanted.
    pub(crate) fn ahead_op(&mut self) -> Option<Op> {
        let (file, direct) = (self.file.as_ref()?, self.direct.as_ref()?);
        let count = std::mem::take(&mut self.ahead.wanted);
        if count == 0 {
            return None;
        }
        // Without memory nothing is read ahead, and whoever gets there hears of it.
        let op = Read::at(file, self.read_until(), direct.memory(count)?);
        self.flight = Some(Flight::Ahead { count });
        Some(op.into())
    }

    /// The op has not been done.
    pub(crate) fn put_back_ahead(&mut self, buffer: Buf, count: usize) {
        self.ahead.wanted = count;
        self.keep(buffer);
    }

    /// The op has come back, with `count` bytes that are still the file's if they are not `stale`.
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
        // Somebody waits for it: the next one goes out before they are woken.
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

    /// What was read ahead is unread now, and about `count` bytes more are wanted. False: nothing was.
    pub(crate) fn use_ahead(&mut self, count: usize) -> bool {
        let Some(landed) = self.ahead.landed.take() else {
            return false;
        };
        match self.input.append(landed) {
            Ok(Some(used)) => self.keep(used.into()),
            Ok(None) => {}
            // It is read again by whoever needs it, who hears of the lack of memory.
            Err(_) => return false,
        }
        self.was_short = false;
        self.ahead.end = Some(self.read_until());
        self.read_on(count);
        true
    }
}
