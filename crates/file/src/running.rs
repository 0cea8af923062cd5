//! Ops of the buffers that run as several ops: on a file that is open with O_DIRECT each as aligned ones, and
//! long reads everywhere.

use crate::buffered::{Buffered, Queued};
use crate::direct::Direct;
use crate::part::{Rest, Room};
use crate::span::Span;
use crate::transfer::Transfer;
use proactor_engine::buffer::{Buf, Memory};
use proactor_engine::op::{Handle, Op, Read, Write};
use proactor_engine::{Error, Output};
use std::sync::Arc;

/// An op of the buffers whose transfer is under way.
pub(crate) struct Running {
    transfer: Transfer,
    of: Whole,
    in_flight: bool,
    /// True if the transfer ends with the op in flight.
    stopped: bool,
}

/// Memory of the op, to be given back.
enum Whole {
    Read(Arc<Room>),
    Write(Arc<Rest>),
    /// Memory of a long read, which the caller owns.
    Callers,
}

impl Running {
    /// Runs a long read.
    pub(crate) fn of_caller(transfer: Transfer) -> Self {
        Running {
            transfer,
            of: Whole::Callers,
            in_flight: false,
            stopped: false,
        }
    }

    /// Makes the transfer end with the op in flight, if there is one.
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

    /// Takes back an op that was not run.
    pub(crate) fn put_back(&mut self, op: Op) {
        self.in_flight = false;
        self.transfer.put_back(op);
    }

    /// Returns a longer op in place of one that could not be done at once.
    pub(crate) fn waiting_op(&mut self, op: Op) -> Op {
        let direct = self.transfer.is_direct();
        if direct {
            // It may have taken aligned memory, and is as long as it can be.
            return op;
        }
        self.transfer.waiting_op().unwrap_or(op)
    }

    /// Returns the op that the transfer stands for.
    fn whole(self) -> Option<Op> {
        let Running { transfer, of, .. } = self;
        // The transfer holds the other references.
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
    /// Begins the transfer of an op, and returns its first op. An op that moves no bytes is returned
    /// unchanged.
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

    /// Returns the op that has ended with this one; `None` while there is more to do.
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
            // A failure after a part was moved is a partial success, as a system call would report it. A long
            // read takes all or nothing.
            Err(e) if count == 0 || whole => (op, Err(e)),
            _ => (op, Ok(Output::Count(count))),
        })
    }

    /// Ends the transfer: the driver is gone, and has run the op in flight to its end. The rest of a write is
    /// the next to be written.
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

    /// Returns the length of a read into a buffer, cut at the end of an O_DIRECT block unless that is before
    /// its first byte: the next read starts there.
    pub(crate) fn to_block_end(&self, at: u64, count: usize) -> usize {
        let Some(direct) = self.direct.as_ref().filter(|_| self.block > 0) else {
            return count;
        };
        match count.checked_sub(direct.past_block(at + count as u64)) {
            Some(count) if count > 0 => count,
            _ => count,
        }
    }

    /// Returns the number of bytes to be written that follow the last O_DIRECT block they fill.
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
