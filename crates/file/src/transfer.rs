//! A transfer at an offset that is complete, however much the kernel moves at once.

use crate::direct::Direct;
use crate::memory;
use crate::span::Span;
use proactor_engine::buffer::{Buf, Memory};
use proactor_engine::op::{File, Op, Read, ReadV, Write, WriteV};
use proactor_engine::{Error, Output};
use std::collections::TryReserveError;
use std::sync::Arc;

/// Upper bound in bytes on one op that reads a file in the page cache, and on one copy for O_DIRECT: more
/// would delay the event loop.
const MOST: usize = 1 << 20;
/// Upper bound in bytes on one op that is not tried at once: each costs a wake-up, which takes as long as
/// reading 200 KB. A cancelled call waits for no more than this.
const MOST_WAITING: usize = 8 << 20;
/// Upper bound on buffers of one op (Linux, UIO_MAXIOV).
const MOST_BUFFERS: usize = 1024;

/// One `pread`, `pwrite`, `preadv` or `pwritev` as the ops that it takes, one at a time. It continues after a
/// short one, and is over when all bytes are moved, at the end of the file, or after an error.
pub struct Transfer {
    file: File,
    direct: Option<Arc<Direct>>,
    writes: bool,
    offset: u64,
    memory: Vec<Arc<dyn Memory>>,
    total: usize,
    done: usize,
    /// Index of the first piece of `memory` with bytes to move: searching anew would make long lists
    /// quadratic.
    first: usize,
    /// Bytes in the pieces before `first`.
    before_first: usize,
    over: bool,
    once: bool,
    asked: Asked,
}

/// Purpose of the op in flight.
#[derive(Clone, Copy)]
enum Asked {
    Nothing,
    /// Moves this many bytes between the file and the memory.
    Bytes(usize),
    /// Moves bytes through aligned memory, which has them after `skip` others.
    Aligned {
        skip: usize,
        count: usize,
    },
    /// Opens the file a second time.
    Plain,
}

impl Transfer {
    /// Fills the memory, in order, from `offset` on.
    pub fn read(file: &File, offset: u64, memory: Vec<Arc<dyn Memory>>) -> Self {
        Self::new(file, offset, memory, false)
    }

    /// Writes the memory, in order, from `offset` on.
    pub fn write(file: &File, offset: u64, memory: Vec<Arc<dyn Memory>>) -> Self {
        Self::new(file, offset, memory, true)
    }

    fn new(file: &File, offset: u64, memory: Vec<Arc<dyn Memory>>, writes: bool) -> Self {
        Transfer {
            file: file.clone(),
            direct: None,
            writes,
            offset,
            total: memory.iter().map(|m| m.len()).fold(0, usize::saturating_add),
            memory,
            done: 0,
            first: 0,
            before_first: 0,
            over: false,
            once: false,
            asked: Asked::Nothing,
        }
    }

    /// Sets the O_DIRECT facts of the file.
    #[must_use]
    pub fn direct(mut self, direct: Option<Arc<Direct>>) -> Self {
        self.direct = direct;
        self
    }

    /// Ends the transfer when an op has moved less than it could, as a single system call for all bytes
    /// would.
    #[must_use]
    pub fn once(mut self) -> Self {
        self.once = true;
        self
    }

    pub(crate) fn is_direct(&self) -> bool {
        self.direct.is_some()
    }

    /// Returns the number of bytes to move.
    pub fn total(&self) -> usize {
        self.total
    }

    /// Returns the number of bytes moved so far.
    pub fn done(&self) -> usize {
        self.done
    }

    /// Returns true if there is nothing left to do.
    pub fn is_over(&self) -> bool {
        self.over || self.done == self.total
    }

    /// Returns the number of bytes that the op in flight moves.
    pub(crate) fn in_flight(&self) -> usize {
        match self.asked {
            Asked::Bytes(count) | Asked::Aligned { count, .. } => count,
            Asked::Nothing | Asked::Plain => 0,
        }
    }

    /// Returns the next op, or `None` when the transfer is over. Pass its result to [`took`](Self::took).
    pub fn op(&mut self) -> Option<Op> {
        self.next_op(MOST)
    }

    /// Returns the next op, for a worker or a device. It replaces the last one if that was not run.
    pub fn waiting_op(&mut self) -> Option<Op> {
        self.next_op(MOST_WAITING)
    }

    /// Takes back the last op, which was not run; [`op`](Self::op) returns it again.
    pub(crate) fn put_back(&mut self, op: Op) {
        self.asked = Asked::Nothing;
        if let (Some(direct), Op::Read(Read { buffer, .. }) | Op::Write(Write { buffer, .. })) =
            (&self.direct, op)
        {
            if let Buf::Aligned(memory) = buffer {
                direct.keep(memory);
            }
        }
    }

    fn next_op(&mut self, most: usize) -> Option<Op> {
        if self.is_over() {
            return None;
        }
        let at = self.offset.saturating_add(self.done as u64);
        let left = self.total - self.done;
        Some(match self.direct.clone() {
            Some(direct) if self.writes => self.direct_write(&direct, at, left),
            Some(direct) => self.direct_read(&direct, at, left),
            None => self.plain(at, left, most),
        })
    }

    fn plain(&mut self, at: u64, left: usize, most: usize) -> Op {
        let file = self.file.clone();
        if self.writes {
            self.write_op(&file, at, left)
        } else {
            let Ok(mut buffers) = self.spans(left.min(most)) else {
                return memory::failing_op("read");
            };
            self.asked = Asked::Bytes(buffers.iter().map(Buf::len).sum());
            match buffers.len() {
                1 => Read::at(file, at, buffers.remove(0)).into(),
                _ => ReadV::at(file, at, buffers).into(),
            }
        }
    }

    fn write_op(&mut self, file: &File, at: u64, count: usize) -> Op {
        let Ok(mut buffers) = self.spans(count) else {
            return memory::failing_op("write");
        };
        self.asked = Asked::Bytes(buffers.iter().map(Buf::len).sum());
        match buffers.len() {
            1 => Write::at(file, at, buffers.remove(0)).into(),
            _ => WriteV::at(file, at, buffers).into(),
        }
    }

    fn direct_read(&mut self, direct: &Direct, at: u64, left: usize) -> Op {
        if let Some(span) = self.aligned(direct, at) {
            self.asked = Asked::Bytes(span.len());
            return Read::at(self.file.clone(), at, span.into_buf()).into();
        }
        let (skip, count) = (direct.past_block(at), left.min(MOST));
        self.asked = Asked::Aligned { skip, count };
        let Some(memory) = direct.memory((skip + count).next_multiple_of(direct.block())) else {
            return memory::failing_op("read");
        };
        Read::at(self.file.clone(), at - skip as u64, memory).into()
    }

    fn direct_write(&mut self, direct: &Direct, at: u64, left: usize) -> Op {
        let past = direct.past_block(at);
        if past > 0 || left < direct.block() {
            let Some(plain) = direct.plain() else {
                self.asked = Asked::Plain;
                return Direct::open_plain(&self.file).into();
            };
            let to_block = direct.block() - past;
            return self.write_op(plain, at, left.min(to_block));
        }
        if let Some(span) = self.aligned(direct, at) {
            self.asked = Asked::Bytes(span.len());
            return Write::at(self.file.clone(), at, span.into_buf()).into();
        }
        let count = direct.round_down(left.min(MOST.max(direct.block())));
        self.asked = Asked::Aligned { skip: 0, count };
        let Some(mut memory) = direct.memory(count) else {
            return memory::failing_op("write");
        };
        self.gather(&mut memory);
        Write::at(self.file.clone(), at, memory).into()
    }

    /// Returns as much of the next piece of memory as O_DIRECT takes without a copy.
    fn aligned(&self, direct: &Direct, at: u64) -> Option<Span> {
        let (memory, skip) = self.pieces().next()?;
        let len = direct.round_down(memory.len() - skip);
        let fits = len > 0
            && direct.past_block(at) == 0
            && direct.is_aligned(memory.ptr().wrapping_add(skip))
            && (self.writes || memory.writable());
        fits.then(|| Span::of(Arc::clone(memory), skip..skip + len))
    }

    /// Returns the memory that is left, each piece with the number of its bytes that are done.
    fn pieces(&self) -> impl Iterator<Item = (&Arc<dyn Memory>, usize)> {
        let mut skip = self.done - self.before_first;
        self.memory[self.first..].iter().filter_map(move |memory| {
            let skipped = skip.min(memory.len());
            skip -= skipped;
            (skipped < memory.len()).then_some((memory, skipped))
        })
    }

    /// Returns the next bytes of memory, at most `most`.
    fn spans(&self, mut most: usize) -> Result<Vec<Buf>, TryReserveError> {
        let mut spans = Vec::new();
        for (memory, skip) in self.pieces().take(MOST_BUFFERS) {
            let len = (memory.len() - skip).min(most);
            if len == 0 {
                break;
            }
            most -= len;
            let span = Span::of(Arc::clone(memory), skip..skip + len);
            proactor_engine::memory::push(&mut spans, span.into_buf())?;
        }
        Ok(spans)
    }

    fn gather(&self, mut to: &mut [u8]) {
        for (memory, skip) in self.pieces() {
            let len = (memory.len() - skip).min(to.len());
            let (here, rest) = to.split_at_mut(len);
            // SAFETY: within the memory, which is readable; the other side is memory of ours alone.
            unsafe { std::ptr::copy_nonoverlapping(memory.ptr().add(skip), here.as_mut_ptr(), len) };
            to = rest;
        }
    }

    fn scatter(&self, mut from: &[u8]) {
        for (memory, skip) in self.pieces() {
            let len = (memory.len() - skip).min(from.len());
            let (here, rest) = from.split_at(len);
            assert!(memory.writable());
            // SAFETY: within the memory, which is writable and lent to this transfer; the other side is memory of ours.
            unsafe { std::ptr::copy_nonoverlapping(here.as_ptr(), memory.ptr().add(skip), len) };
            from = rest;
        }
    }

    /// Takes the result of the op.
    ///
    /// # Errors
    /// The op's. The transfer is over then, and `done` bytes of it were moved.
    pub fn took(&mut self, op: Option<Op>, result: Result<Output, Error>) -> Result<(), Error> {
        let asked = std::mem::replace(&mut self.asked, Asked::Nothing);
        let output = result.inspect_err(|_| self.over = true)?;
        match (asked, output) {
            (Asked::Plain, Output::File(file)) => {
                if let Some(direct) = &self.direct {
                    direct.opened(file);
                }
                Ok(())
            }
            (Asked::Bytes(asked), Output::Count(count)) => self.moved(count, asked),
            (Asked::Aligned { skip, count: asked }, Output::Count(all)) => {
                let count = all.saturating_sub(skip).min(asked);
                let memory = match op {
                    Some(Op::Read(read)) => read.buffer,
                    Some(Op::Write(write)) => write.buffer,
                    _ => return self.failed("a transfer without its op"),
                };
                if !self.writes {
                    self.scatter(&memory.as_slice()[skip.min(memory.len())..][..count]);
                }
                if let (Some(direct), Buf::Aligned(memory)) = (&self.direct, memory) {
                    direct.keep(memory);
                }
                if count == 0 && all > 0 {
                    // A short read that ends before our bytes.
                    self.over = self.is_at_end();
                    return Ok(());
                }
                self.moved(count, asked)
            }
            _ => self.failed("a result of another op"),
        }
    }

    fn failed(&mut self, why: &'static str) -> Result<(), Error> {
        debug_assert!(false, "{why}");
        self.over = true;
        Err(self.error())
    }

    fn error(&self) -> Error {
        Error::new(libc::EIO, if self.writes { "write" } else { "read" })
    }

    fn moved(&mut self, count: usize, asked: usize) -> Result<(), Error> {
        self.done += count;
        while self
            .memory
            .get(self.first)
            .is_some_and(|memory| self.before_first + memory.len() <= self.done)
        {
            self.before_first += self.memory[self.first].len();
            self.first += 1;
        }
        if count > 0 {
            // Most short reads are at the end of the file: asking costs less than another read.
            self.over = count < asked && (self.once || !self.writes && self.is_at_end());
            return Ok(());
        }
        self.over = true;
        if self.writes {
            // A write that writes nothing and reports no error would be tried for ever.
            return Err(self.error());
        }
        Ok(())
    }

    /// Returns true at the end of the file. Files in `/proc` and devices state a size of 0.
    fn is_at_end(&self) -> bool {
        let at = self.offset.saturating_add(self.done as u64);
        self.file.size().is_ok_and(|size| size > 0 && size <= at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::any::Any;

    struct Bytes(Box<[u8]>);

    // SAFETY: a boxed slice that is neither moved nor changed while it exists.
    unsafe impl Memory for Bytes {
        fn ptr(&self) -> *mut u8 {
            self.0.as_ptr().cast_mut()
        }

        fn len(&self) -> usize {
            self.0.len()
        }

        fn writable(&self) -> bool {
            false
        }

        fn into_any(self: Box<Self>) -> Box<dyn Any> {
            self
        }
    }

    fn write(pieces: usize, each_bytes: usize) -> Transfer {
        let file = File::new(tempfile::tempfile().unwrap());
        let piece = || Arc::new(Bytes(vec![7; each_bytes].into())) as Arc<dyn Memory>;
        Transfer::write(&file, 0, (0..pieces).map(|_| piece()).collect())
    }

    #[test]
    fn a_short_op_ends_what_is_to_be_one_call() {
        for once in [false, true] {
            let mut transfer = write(1, 10);
            if once {
                transfer = transfer.once();
            }
            let op = transfer.op();
            transfer.took(op, Ok(Output::Count(4))).unwrap();
            assert_eq!((transfer.done(), transfer.is_over()), (4, once));
            assert_eq!(transfer.op().is_none(), once);
        }
    }

    #[test]
    fn an_op_has_no_more_pieces_than_the_kernel_takes() {
        let mut transfer = write(2000, 1);
        for expected in [1024, 976] {
            let op = transfer.op();
            assert!(matches!(&op, Some(Op::WriteV(op)) if op.buffers.len() == expected));
            transfer.took(op, Ok(Output::Count(expected))).unwrap();
        }
        assert!(transfer.is_over());
    }

    #[test]
    fn a_write_that_writes_nothing_is_an_error() {
        let mut transfer = write(1, 10);
        let op = transfer.op();
        let error = transfer.took(op, Ok(Output::Count(0))).unwrap_err();
        assert_eq!((error.errno(), transfer.is_over()), (libc::EIO, true));
    }
}
