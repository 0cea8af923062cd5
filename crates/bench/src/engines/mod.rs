//! The ops of one cell, on its threads.
//!
//! Every thread sets up, meets the others at the [`Gate`], works, and waits there again before it frees
//! anything. Between those two meetings nothing is set up or torn down, and each thread still exists, so that
//! its usage can be read.

mod claim;
mod driver;
mod gate;
mod plain;
mod queue;
mod raw_aio;
mod raw_posix;
mod raw_uring;

pub use claim::Shared;
pub(crate) use driver::config;
pub use gate::{Gate, Times};

use crate::data;
use crate::job::{Base, Cell};
use crate::report::Depth;
use crate::tally::Tally;
use crate::work::{Direction, Sequence};
use driver::OnDriver;
use proactor_engine::buffer::AlignedBuf;
use queue::Queue;
use raw_aio::RawAio;
use raw_posix::RawPosix;
use raw_uring::RawUring;
use std::fs::File;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Alignment of buffers, which serves O_DIRECT on every device.
const ALIGNMENT: usize = 4096;

/// Part of a cell that one thread does.
pub struct Part<'a> {
    /// Cell to do.
    pub cell: &'a Cell,
    /// Ops of the job.
    pub sequence: &'a Sequence,
    /// State that the threads of the job share.
    pub shared: &'a Shared,
    /// File to read from or write to; the source of a copy.
    pub source: &'a File,
    /// Target of a copy.
    pub destination: Option<&'a File>,
    /// Seed of the contents.
    pub seed: u64,
    /// Generation that is stamped on what is written in this round.
    pub generation: u64,
    /// Meeting point of the threads.
    pub gate: &'a Gate,
    /// True if the work is to end early.
    pub stop: &'a AtomicBool,
}

/// Result of one thread.
#[derive(Debug)]
pub struct Outcome {
    /// Tally of reads.
    pub reads: Tally,
    /// Tally of writes.
    pub writes: Tally,
    /// Number of syncs that completed within the measured time.
    pub fsyncs: u64,
    /// Number of submissions: one for all ops that are submitted together, where the engine takes more than
    /// one at a time.
    pub submissions: u64,
    /// Number of ops in flight in this thread.
    pub depth: Depth,
    /// Time at which the first op could begin.
    pub began: Instant,
    /// Time at which the last op had completed.
    pub ended: Instant,
}

/// Returns the number of threads of a job of this cell: no more than can have an op at once.
pub fn threads_a_job(cell: &Cell) -> u32 {
    match cell.engine.base {
        Base::PsyncThreads => cell.reachable_depth(),
        _ => 1,
    }
}

/// Does one thread's part. `None` if another thread could not be set up.
///
/// # Errors
/// A sentence that says what failed.
pub fn work(part: &Part<'_>) -> Result<Option<Outcome>, String> {
    let _present = part.gate.enter();
    match part.cell.engine.base {
        Base::Sync | Base::PsyncThreads => between_the_gates(part, plain::Plain::ready(part)),
        Base::PosixAio if part.cell.engine.raw => between_the_gates(part, Queue::<RawPosix>::ready(part)),
        Base::IoUring if part.cell.engine.raw => between_the_gates(part, Queue::<RawUring>::ready(part)),
        _ if part.cell.engine.raw => between_the_gates(part, Queue::<RawAio>::ready(part)),
        _ => between_the_gates(part, Queue::<OnDriver>::ready(part)),
    }
}

trait Worker {
    fn run(&mut self, part: &Part<'_>, times: &Times) -> Result<Outcome, String>;
}

fn between_the_gates<W: Worker>(
    part: &Part<'_>,
    ready: Result<W, String>,
) -> Result<Option<Outcome>, String> {
    let start = part.gate.ready(ready.is_ok());
    let times = start.map(|start| Times::of(start, part.cell));
    let done = match (ready, times) {
        (Ok(mut worker), Some(times)) => {
            let outcome = worker.run(part, &times);
            part.gate.done();
            drop(worker);
            return outcome.map(Some);
        }
        (Ok(_), None) => Ok(None),
        (Err(e), _) => Err(e),
    };
    part.gate.done();
    done
}

/// Allocates memory for an op.
fn zeroed(bytes: usize) -> Result<AlignedBuf, String> {
    AlignedBuf::try_zeroed(bytes, ALIGNMENT).ok_or_else(|| {
        format!("no memory for another buffer of {bytes} bytes: take a smaller --bs or --iodepth")
    })
}

impl Part<'_> {
    /// Allocates a block of memory for each slot, with contents.
    fn buffers(&self) -> Result<Vec<AlignedBuf>, String> {
        let block = |slot| {
            let bytes = self.cell.longest_op_bytes();
            let mut buffer = zeroed(bytes as usize)?;
            data::fill(&mut buffer, self.seed, self.generation, slot * bytes);
            Ok(buffer)
        };
        (0..u64::from(self.cell.reachable_depth())).map(block).collect()
    }

    /// Returns an upper bound on completions that are reaped together.
    fn most(&self) -> usize {
        match self.cell.complete_max {
            0 => usize::MAX,
            most => most as usize,
        }
    }

    /// Fills a buffer that is to be written.
    fn fill(&self, buffer: &mut [u8], offset: u64) {
        if self.cell.verify {
            data::fill(buffer, self.seed, self.generation, offset);
        }
    }

    /// Checks what was read.
    fn check(&self, buffer: &[u8], offset: u64) -> Result<(), String> {
        // The kernel may copy a sector while the device or another thread writes it: half of it is old then.
        if !self.cell.verify || self.cell.reads_meet_writes() {
            return Ok(());
        }
        data::check(buffer, self.seed, 0..=self.generation, offset)
            .map_err(|wrong| format!("wrong bytes at offset {} of what was read", wrong.offset))
    }

    /// Records a write that has completed, and returns true if an fsync follows it.
    fn is_sync_due(&self) -> bool {
        let each = u64::from(self.cell.fsync);
        each > 0 && (self.shared.written.fetch_add(1, Ordering::Relaxed) + 1).is_multiple_of(each)
    }

    /// Returns the file that is written to.
    fn written(&self) -> &File {
        self.destination.unwrap_or(self.source)
    }

    /// Does the fsync at the end of a job, where it is asked for, on the last of its threads.
    fn end(&self) -> Result<u64, String> {
        let is_last = self.shared.working.fetch_sub(1, Ordering::Relaxed) == 1;
        if !(is_last && self.cell.end_fsync && self.cell.rw.writes()) {
            return Ok(0);
        }
        rustix::fs::fsync(self.written()).map_err(|e| format!("fsync at the end: {e}"))?;
        Ok(1)
    }
}

/// Interval between two checks of `stop`.
const LOOK: Duration = Duration::from_millis(50);

/// Sleeps, or less when `stop` becomes true.
pub(crate) fn sleep(time: Duration, stop: &AtomicBool) {
    let begun = Instant::now();
    while !stop.load(Ordering::Relaxed) {
        let left = time.saturating_sub(begun.elapsed());
        if left.is_zero() {
            break;
        }
        std::thread::sleep(left.min(LOOK));
    }
}

/// Describes an op that failed, or completed with fewer bytes than it has.
fn complaint(direction: Direction, offset: u64, outcome: io::Result<usize>) -> String {
    let name = match direction {
        Direction::Read => "read",
        Direction::Write | Direction::Copy => "write",
    };
    match outcome {
        Ok(count) => format!("{name} at offset {offset}: only {count} bytes"),
        Err(e) => format!("{name} at offset {offset}: {e}"),
    }
}
