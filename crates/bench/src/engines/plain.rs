//! `pread` and `pwrite`, one op after the other: `sync` is one such thread, `psync-threads` are many that
//! share a job's ops.

use super::{complaint, sleep, Outcome, Part, Times, Worker};
use crate::data;
use crate::report::Depth;
use crate::tally::Tally;
use crate::work::{Direction, Step};
use proactor_engine::buffer::AlignedBuf;
use rustix::io::{pread, pwrite, Errno};
use std::fs::File;
use std::io;
use std::time::{Duration, Instant};

pub(super) struct Plain {
    buffer: AlignedBuf,
}

impl Plain {
    pub fn ready(part: &Part<'_>) -> Result<Plain, String> {
        let mut buffer = super::zeroed(part.cell.longest_op_bytes() as usize)?;
        data::fill(&mut buffer, part.seed, part.generation, 0);
        Ok(Plain { buffer })
    }

    fn read(&mut self, part: &Part<'_>, offset: u64, bytes: usize) -> Result<(), String> {
        match unless_interrupted(|| pread(part.source, &mut self.buffer[..bytes], offset)) {
            Ok(count) if count == bytes => Ok(()),
            other => Err(complaint(Direction::Read, offset, other)),
        }
    }

    fn write(&mut self, file: &File, offset: u64, bytes: usize) -> Result<(), String> {
        match unless_interrupted(|| pwrite(file, &self.buffer[..bytes], offset)) {
            Ok(count) if count == bytes => Ok(()),
            other => Err(complaint(Direction::Write, offset, other)),
        }
    }
}

fn unless_interrupted(mut call: impl FnMut() -> Result<usize, Errno>) -> io::Result<usize> {
    loop {
        match call() {
            Err(Errno::INTR) => {}
            other => return Ok(other?),
        }
    }
}

impl Worker for Plain {
    fn run(&mut self, part: &Part<'_>, times: &Times) -> Result<Outcome, String> {
        let think = Duration::from_micros(part.cell.thinktime_us);
        // The end of an op is the start of the next, unless something comes between: a look at the clock is a tenth of
        // a cached read.
        let between = part.cell.verify || !think.is_zero() || part.cell.fsync > 0 || part.cell.has_rate();
        let (mut reads, mut writes) = (Tally::default(), Tally::default());
        let mut fsyncs = 0;
        let mut depth = Depth::default();
        let began = Instant::now();
        let mut now = began;
        while let Some(claimed) = part.claim(times, now) {
            let Step {
                direction,
                offset,
                bytes,
            } = claimed.step;
            let length = bytes as usize;
            if claimed.due.is_some() && !part.may_begin(claimed, times) {
                break;
            }
            if direction == Direction::Write {
                part.fill(&mut self.buffer[..length], offset);
            }
            let mut begun = if between { Instant::now() } else { now };
            if direction != Direction::Write {
                self.read(part, offset, length)?;
                now = Instant::now();
                if begun >= times.measured_from {
                    depth.record(1);
                    reads.record(bytes, now - begun);
                }
                part.check(&self.buffer[..length], offset)?;
                begun = now;
            }
            if direction != Direction::Read {
                if direction == Direction::Copy && part.cell.verify {
                    part.fill(&mut self.buffer[..length], offset);
                    begun = Instant::now();
                }
                self.write(part.written(), offset, length)?;
                now = Instant::now();
                if begun >= times.measured_from {
                    depth.record(1);
                    writes.record(bytes, now - begun);
                }
                if part.is_sync_due() {
                    rustix::fs::fsync(part.written()).map_err(|e| format!("fsync: {e}"))?;
                    now = Instant::now();
                    fsyncs += u64::from(now >= times.measured_from);
                }
            }
            if !think.is_zero() {
                sleep(think, part.stop);
                now = Instant::now();
            }
        }
        fsyncs += part.end()?;
        let ended = if fsyncs > 0 { Instant::now() } else { now };
        Ok(Outcome {
            submissions: reads.ios + writes.ios,
            reads,
            writes,
            fsyncs,
            depth,
            began,
            ended,
        })
    }
}
