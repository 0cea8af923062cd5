//! Ops in flight on an asynchronous transport: when they are submitted, and what follows a completion.
//!
//! A slot has one buffer and at most one op. There are as many slots as the depth, and an op that finds none
//! waits. A [`Transport`] does the op of a slot.

use super::claim::Claimed;
use super::{complaint, sleep, Outcome, Part, Times, Worker};
use crate::job::Base;
use crate::report::Depth;
use crate::tally::Tally;
use crate::work::{Direction, Step};
use std::fs::File;
use std::io;
use std::time::{Duration, Instant};

/// File and direction of an op.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Way {
    Read,
    Write,
    /// Second half of a copy.
    WriteDestination,
}

/// An op that has completed.
pub(super) struct Ended {
    /// Slot of the op; `None` for a sync.
    pub slot: Option<usize>,
    pub result: io::Result<usize>,
}

impl Ended {
    /// Does an fsync that the caller waits for.
    pub fn sync_at_once(file: &File) -> Ended {
        let result = rustix::fs::fsync(file).map(|()| 0).map_err(Into::into);
        Ended { slot: None, result }
    }
}

/// A transport, which does the ops of slots.
pub(super) trait Transport: Sized {
    fn ready(part: &Part<'_>) -> Result<Self, String>;
    /// Returns the slot's memory for an op of this length. No op uses it while the slot is free.
    fn buffer(&mut self, slot: usize, way: Way, bytes: usize) -> &mut [u8];
    /// Queues an op on the slot's memory. It may wait until `flush`.
    fn transfer(&mut self, slot: usize, way: Way, offset: u64, bytes: usize) -> Result<(), String>;
    /// Queues an fsync of the file that is written to.
    fn sync(&mut self) -> Result<(), String>;
    /// Submits what is queued.
    fn flush(&mut self) -> Result<(), String>;
    /// Submits what is queued, and waits until something has completed.
    fn wait(&mut self, ended: &mut Vec<Ended>) -> Result<(), String>;
}

pub(super) struct Queue<T> {
    transport: T,
    measured_from: Instant,
    free: Vec<usize>,
    flying: Vec<Option<(Step, Instant)>>,
    /// Number of syncs and transfers that have not completed.
    in_flight: usize,
    reads: Tally,
    writes: Tally,
    fsyncs: u64,
    depth: Depth,
    /// Number of transfers in flight.
    transfers: u64,
    /// Number of ops that are queued and not submitted.
    unsent: u64,
    submissions: u64,
}

impl<T: Transport> Queue<T> {
    pub fn ready(part: &Part<'_>) -> Result<Queue<T>, String> {
        let depth = part.cell.reachable_depth() as usize;
        Ok(Queue {
            transport: T::ready(part)?,
            measured_from: Instant::now(),
            free: (0..depth).rev().collect(),
            flying: vec![None; depth],
            in_flight: 0,
            reads: Tally::default(),
            writes: Tally::default(),
            fsyncs: 0,
            depth: Depth::default(),
            transfers: 0,
            unsent: 0,
            submissions: 0,
        })
    }

    fn flush(&mut self, part: &Part<'_>, is_measured: bool) -> Result<(), String> {
        self.note_submission(part, is_measured);
        self.transport.flush()
    }

    /// Counts a submission of what is queued. POSIX AIO has no call for more than one op that does not wait.
    fn note_submission(&mut self, part: &Part<'_>, is_measured: bool) {
        let ops = std::mem::take(&mut self.unsent);
        let one_by_one = part.cell.engine.base == Base::PosixAio;
        if is_measured {
            self.submissions += if one_by_one { ops } else { ops.min(1) };
        }
    }

    fn begin(&mut self, slot: usize, step: Step, now: Instant) {
        self.flying[slot] = Some((step, now));
        self.in_flight += 1;
        self.transfers += 1;
        self.unsent += 1;
        if now >= self.measured_from {
            self.depth.record(self.transfers);
        }
    }

    /// Starts the op of a slot; of a copy, the first half.
    fn send(&mut self, part: &Part<'_>, slot: usize, step: Step) -> Result<(), String> {
        let way = match step.direction {
            Direction::Read | Direction::Copy => Way::Read,
            Direction::Write => {
                let buffer = self.transport.buffer(slot, Way::Write, step.bytes as usize);
                part.fill(buffer, step.offset);
                Way::Write
            }
        };
        self.begin(slot, step, Instant::now());
        self.transport
            .transfer(slot, way, step.offset, step.bytes as usize)
    }

    fn receive(&mut self, part: &Part<'_>, times: &Times, ended: Ended, now: Instant) -> Result<(), String> {
        self.in_flight -= 1;
        let Some(slot) = ended.slot else {
            self.fsyncs += u64::from(now >= times.measured_from);
            return ended.result.map(drop).map_err(|e| format!("fsync: {e}"));
        };
        self.transfers -= 1;
        let (step, begun) = self.flying[slot].take().expect("a slot that is in flight");
        match ended.result {
            Ok(count) if count as u64 == step.bytes => {}
            other => return Err(complaint(step.direction, step.offset, other)),
        }
        let wrote = step.direction == Direction::Write;
        if begun >= times.measured_from {
            let tally = if wrote { &mut self.writes } else { &mut self.reads };
            tally.record(step.bytes, now - begun);
        }
        if !wrote {
            let buffer = self.transport.buffer(slot, Way::Read, step.bytes as usize);
            part.check(buffer, step.offset)?;
        }
        if step.direction == Direction::Copy {
            return self.send_on(part, slot, step, now);
        }
        self.free.push(slot);
        if wrote && part.is_sync_due() {
            self.in_flight += 1;
            self.transport.sync()?;
        }
        Ok(())
    }

    /// Starts the second half of a copy.
    fn send_on(&mut self, part: &Part<'_>, slot: usize, read: Step, now: Instant) -> Result<(), String> {
        let bytes = read.bytes as usize;
        let buffer = self.transport.buffer(slot, Way::WriteDestination, bytes);
        part.fill(buffer, read.offset);
        let step = Step {
            direction: Direction::Write,
            ..read
        };
        self.begin(slot, step, now);
        self.transport
            .transfer(slot, Way::WriteDestination, step.offset, bytes)
    }
}

impl<T: Transport> Worker for Queue<T> {
    fn run(&mut self, part: &Part<'_>, times: &Times) -> Result<Outcome, String> {
        let think = Duration::from_micros(part.cell.thinktime_us);
        let batch = match part.cell.batch {
            0 => usize::MAX,
            batch => batch as usize,
        };
        let mut pending: Option<Claimed> = None;
        let mut ended = Vec::with_capacity(self.flying.len());
        self.measured_from = times.measured_from;
        let began = Instant::now();
        let (mut now, mut open) = (times.start, true);
        loop {
            let mut sent = 0;
            while let (true, Some(&slot)) = (open, self.free.last()) {
                let claimed = pending.take().or_else(|| part.claim(times, now));
                let Some(claimed) = claimed else {
                    open = false;
                    break;
                };
                if let Some(due) = claimed.due {
                    if due > now && self.in_flight > 0 {
                        pending = Some(claimed);
                        break;
                    }
                    open = part.may_begin(claimed, times);
                    now = Instant::now();
                    if !open {
                        break;
                    }
                }
                let step = claimed.step;
                self.free.pop();
                self.send(part, slot, step)?;
                sent += 1;
                if sent % batch == 0 {
                    self.flush(part, now >= times.measured_from)?;
                }
            }
            if self.in_flight == 0 {
                break;
            }
            let is_measured = now >= times.measured_from;
            if !think.is_zero() {
                self.flush(part, is_measured)?;
                sleep(think, part.stop);
            }
            self.note_submission(part, is_measured);
            self.transport.wait(&mut ended)?;
            now = Instant::now();
            for one in ended.drain(..) {
                self.receive(part, times, one, now)?;
            }
        }
        self.fsyncs += part.end()?;
        Ok(Outcome {
            reads: std::mem::take(&mut self.reads),
            writes: std::mem::take(&mut self.writes),
            fsyncs: self.fsyncs,
            submissions: self.submissions,
            depth: self.depth,
            began,
            ended: Instant::now(),
        })
    }
}
