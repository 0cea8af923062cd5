//! Our driver on one of its backends: POSIX AIO, Linux AIO, io_uring.

use super::queue::{Ended, Transport, Way};
use super::Part;
use crate::data;
use crate::job::{Base, Cell};
use crate::unless_interrupted;
use proactor_engine::buffer::{Buf, RegisteredBuf};
use proactor_engine::op::{File, Fsync, Handle, Op, Read, Write};
use proactor_engine::{Completion, Config, Driver, Engine, SqPoll, Token};
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::io;
use std::time::Duration;

/// Time that an SQPOLL thread polls without work: fio's default.
pub(super) const SQPOLL_IDLE: Duration = Duration::from_secs(1);

pub(super) struct OnDriver {
    // Declared before the buffers: they may be registered with it.
    driver: Driver,
    source: Handle,
    destination: Option<Handle>,
    /// Buffers, one for each slot and long enough for every op. `None` while the slot's op has it.
    buffers: Vec<Option<Buf>>,
    /// Second buffers for each slot, for reads that are shorter than writes: a read fills its buffer's
    /// capacity. Empty where reads are not shorter.
    for_reads: Vec<Option<Buf>>,
    /// Slots by the token of their op; `None` is a sync.
    slots: HashMap<Token, Option<usize>, BuildHasherDefault<Once>>,
    done: Vec<Completion>,
    /// Upper bound on completions that are reaped together.
    most: usize,
}

/// A hasher for tokens: they differ in their low bits, so one multiplication spreads them.
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

/// Returns the driver's configuration for a cell's engine.
pub(crate) fn config(cell: &Cell) -> Config {
    let engine = match cell.engine.base {
        Base::PosixAio => Engine::PosixAio,
        Base::LinuxAio => Engine::LinuxAio,
        Base::IoUring => Engine::IoUring,
        Base::Sync | Base::PsyncThreads => unreachable!("they have no driver"),
    };
    let mut config = Config::default()
        .engine(engine)
        .depth(cell.reachable_depth())
        .inline(false)
        .max_threads(cell.reachable_depth() as usize)
        .iopoll(cell.engine.iopoll);
    if cell.engine.sqpoll {
        config = config.sqpoll(SqPoll::new(SQPOLL_IDLE));
    }
    config
}

impl OnDriver {
    fn submit(&mut self, op: impl Into<Op>, slot: Option<usize>) -> Result<(), String> {
        let token = self.driver.submit(op).map_err(|e| e.to_string())?;
        self.slots.insert(token, slot);
        Ok(())
    }

    fn buffers_of(&mut self, is_read: bool) -> &mut [Option<Buf>] {
        match is_read && !self.for_reads.is_empty() {
            true => &mut self.for_reads,
            false => &mut self.buffers,
        }
    }

    fn to(&self) -> Handle {
        self.destination.as_ref().unwrap_or(&self.source).clone()
    }
}

impl Transport for OnDriver {
    fn ready(part: &Part<'_>) -> Result<OnDriver, String> {
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
        let bytes = cell.longest_op_bytes() as usize;
        let mut buffers: Vec<Option<Buf>> = if cell.engine.fixed {
            let count = u16::try_from(cell.reachable_depth())
                .map_err(|_| "at most 65,535 registered buffers".to_owned())?;
            let made = driver
                .register_buffers(count, bytes)
                .map_err(|e| memlock(cell, &e))?;
            let full = |mut buffer: RegisteredBuf| {
                buffer.set_len(bytes);
                Some(buffer.into())
            };
            made.into_iter().map(full).collect()
        } else {
            aligned(cell, bytes)?
        };
        let for_reads = match cell.bs < cell.write_bytes() {
            true => aligned(cell, cell.bs as usize)?,
            false => Vec::new(),
        };
        for (slot, buffer) in buffers.iter_mut().flatten().enumerate() {
            data::fill(
                bytes_of(buffer),
                part.seed,
                part.generation,
                (slot * bytes) as u64,
            );
        }
        let depth = buffers.len();
        Ok(OnDriver {
            driver,
            source,
            destination,
            buffers,
            for_reads,
            slots: HashMap::with_capacity_and_hasher(depth * 2, BuildHasherDefault::default()),
            done: Vec::with_capacity(depth),
            most: part.most(),
        })
    }

    fn buffer(&mut self, slot: usize, way: Way, bytes: usize) -> &mut [u8] {
        let buffer = &mut self.buffers_of(way == Way::Read)[slot];
        &mut bytes_of(buffer.as_mut().expect("no op has it"))[..bytes]
    }

    fn transfer(&mut self, slot: usize, way: Way, offset: u64, bytes: usize) -> Result<(), String> {
        let buffer = self.buffers_of(way == Way::Read)[slot].take();
        let mut buffer = buffer.expect("no op has it");
        set_len(&mut buffer, bytes);
        let op: Op = match way {
            Way::Read => Read::at(self.source.clone(), offset, buffer).into(),
            Way::Write => Write::at(self.source.clone(), offset, buffer).into(),
            Way::WriteDestination => Write::at(self.to(), offset, buffer).into(),
        };
        self.submit(op, Some(slot))
    }

    fn sync(&mut self) -> Result<(), String> {
        let op = Fsync::new(self.to());
        self.submit(op, None)
    }

    fn flush(&mut self) -> Result<(), String> {
        self.driver.flush().map_err(|e| e.to_string())
    }

    fn wait(&mut self, ended: &mut Vec<Ended>) -> Result<(), String> {
        let waited = self.driver.wait(1, self.most, None, &mut self.done);
        unless_interrupted(waited).map_err(|e| e.to_string())?;
        let mut done = std::mem::take(&mut self.done);
        for completion in done.drain(..) {
            let slot = self.slots.remove(&completion.token).expect("every op is noted");
            // The caller names the op.
            let result = completion
                .count()
                .map_err(|e| io::Error::from_raw_os_error(e.errno()));
            if let (Some(slot), Some(op)) = (slot, completion.op) {
                let (is_read, mut buffer) = match op {
                    Op::Read(op) => (true, op.buffer),
                    Op::Write(op) => (false, op.buffer),
                    _ => unreachable!("a transfer comes back as what it was"),
                };
                // Another op may be longer.
                let capacity = buffer.capacity();
                set_len(&mut buffer, capacity);
                self.buffers_of(is_read)[slot] = Some(buffer);
            }
            ended.push(Ended { slot, result });
        }
        self.done = done;
        Ok(())
    }
}

/// Allocates a buffer of this length for each slot.
fn aligned(cell: &Cell, bytes: usize) -> Result<Vec<Option<Buf>>, String> {
    let one = |_| Ok(Some(super::zeroed(bytes)?.into()));
    (0..cell.reachable_depth()).map(one).collect()
}

fn set_len(buffer: &mut Buf, bytes: usize) {
    match buffer {
        Buf::Aligned(buffer) => buffer.set_len(bytes),
        Buf::Registered(buffer) => buffer.set_len(bytes),
        _ => unreachable!("no other buffers are made here"),
    }
}

fn bytes_of(buffer: &mut Buf) -> &mut [u8] {
    match buffer {
        Buf::Aligned(buffer) => buffer,
        Buf::Registered(buffer) => buffer,
        _ => unreachable!("no other buffers are made here"),
    }
}

pub(super) fn memlock(cell: &Cell, error: &io::Error) -> String {
    let hint = match error.raw_os_error() {
        Some(libc::ENOMEM) => ": RLIMIT_MEMLOCK (ulimit -l) bounds registered memory",
        _ => "",
    };
    format!(
        "{}: registering {} buffers of {} bytes: {error}{hint}",
        cell.engine,
        cell.iodepth,
        cell.longest_op_bytes()
    )
}
