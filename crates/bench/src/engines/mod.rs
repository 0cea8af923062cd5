//! One cell's ops, on its threads.
//!
//! Every thread makes ready, meets the others at the [`Gate`], works, and waits there again before it lets go of anything:
//! between those two meetings nothing is set up and nothing is torn down, and each thread is still there to be asked what
//! it has used.

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
use proactor::buffer::AlignedBuf;
use queue::Queue;
use raw_aio::RawAio;
use raw_posix::RawPosix;
use raw_uring::RawUring;
use std::fs::File;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Buffers start at a multiple of this, which serves O_DIRECT on every device.
const ALIGNMENT: usize = 4096;

/// One thread's part of a cell.
pub struct Part<'a> {
    /// What to do.
    pub cell: &'a Cell,
    /// The job's ops.
    pub sequence: &'a Sequence,
    /// What the threads of the job have in common.
    pub shared: &'a Shared,
    /// Read from, or written to; copied from.
    pub source: &'a File,
    /// Copied to.
    pub destination: Option<&'a File>,
    /// Of the contents.
    pub seed: u64,
    /// What is written in this round is stamped with.
    pub generation: u64,
    /// Where the threads meet.
    pub gate: &'a Gate,
    /// Whether to end early.
    pub stop: &'a AtomicBool,
}

/// What one thread has done.
#[derive(Debug)]
pub struct Outcome {
    /// What was read.
    pub reads: Tally,
    /// What was written.
    pub writes: Tally,
    /// Syncs that came back within the time that is told.
    pub fsyncs: u64,
    /// How often ops were handed over: once for all that go together, where the engine takes more than one at a time.
    pub submissions: u64,
    /// How many ops were in flight in this thread.
    pub depth: Depth,
    /// When the first op could begin.
    pub began: Instant,
    /// When the last op had come back.
    pub ended: Instant,
}

/// Threads that a job of this cell has: no more than can have an op at once.
pub fn threads_a_job(cell: &Cell) -> u32 {
    match cell.engine.base {
        Base::PsyncThreads => cell.reachable_depth(),
        _ => 1,
    }
}

/// Does one thread's part. None if another thread could not be made ready.
///
/// # Errors
/// What failed, in words.
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

/// Memory for an op, of the size that was asked for.
fn zeroed(bytes: usize) -> Result<AlignedBuf, String> {
    AlignedBuf::try_zeroed(bytes, ALIGNMENT).ok_or_else(|| {
        format!("no memory for another buffer of {bytes} bytes: take a smaller --bs or --iodepth")
    })
}

impl Part<'_> {
    /// A block of memory for each slot, with contents.
    fn buffers(&self) -> Result<Vec<AlignedBuf>, String> {
        let block = |slot| {
            let bytes = self.cell.longest_op_bytes();
            let mut buffer = zeroed(bytes as usize)?;
            data::fill(&mut buffer, self.seed, self.generation, slot * bytes);
            Ok(buffer)
        };
        (0..u64::from(self.cell.reachable_depth())).map(block).collect()
    }

    /// How many completions are taken back together at most.
    fn most(&self) -> usize {
        match self.cell.complete_max {
            0 => usize::MAX,
            most => most as usize,
        }
    }

    /// Makes a buffer ready to be written.
    fn fill(&self, buffer: &mut [u8], offset: u64) {
        if self.cell.verify {
            data::fill(buffer, self.seed, self.generation, offset);
        }
    }

    /// Looks at what was read.
    fn check(&self, buffer: &[u8], offset: u64) -> Result<(), String> {
        // The kernel may copy a sector while the device or another thread writes it: half of it is old then.
        if !self.cell.verify || self.cell.reads_meet_writes() {
            return Ok(());
        }
        data::check(buffer, self.seed, 0..=self.generation, offset)
            .map_err(|wrong| format!("wrong bytes at offset {} of what was read", wrong.offset))
    }

    /// A write has completed: whether there is an fsync after this one.
    fn is_sync_due(&self) -> bool {
        let each = u64::from(self.cell.fsync);
        each > 0 && (self.shared.written.fetch_add(1, Ordering::Relaxed) + 1).is_multiple_of(each)
    }

    /// The file that is written to.
    fn written(&self) -> &File {
        self.destination.unwrap_or(self.source)
    }

    /// The last thing in a job's time, where it is asked for: by the last of its threads.
    fn end(&self) -> Result<u64, String> {
        let is_last = self.shared.working.fetch_sub(1, Ordering::Relaxed) == 1;
        if !(is_last && self.cell.end_fsync && self.cell.rw.writes()) {
            return Ok(0);
        }
        rustix::fs::fsync(self.written()).map_err(|e| format!("fsync at the end: {e}"))?;
        Ok(1)
    }
}

/// Between two looks whether to end early.
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

/// An op that failed, or came back with fewer bytes than it has.
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
