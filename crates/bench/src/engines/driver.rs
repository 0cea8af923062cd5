//! A queue of ops on one of our driver's backends: POSIX AIO, Linux AIO, io_uring.
//!
//! A buffer belongs to one op at a time: as many buffers as the depth, and what has none waits.

use super::{complaint, Outcome, Part, Times, Worker, ALIGNMENT};
use crate::data;
use crate::job::{Base, Cell};
use crate::tally::Tally;
use crate::unless_interrupted;
use crate::work::{Direction, Step};
use proactor::buffer::{AlignedBuf, Buf, RegisteredBuf};
use proactor::op::{File, Fsync, Handle, Op, Read, Write};
use proactor::{Completion, Config, Driver, Engine, SqPoll, Token};
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::time::{Duration, Instant};

/// How long an SQPOLL thread polls without work: fio's default.
const SQPOLL_IDLE: Duration = Duration::from_secs(1);

pub(super) struct Queue {
    // Before the buffers: they may be registered with it.
    driver: Driver,
    source: Handle,
    destination: Option<Handle>,
    free: Vec<Buf>,
    in_flight: HashMap<Token, Flying, BuildHasherDefault<Once>>,
    done: Vec<Completion>,
}

/// What is known of an op until it comes back.
#[derive(Clone, Copy)]
enum Flying {
    Transfer { step: Step, begun: Instant },
    Sync,
}

/// Tokens differ in their low bits, so one multiplication spreads them.
#[derive(Default)]
struct Once(u64);

impl Hasher for Once {
    fn finish(&self) -> u64 {
        self.0
    }
    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|b| self.write_u64(u64::from(*b)));
    }
    fn write_u64(&mut self, value: u64) {
        self.0 = (self.0 ^ value)
            .wrapping_mul(0x9e37_79b9_7f4a_7c15)
            .rotate_left(29);
    }
}

/// The driver that a cell's engine means.
pub(crate) fn config(cell: &Cell) -> Config {
    let engine = match cell.engine.base {
        Base::PosixAio => Engine::PosixAio,
        Base::LinuxAio => Engine::LinuxAio,
        Base::IoUring => Engine::IoUring,
        Base::Sync | Base::PsyncThreads => unreachable!("they have no driver"),
    };
    let mut config = Config::default()
        .engine(engine)
        .depth(cell.iodepth)
        .inline(false)
        .max_threads(cell.iodepth as usize)
        .iopoll(cell.engine.iopoll);
    if cell.engine.sqpoll {
        config = config.sqpoll(SqPoll {
            idle: SQPOLL_IDLE,
            cpu: None,
        });
    }
    config
}

impl Queue {
    pub fn ready(part: &Part<'_>) -> Result<Queue, String> {
        let cell = part.cell;
        let failed = |e: std::io::Error| format!("{}: {e}", cell.engine);
        let mut driver = config(cell).build().map_err(failed)?;
        let mut handle = |file: &std::fs::File| -> std::io::Result<Handle> {
            let file = File::new(file.try_clone()?);
            Ok(if cell.engine.fixed {
                driver.register_file(&file)?.into()
            } else {
                file.into()
            })
        };
        let source = handle(part.source).map_err(failed)?;
        let destination = part.destination.map(&mut handle).transpose().map_err(failed)?;
        let depth = cell.iodepth;
        let bytes = cell.bs as usize;
        let filled = |i: u64, buffer: &mut [u8]| data::fill(buffer, part.seed, part.generation, i * cell.bs);
        let free = if cell.engine.fixed {
            let count = u16::try_from(depth).map_err(|_| "at most 65,535 registered buffers".to_owned())?;
            let made = driver
                .register_buffers(count, bytes)
                .map_err(|e| memlock(cell, &e))?;
            let full = |(i, mut buffer): (usize, RegisteredBuf)| {
                buffer.set_len(bytes);
                filled(i as u64, &mut buffer);
                Buf::from(buffer)
            };
            made.into_iter().enumerate().map(full).collect()
        } else {
            let one = |i| {
                let mut buffer = AlignedBuf::zeroed(bytes, ALIGNMENT);
                filled(i, &mut buffer);
                Buf::from(buffer)
            };
            (0..u64::from(depth)).map(one).collect()
        };
        Ok(Queue {
            driver,
            source,
            destination,
            free,
            in_flight: HashMap::with_capacity_and_hasher(depth as usize * 2, BuildHasherDefault::default()),
            done: Vec::with_capacity(depth as usize),
        })
    }

    fn submit(&mut self, op: impl Into<Op>, flying: Flying) -> Result<(), String> {
        let token = self.driver.submit(op).map_err(|e| e.to_string())?;
        self.in_flight.insert(token, flying);
        Ok(())
    }

    /// Sends a buffer on its way; of a copy, the first half.
    fn send(&mut self, part: &Part<'_>, step: Step, mut buffer: Buf) -> Result<(), String> {
        let op: Op = match step.direction {
            Direction::Read | Direction::Copy => Read::at(self.source.clone(), step.offset, buffer).into(),
            Direction::Write => {
                part.fill(bytes_of(&mut buffer), step.offset);
                Write::at(self.source.clone(), step.offset, buffer).into()
            }
        };
        let begun = Instant::now();
        self.submit(op, Flying::Transfer { step, begun })
    }

    /// The second half of a copy.
    fn send_on(
        &mut self,
        part: &Part<'_>,
        offset: u64,
        mut buffer: Buf,
        begun: Instant,
    ) -> Result<(), String> {
        part.fill(bytes_of(&mut buffer), offset);
        let to = self.destination.clone().expect("a copy has a destination");
        let step = Step {
            direction: Direction::Write,
            offset,
        };
        self.submit(Write::at(to, offset, buffer), Flying::Transfer { step, begun })
    }

    fn sync(&mut self) -> Result<(), String> {
        let file = self.destination.as_ref().unwrap_or(&self.source).clone();
        self.submit(Fsync::new(file), Flying::Sync)
    }
}

fn bytes_of(buffer: &mut Buf) -> &mut [u8] {
    match buffer {
        Buf::Aligned(buffer) => buffer,
        Buf::Registered(buffer) => buffer,
        _ => unreachable!("no other buffers are made here"),
    }
}

fn memlock(cell: &Cell, error: &std::io::Error) -> String {
    let hint = match error.raw_os_error() {
        Some(libc::ENOMEM) => ": RLIMIT_MEMLOCK (ulimit -l) bounds registered memory",
        _ => "",
    };
    format!(
        "{}: registering {} buffers of {} bytes: {error}{hint}",
        cell.engine, cell.iodepth, cell.bs
    )
}

struct Progress {
    reads: Tally,
    writes: Tally,
    written: u64,
    fsyncs: u64,
}

impl Worker for Queue {
    fn run(&mut self, part: &Part<'_>, times: &Times) -> Result<Outcome, String> {
        let think = Duration::from_micros(part.cell.thinktime_us);
        let batch = match part.cell.batch {
            0 => usize::MAX,
            batch => batch as usize,
        };
        let mut progress = Progress {
            reads: Tally::default(),
            writes: Tally::default(),
            written: 0,
            fsyncs: 0,
        };
        let (mut now, mut open) = (times.start, true);
        loop {
            let mut sent = 0;
            while open && !self.free.is_empty() {
                let Some(step) = part.claim(times, now) else {
                    open = false;
                    break;
                };
                let buffer = self.free.pop().expect("there is one");
                self.send(part, step, buffer)?;
                sent += 1;
                if sent % batch == 0 {
                    self.flush()?;
                }
            }
            if self.in_flight.is_empty() {
                break;
            }
            if !think.is_zero() {
                self.flush()?;
                std::thread::sleep(think);
            }
            let mut done = std::mem::take(&mut self.done);
            unless_interrupted(self.driver.wait(1, usize::MAX, None, &mut done))
                .map_err(|e| e.to_string())?;
            now = Instant::now();
            for completion in done.drain(..) {
                self.receive(part, times, completion, now, &mut progress)?;
            }
            self.done = done;
        }
        progress.fsyncs += part.end()?;
        Ok(Outcome {
            reads: progress.reads,
            writes: progress.writes,
            fsyncs: progress.fsyncs,
            ended: Instant::now(),
        })
    }
}

impl Queue {
    fn flush(&mut self) -> Result<(), String> {
        self.driver.flush().map_err(|e| e.to_string())
    }

    fn receive(
        &mut self,
        part: &Part<'_>,
        times: &Times,
        completion: Completion,
        now: Instant,
        progress: &mut Progress,
    ) -> Result<(), String> {
        let flying = self.in_flight.remove(&completion.token);
        let Flying::Transfer { step, begun } = flying.expect("every op is noted") else {
            progress.fsyncs += 1;
            return completion.count().map(drop).map_err(|e| format!("fsync: {e}"));
        };
        let expected = part.cell.bs as usize;
        let offset = step.offset;
        match completion.count() {
            Ok(count) if count == expected => {}
            other => return Err(complaint(step.direction, offset, other.map_err(Into::into))),
        }
        let counts = begun >= times.measured_from;
        let (buffer, wrote) = match completion.op {
            Some(Op::Read(op)) => (op.buffer, false),
            Some(Op::Write(op)) => (op.buffer, true),
            _ => unreachable!("a transfer comes back as what it was"),
        };
        let tally = if wrote {
            &mut progress.writes
        } else {
            &mut progress.reads
        };
        if counts {
            tally.record(part.cell.bs, now - begun);
        }
        if !wrote {
            part.check(buffer.as_slice(), offset)?;
            if step.direction == Direction::Copy {
                return self.send_on(part, offset, buffer, now);
            }
        }
        self.free.push(buffer);
        if wrote {
            progress.written += 1;
            if part.is_sync_due(progress.written) {
                self.sync()?;
            }
        }
        Ok(())
    }
}
