//! Ops of the buffers that are transfers of several others: on a file that is open with O_DIRECT each, of aligned ones,
//! and everywhere the long reads.

use crate::buffered::{Buffered, Queued};
use crate::direct::Direct;
use crate::part::{Rest, Room};
use crate::span::Span;
use crate::transfer::Transfer;
use proactor::buffer::{Buf, Memory};
use proactor::op::{Handle, Op, Read, Write};
use proactor::{Error, Output};
use std::sync::Arc;

/// An op of the buffers while its transfer is under way.
pub(crate) struct Running {
    transfer: Transfer,
    of: Whole,
    in_flight: bool,
    /// It ends with the op in flight.
    stopped: bool,
}

/// The op's memory, to be given back.
enum Whole {
    Read(Arc<Room>),
    Write(Arc<Rest>),
    /// Of a long read, which the caller has.
    Callers,
}

impl Running {
    /// A long read.
    pub(crate) fn of_caller(transfer: Transfer) -> Self {
        Running {
            transfer,
            of: Whole::Callers,
            in_flight: false,
            stopped: false,
        }
    }

    /// Ends with the op in flight, if there is one.
    pub(crate) fn stop(&mut self) -> bool {
        self.stopped = true;
        self.in_flight
    }

    pub(crate) fn wants_op(&self) -> bool {
        !self.in_flight
    }

    pub(crate) fn op(&mut self) -> Option<Op> {
        if self.in_flight {
            return None;
        }
        let op = self.transfer.op();
        self.in_flight = op.is_some();
        op
    }

    /// An op that has not been done.
    pub(crate) fn put_back(&mut self, op: Op) {
        self.in_flight = false;
        self.transfer.put_back(op);
    }

    /// In place of an op that cannot be done at once, a longer one.
    pub(crate) fn waiting_op(&mut self, op: Op) -> Op {
        let direct = self.transfer.is_direct();
        if direct {
            // It may have taken aligned memory, and is as long as can be.
            return op;
        }
        self.transfer.waiting_op().unwrap_or(op)
    }

    /// The op that it stood for.
    fn whole(self) -> Option<Op> {
        let Running { transfer, of, .. } = self;
        // It has the other references.
        drop(transfer);
        Some(match of {
            Whole::Read(room) => {
                let room: Box<dyn Memory> = Box::new(Arc::into_inner(room)?);
                Read::new(Handle::NONE, Buf::from(room)).into()
            }
            Whole::Write(rest) => Write::new(Handle::NONE, Arc::into_inner(rest)?.into_whole()).into(),
            Whole::Callers => return None,
        })
    }
}

impl Buffered {
    /// Begins the transfer for an op, and gives the first of its ops. What moves no bytes is left as it is.
    pub(crate) fn run_aligned(&mut self, direct: Arc<Direct>, op: Op) -> Option<Op> {
        let file = self.file.as_ref()?;
        let (transfer, of) = match op {
            Op::Read(read) => {
                let room = Arc::new(Room::from_buf(read.buffer)?);
                let memory: Arc<dyn Memory> = Arc::clone(&room) as _;
                let transfer = Transfer::read(file, read.offset?, vec![memory]);
                (transfer, Whole::Read(room))
            }
            Op::Write(write) => {
                let rest = Arc::new(Rest::whole(write.buffer));
                let memory: Arc<dyn Memory> = Arc::clone(&rest) as _;
                let transfer = Transfer::write(file, write.offset?, vec![memory]);
                (transfer, Whole::Write(rest))
            }
            other => return Some(other),
        };
        let running = self.running.insert(Running {
            transfer: transfer.direct(Some(direct)),
            of,
            in_flight: false,
            stopped: false,
        });
        running.op()
    }

    /// The op that has come to its end with this one; `None` while there is more of it to do.
    #[allow(clippy::type_complexity)]
    pub(crate) fn whole_op(
        &mut self,
        op: Option<Op>,
        result: Result<Output, Error>,
    ) -> Option<(Option<Op>, Result<Output, Error>)> {
        let Some(running) = &mut self.running else {
            return Some((op, result));
        };
        running.in_flight = false;
        let taken = running.transfer.took(op, result);
        if taken.is_ok() && !running.stopped && !running.transfer.is_over() {
            return None;
        }
        let count = running.transfer.done();
        let whole = matches!(running.of, Whole::Callers);
        let op = self.running.take().and_then(Running::whole);
        Some(match taken {
            // What failed after a part was moved has succeeded in part, as a system call would say. A long read takes all or
            // nothing.
            Err(e) if count == 0 || whole => (op, Err(e)),
            _ => (op, Ok(Output::Count(count))),
        })
    }

    /// The driver is gone, and has run the op in flight to its end. What else was to be written is the next to be.
    pub(crate) fn lost_running(&mut self) {
        let Some(Running { transfer, of, .. }) = self.running.take() else {
            return;
        };
        let Whole::Write(rest) = of else { return };
        let written = transfer.done() + transfer.in_flight();
        let flight = self.flight.as_ref();
        let (at, _, large) = flight.map_or((self.position, 0, true), |flight| self.place_of_write(flight));
        if written < rest.len() {
            let range = written..rest.len();
            self.queued = Some(Queued {
                buffer: Span::of(rest, range).into_buf(),
                skip: 0,
                at: at + written as u64,
                large,
            });
        }
    }

    /// A read into a buffer ends where a block of O_DIRECT does, if that is not before its first byte: the next one
    /// starts there.
    pub(crate) fn to_block_end(&self, at: u64, count: usize) -> usize {
        let Some(direct) = self.direct.as_ref().filter(|_| self.block > 0) else {
            return count;
        };
        match count.checked_sub(direct.past_block(at + count as u64)) {
            Some(count) if count > 0 => count,
            _ => count,
        }
    }

    /// How many of the bytes to be written are behind the last block of O_DIRECT that they fill.
    pub(crate) fn past_last_block(&self) -> usize {
        let len = self.output.len();
        let past = self
            .direct
            .as_ref()
            .map_or(0, |direct| direct.past_block(self.output.at + len as u64));
        if past < len {
            past
        } else {
            0
        }
    }
}
