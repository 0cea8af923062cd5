//! The state of one open file: position, buffers, and the one op in flight.

use crate::ahead::Ahead;
use crate::direct::Direct;
use crate::input::Input;
use crate::memory;
use crate::output::Output;
use crate::part::Rest;
use crate::running::Running;
use proactor_engine::buffer::Buf;
use proactor_engine::op::{File, Op, Read, Write};
use proactor_engine::{Error, Output as OpOutput};
use std::sync::Arc;

/// Size of the smallest page, a multiple of which every page's end is at.
const PAGE_BYTES: u64 = 4096;

/// Options of an open file.
#[derive(Debug, Clone)]
pub struct Options {
    /// Position of the caller in bytes; `None` for a file without positions (pipe, socket, terminal).
    /// Default: 0.
    pub position: Option<u64>,
    /// True if writes go to the end of the file at the time of the write (O_APPEND).
    pub append: bool,
    /// Size of a buffer in bytes; 0 reads and writes exactly what is asked for. Default: 32 KiB.
    pub block: usize,
    /// Alignment of a file open with O_DIRECT, which has positions and is not appended to. Default: none.
    pub direct: Option<Arc<Direct>>,
    /// With `direct` and a buffer: reads the next block while a sequential reader consumes this one. Default:
    /// false.
    pub reads_ahead: bool,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            position: Some(0),
            append: false,
            block: 32 * 1024,
            direct: None,
            reads_ahead: false,
        }
    }
}

/// Result of a request that may have to wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step<T> {
    /// The request is met.
    Ready(T),
    /// The request waits for the op in flight, or for the one that [`Buffered::start`] returns. Repeat it
    /// then.
    Blocked,
}

/// Purpose of the op in flight.
#[derive(Debug)]
pub(crate) enum Flight {
    Fill,
    /// A read-ahead of this many bytes, which no caller has asked for yet.
    Ahead {
        count: usize,
    },
    /// A write of buffered bytes: the first `skip` are written, the others go to `at`.
    Flush {
        at: u64,
        skip: usize,
    },
    /// A write of the caller's own memory, whose first `skip` bytes are written.
    Large {
        skip: usize,
    },
    /// A read into the caller's own memory, after the bytes it has already.
    Long {
        have: usize,
    },
    /// Another op on the same file, submitted by [`Buffered::ask`].
    Asked,
}

/// Bytes to write as soon as nothing is in flight.
#[derive(Debug)]
pub(crate) struct Queued {
    pub(crate) buffer: Buf,
    /// Bytes at the start of `buffer` that short writes have written.
    pub(crate) skip: usize,
    /// Offset of the first byte after those.
    pub(crate) at: u64,
    pub(crate) large: bool,
}

impl Queued {
    /// Returns the number of bytes that are still to be written.
    pub(crate) fn len(&self) -> usize {
        self.buffer.len() - self.skip
    }
}

/// One open file with its buffers.
///
/// Invariants: a file with positions never has unread bytes and bytes to be written at the same time; at most
/// one op is in flight; after a failed write, the bytes that were not written are the next to be written.
pub struct Buffered {
    /// The file, until it is taken to be closed.
    pub(crate) file: Option<File>,
    pub(crate) seekable: bool,
    pub(crate) append: bool,
    pub(crate) block: usize,
    pub(crate) position: u64,
    pub(crate) input: Input,
    pub(crate) ahead: Ahead,
    pub(crate) reads_ahead: bool,
    pub(crate) output: Output,
    pub(crate) queued: Option<Queued>,
    /// Buffered bytes that could not be written; they are tried first.
    pub(crate) failed: Option<Queued>,
    pub(crate) flight: Option<Flight>,
    /// Bytes that the caller still waits for.
    pub(crate) missing: usize,
    /// True if the last read found the end of the file.
    pub(crate) at_end: bool,
    /// True if the last read returned less than it asked for.
    pub(crate) was_short: bool,
    pub(crate) read_error: Option<Error>,
    pub(crate) write_error: Option<Error>,
    /// Result of a long read that has ended.
    pub(crate) long: Option<Result<usize, Error>>,
    pub(crate) asked: Option<Op>,
    pub(crate) answer: Option<Result<OpOutput, Error>>,
    /// O_DIRECT facts of the file, until it is taken.
    pub(crate) direct: Option<Arc<Direct>>,
    /// The op in flight as a transfer of several ops: with O_DIRECT, or for a long read.
    pub(crate) running: Option<Running>,
    /// True if bytes that were read ahead may have been changed past the buffers.
    pub(crate) stale: bool,
    /// True if the bytes of the read in flight may have been changed past the buffers.
    pub(crate) fill_is_stale: bool,
}

impl Buffered {
    /// Creates the buffers of an open file.
    pub fn new(file: File, options: Options) -> Self {
        Self::of(Some(file), options)
    }

    fn of(file: Option<File>, options: Options) -> Self {
        Buffered {
            file,
            seekable: options.position.is_some(),
            append: options.append,
            block: options.block,
            position: options.position.unwrap_or(0),
            input: Input::default(),
            ahead: Ahead::default(),
            reads_ahead: options.reads_ahead,
            output: Output::default(),
            queued: None,
            failed: None,
            flight: None,
            missing: 0,
            at_end: false,
            was_short: false,
            read_error: None,
            write_error: None,
            long: None,
            asked: None,
            answer: None,
            direct: options.direct,
            running: None,
            stale: false,
            fill_is_stale: false,
        }
    }

    /// Returns the file, or `None` after [`take_file`](Self::take_file).
    pub fn file(&self) -> Option<&File> {
        self.file.as_ref()
    }

    /// Takes the file, to close it. Nothing but [`finish`](Self::finish) may be called after that.
    pub fn take_file(&mut self) -> Option<File> {
        self.direct = None;
        self.ahead.give_up();
        self.file.take()
    }

    /// Returns true if the file has positions.
    pub fn seekable(&self) -> bool {
        self.seekable
    }

    /// Returns true if writes go to the end of the file.
    pub fn appends(&self) -> bool {
        self.append
    }

    /// Returns the size of a buffer in bytes.
    pub fn block(&self) -> usize {
        self.block
    }

    /// Returns the caller's position: the offset of the next byte read or written.
    pub fn position(&self) -> u64 {
        self.position
    }

    /// Forgets an end of file or a read error that an earlier caller met.
    pub fn begin(&mut self) {
        self.at_end = false;
        self.read_error = None;
        if std::mem::take(&mut self.stale) {
            self.fill_is_stale = self.is_filling();
            self.forget();
        }
    }

    /// Reports that bytes of the file were changed past the buffers: calls that begin from now on read them
    /// again.
    pub fn changed(&mut self, from: u64, len: u64) {
        let kept = self.position - self.input.consumed()..self.read_until();
        self.stale |= self.is_filling() || from < kept.end && kept.start < from.saturating_add(len);
    }

    /// Returns the O_DIRECT facts of this file, if it is open with O_DIRECT.
    pub fn direct(&self) -> Option<Arc<Direct>> {
        self.direct.clone()
    }

    /// Moves everything out; what remains has no file.
    pub fn take(&mut self) -> Self {
        std::mem::replace(self, Self::of(None, Options::default()))
    }

    /// Flushes, and waits for the op in flight, so that the next operation on the file bypasses no buffered
    /// bytes.
    ///
    /// # Errors
    /// As [`flush`](Self::flush).
    pub fn settle(&mut self) -> Result<Step<()>, Error> {
        self.ahead.give_up();
        match self.flush()? {
            Step::Ready(()) if self.flight.is_some() => Ok(Step::Blocked),
            step => Ok(step),
        }
    }

    /// Moves to an offset. Call it only after [`settle`](Self::settle). Bytes that were read are kept if the
    /// offset is among them.
    pub fn seek(&mut self, position: u64) {
        debug_assert!(self.flight.is_none() && !self.is_dirty());
        let unread = self.unread().len() as u64;
        match position.checked_sub(self.position) {
            Some(ahead) if ahead <= unread => self.input.consume(ahead as usize),
            None if self.input.unconsume(self.position - position) => {}
            _ => self.forget(),
        }
        self.position = position;
    }

    /// Drops the bytes that were read ahead: the file has been changed past the buffers.
    pub fn forget_input(&mut self) {
        self.forget();
    }

    /// Queues another op on the same file while nothing is in flight; its result is the
    /// [`answer`](Self::answer).
    pub fn ask(&mut self, op: impl Into<Op>) {
        debug_assert!(self.flight.is_none());
        self.answer = None;
        self.asked = Some(op.into());
    }

    /// Takes the result of the op given to [`ask`](Self::ask).
    pub fn answer(&mut self) -> Option<Result<OpOutput, Error>> {
        self.answer.take()
    }

    /// Returns true if a read is in flight.
    pub fn is_filling(&self) -> bool {
        matches!(self.flight, Some(Flight::Fill | Flight::Ahead { .. }))
    }

    /// Takes the last result of a driver that has ended. What a write has left is the next to be written.
    pub fn finish_last(&mut self, op: Option<Op>, result: Result<OpOutput, Error>) {
        match (op, result) {
            (Some(op), Err(e)) if e.errno() == libc::ECANCELED && self.is_writing() => self.put_back(op),
            (op, result) if self.is_writing() => self.finish(op, result),
            _ => {}
        }
        self.lost_flight();
    }

    /// Ends the op in flight, whose result will never come: its driver is gone, and has run a write to a disk
    /// to its end.
    pub fn lost_flight(&mut self) {
        self.lost_running();
        self.ahead.give_up();
        self.flight = None;
        self.asked = None;
    }

    // The op in flight

    /// Returns true if an op is in flight.
    pub fn is_busy(&self) -> bool {
        self.flight.is_some()
    }

    /// Returns true if a result will come without another call.
    pub fn is_under_way(&self) -> bool {
        self.flight.is_some() && !self.wants_op()
    }

    /// Returns true if [`start`](Self::start) has an op.
    pub fn wants_op(&self) -> bool {
        match &self.running {
            Some(running) => running.wants_op(),
            None => {
                let wanted = self.missing > 0 || self.ahead.is_wanted();
                self.flight.is_none() && (self.queued.is_some() || self.asked.is_some() || wanted)
            }
        }
    }

    /// Returns the op that is needed next, which counts as in flight from then on. Pass its result to
    /// [`finish`](Self::finish).
    pub fn start(&mut self) -> Option<Op> {
        if let Some(running) = &mut self.running {
            return running.op();
        }
        let op = self.next_op()?;
        match self.direct() {
            // It is aligned.
            _ if self.is_reading_ahead() || matches!(op, Op::Blocking(_)) => Some(op),
            Some(direct) => self.run_aligned(direct, op),
            None => Some(op),
        }
    }

    /// Takes back the op that [`start`](Self::start) has just returned and that is not run now. The next
    /// `start` returns it or an equal one.
    pub fn put_back(&mut self, op: Op) {
        if let Some(running) = &mut self.running {
            return running.put_back(op);
        }
        match (self.flight.take(), op) {
            (Some(Flight::Asked), op) => self.asked = Some(op),
            // A caller that still misses bytes asks again.
            (Some(Flight::Fill), Op::Read(read)) => self.input.filled(read.buffer, 0),
            (Some(Flight::Fill), Op::Blocking(_)) => {}
            (Some(Flight::Ahead { count }), Op::Read(read)) => self.put_back_ahead(read.buffer, count),
            (Some(flight), Op::Write(write)) => {
                let (at, skip, large) = self.place_of_write(&flight);
                self.queued = Some(Queued {
                    buffer: Rest::unwrap(write.buffer, skip),
                    skip,
                    at,
                    large,
                });
            }
            _ => debug_assert!(false, "an op that was not started"),
        }
    }

    /// Returns what to submit in place of the op of [`start`](Self::start) that could not be done at once.
    pub fn waiting_op(&mut self, op: Op) -> Op {
        match &mut self.running {
            Some(running) => running.waiting_op(op),
            None => op,
        }
    }

    fn next_op(&mut self) -> Option<Op> {
        if self.flight.is_some() {
            return None;
        }
        if let Some(op) = self.asked.take() {
            self.flight = Some(Flight::Asked);
            return Some(op);
        }
        let file = self.file.as_ref()?;
        if let Some(queued) = self.queued.take() {
            let Queued {
                buffer,
                skip,
                at,
                large,
            } = queued;
            let mut write = Write::new(file, Rest::of(buffer, skip));
            if self.seekable && !self.append {
                write.offset = Some(at);
            }
            self.flight = Some(match large {
                true => Flight::Large { skip },
                false => Flight::Flush { at, skip },
            });
            return Some(write.into());
        }
        match std::mem::take(&mut self.missing) {
            0 => self.ahead_op(),
            count => {
                debug_assert!(self.ahead.bytes().is_empty());
                self.ahead.give_up();
                let at = self.read_until();
                let count = self.to_block_end(at, count);
                let room = self.input.room(count);
                self.flight = Some(Flight::Fill);
                Some(match room {
                    Ok(room) => {
                        let mut read = Read::new(file, room);
                        read.offset = self.seekable.then_some(at);
                        read.into()
                    }
                    Err(_) => memory::failing_op("read"),
                })
            }
        }
    }

    /// Takes the result of the op in flight.
    pub fn finish(&mut self, op: Option<Op>, result: Result<OpOutput, Error>) {
        if let Some((op, result)) = self.whole_op(op, result) {
            self.finish_op(op, result);
        }
    }

    fn finish_op(&mut self, op: Option<Op>, result: Result<OpOutput, Error>) {
        let count = match &result {
            Ok(OpOutput::Count(count)) => *count,
            _ => 0,
        };
        match (self.flight.take(), op) {
            (Some(Flight::Asked), _) => self.answer = Some(result),
            (Some(Flight::Long { have }), _) => self.long = Some(result.map(|_| have + count)),
            (Some(Flight::Fill), Some(Op::Read(read))) => {
                let asked = read.buffer.len();
                self.input.filled(read.buffer, count);
                // A read that may not wait stops where a page is not in memory.
                self.was_short = count < asked && !self.read_until().is_multiple_of(PAGE_BYTES);
                let stale = std::mem::take(&mut self.fill_is_stale);
                if stale {
                    self.forget();
                } else if count > 0 {
                    self.has_read_on(self.read_until() - count as u64, asked);
                }
                self.at_end = result.is_ok() && count == 0 && !stale;
                self.read_error = result.err();
            }
            // There was no memory to read into.
            (Some(Flight::Fill), Some(Op::Blocking(_))) => {
                self.fill_is_stale = false;
                self.read_error = result.err();
            }
            (Some(Flight::Ahead { .. }), Some(Op::Read(read))) => {
                let stale = std::mem::take(&mut self.fill_is_stale);
                self.landed(read.buffer, count, stale);
            }
            (Some(flight), Some(Op::Write(write))) => self.wrote(&flight, write, count, result.err()),
            // Given up by `lost_flight`.
            (None, _) => {}
            _ => debug_assert!(false, "a result of no op of this file"),
        }
    }
}
