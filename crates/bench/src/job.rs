//! What is asked: a [`Job`] with lists, and the [`Cell`]s that it expands to. Knows nothing of how it is done.

pub use crate::choice::{Base, EngineSpec, Measure, Rw, Task};
use crate::units;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// What a buffered cell finds in the page cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Cache {
    /// Nothing of the file (fio's `invalidate=1`).
    Dropped,
    /// All of the file (fio's `pre_read=1`).
    Warmed,
    /// Whatever the cell before has left (fio's `invalidate=0`).
    Left,
}

/// What is to be measured, with lists: every combination is a cell.
#[derive(Debug, Clone, PartialEq)]
pub struct Job {
    /// Engines.
    pub engine: Vec<EngineSpec>,
    /// What is done.
    pub rw: Vec<Rw>,
    /// Bytes of each job's file that are used.
    pub size: Vec<u64>,
    /// Bytes of one op.
    pub bs: Vec<u64>,
    /// Ops at once, for each job.
    pub iodepth: Vec<u32>,
    /// Threads (of `psync-threads`: groups of them), each with a file and a depth of its own.
    pub numjobs: Vec<u32>,
    /// Around the page cache.
    pub direct: Vec<bool>,
    /// How long the submitter sleeps before it looks for completions.
    pub thinktime: Vec<Duration>,
    /// The most ops that are submitted together; 0: all that can be.
    pub batch: u32,
    /// The most ops that are taken back together; 0: all that have come back.
    pub complete_max: u32,
    /// After this many writes of a job, an fsync; 0: never.
    pub fsync: u32,
    /// An fsync at the end, in the time that is told.
    pub end_fsync: bool,
    /// The share of reads in `randrw`, in percent.
    pub rwmixread: u8,
    /// Bytes of ops in a round of one job, if not `size`.
    pub io_size: Option<u64>,
    /// How often a round does all of that.
    pub loops: u64,
    /// The most ops a second, for each job.
    pub rate_iops: Option<u32>,
    /// The most time of a round.
    pub runtime: Option<Duration>,
    /// Go round the file until `runtime` is over.
    pub time_based: bool,
    /// Time before anything is measured. With `time_based` only.
    pub ramp_time: Duration,
    /// What a buffered cell finds.
    pub cache: Cache,
    /// Offsets drawn one by one, so that some come twice.
    pub norandommap: bool,
    /// Check every byte.
    pub verify: bool,
    /// By what to compare.
    pub measure: Measure,
}

impl Job {
    /// The usual answers for a task.
    pub fn of(task: Task) -> Job {
        let base = Job {
            engine: EngineSpec::usual(),
            rw: vec![Rw::RandRead],
            size: vec![512 << 20],
            bs: vec![4 << 10],
            iodepth: vec![64],
            numjobs: vec![1],
            direct: vec![true],
            thinktime: vec![Duration::ZERO],
            batch: 0,
            complete_max: 0,
            fsync: 0,
            end_fsync: false,
            rwmixread: 50,
            io_size: None,
            loops: 1,
            rate_iops: None,
            runtime: Some(Duration::from_secs(2)),
            time_based: true,
            ramp_time: Duration::ZERO,
            cache: Cache::Dropped,
            norandommap: false,
            verify: false,
            measure: Measure::Iops,
        };
        let whole = Job {
            runtime: None,
            time_based: false,
            ..base.clone()
        };
        match task {
            Task::Iops => base,
            Task::Latency => Job {
                iodepth: vec![1],
                measure: Measure::Latency,
                ..base
            },
            Task::Throughput => Job {
                rw: vec![Rw::Read, Rw::Write],
                bs: vec![1 << 20],
                measure: Measure::Bandwidth,
                ..whole
            },
            Task::Pressure => Job {
                rw: vec![Rw::Copy],
                bs: vec![32 << 10],
                measure: Measure::Time,
                ..whole
            },
        }
    }

    /// Every combination. `sync` has no depth, so it is there once for all of them.
    pub fn cells(&self) -> Vec<Cell> {
        without_repeats(self.product())
    }

    /// Every combination of the lists. Jobs with lists of the same lengths have their cells in the same order.
    pub fn product(&self) -> Vec<Cell> {
        let mut cells: Vec<Cell> = Vec::new();
        for &rw in &self.rw {
            for &direct in &self.direct {
                for &size in &self.size {
                    for &bs in &self.bs {
                        for &numjobs in &self.numjobs {
                            for &iodepth in &self.iodepth {
                                for &thinktime in &self.thinktime {
                                    cells.extend(self.engine.iter().map(|&engine| {
                                        self.cell(engine, rw, direct, size, bs, numjobs, iodepth, thinktime)
                                    }));
                                }
                            }
                        }
                    }
                }
            }
        }
        cells
    }

    #[allow(clippy::too_many_arguments)] // One for each list.
    fn cell(
        &self,
        engine: EngineSpec,
        rw: Rw,
        direct: bool,
        size: u64,
        bs: u64,
        numjobs: u32,
        iodepth: u32,
        thinktime: Duration,
    ) -> Cell {
        let has_depth = engine.base != Base::Sync;
        Cell {
            engine,
            rw,
            size,
            bs,
            iodepth: if has_depth { iodepth } else { 1 },
            numjobs,
            direct,
            thinktime_us: thinktime.as_micros() as u64,
            batch: self.batch,
            complete_max: self.complete_max,
            // Of a matrix that reads as well: what only reads has nothing to sync.
            fsync: if rw.writes() { self.fsync } else { 0 },
            end_fsync: self.end_fsync && rw.writes(),
            rwmixread: self.rwmixread,
            // As in fio, which goes on until the time is over, however many bytes that takes.
            io_bytes: (!self.time_based && (self.io_size.is_some() || self.loops != 1))
                .then(|| self.io_size.unwrap_or(size).saturating_mul(self.loops)),
            rate_iops: self.rate_iops,
            beside: Vec::new(),
            runtime_ms: self.runtime.map(|t| t.as_millis() as u64),
            time_based: self.time_based,
            ramp_ms: self.ramp_time.as_millis() as u64,
            cache: if direct { Cache::Dropped } else { self.cache },
            norandommap: self.norandommap,
            verify: self.verify,
            measure: self.measure,
        }
    }
}

/// Each once, where it came first.
pub fn without_repeats<T: PartialEq>(cells: Vec<T>) -> Vec<T> {
    let mut seen: Vec<T> = Vec::new();
    for cell in cells {
        if !seen.contains(&cell) {
            seen.push(cell);
        }
    }
    seen
}

/// `2 s`, `500 ms`.
fn told(time_ms: u64) -> String {
    match time_ms % 1000 {
        0 => format!("{} s", time_ms / 1000),
        _ => format!("{time_ms} ms"),
    }
}

/// One combination: what is measured in each round.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cell {
    /// The engine.
    pub engine: EngineSpec,
    /// What is done.
    pub rw: Rw,
    /// Bytes of each job's file that are used.
    pub size: u64,
    /// Bytes of one op.
    pub bs: u64,
    /// Ops at once, for each job; 1 for `sync`.
    pub iodepth: u32,
    /// Jobs beside each other.
    pub numjobs: u32,
    /// Around the page cache.
    pub direct: bool,
    /// How long the submitter sleeps before it looks for completions.
    pub thinktime_us: u64,
    /// The most ops that are submitted together; 0: all that can be.
    pub batch: u32,
    /// The most ops that are taken back together; 0: all that have come back.
    #[serde(default)]
    pub complete_max: u32,
    /// After this many writes of a job, an fsync; 0: never.
    pub fsync: u32,
    /// An fsync at the end.
    pub end_fsync: bool,
    /// The share of reads in `randrw`, in percent.
    pub rwmixread: u8,
    /// Bytes of ops in a round of one job, if not `size`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub io_bytes: Option<u64>,
    /// The most ops a second, for each job.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate_iops: Option<u32>,
    /// What other sections of a job file do at the same time, in words.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub beside: Vec<String>,
    /// The most time of a round.
    pub runtime_ms: Option<u64>,
    /// Go round the file until the time is over.
    pub time_based: bool,
    /// Time before anything is measured.
    pub ramp_ms: u64,
    /// What is in the page cache before.
    pub cache: Cache,
    /// Offsets drawn one by one.
    pub norandommap: bool,
    /// Check every byte.
    pub verify: bool,
    /// By what it is compared.
    pub measure: Measure,
}

impl Cell {
    /// Whether two cells do the same work, so that their engines can be compared. `sync` takes part at every depth.
    pub fn same_work(&self, other: &Cell) -> bool {
        let any_depth = [self, other].iter().any(|cell| cell.engine.base == Base::Sync);
        let alike = Cell {
            engine: other.engine,
            iodepth: if any_depth { other.iodepth } else { self.iodepth },
            ..self.clone()
        };
        alike == *other
    }

    /// The work without the engine, in one line. Other work has other words.
    pub fn work(&self) -> String {
        let mut text = format!(
            "{} {} of {}",
            self.rw,
            units::bytes(self.bs),
            units::bytes(self.size)
        );
        if self.rw.is_mixed() {
            text += &format!(" ({} % reads)", self.rwmixread);
        }
        text += &format!(", depth {}", self.iodepth);
        if self.numjobs > 1 {
            text += &format!(", {} jobs", self.numjobs);
        }
        text += match (self.direct, self.cache) {
            (true, _) => ", direct",
            (false, Cache::Dropped) => ", buffered, cache dropped",
            (false, Cache::Warmed) => ", buffered, cache warmed",
            (false, Cache::Left) => ", buffered, cache as it is",
        };
        if self.thinktime_us > 0 {
            text += &format!(", sleeping {} us", self.thinktime_us);
        }
        text += &match (self.batch, self.complete_max) {
            (0, 0) => String::new(),
            (1, 1) => ", one by one".to_owned(),
            (batch, 0) => format!(", batches of {batch}"),
            (0, most) => format!(", at most {most} taken back together"),
            (batch, most) => format!(", batches of {batch}, at most {most} taken back together"),
        };
        if self.fsync > 0 {
            text += &format!(", fsync every {}", self.fsync);
        }
        if self.end_fsync {
            text += ", fsync at the end";
        }
        if self.norandommap && self.rw.is_random() {
            text += ", offsets drawn one by one";
        }
        text += &match self.runtime_ms {
            Some(time) if self.time_based => format!(", for {}", told(time)),
            Some(time) => format!(", {} at most", told(time)),
            None => String::new(),
        };
        if self.ramp_ms > 0 {
            text += &format!(" after {}", told(self.ramp_ms));
        }
        if let Some(bytes) = self.io_bytes {
            text += &format!(", {} in all", units::bytes(bytes));
        }
        if let Some(rate) = self.rate_iops {
            text += &format!(", {rate} ops a second at most");
        }
        if self.verify {
            text += ", verified";
        }
        if !self.beside.is_empty() {
            text += &format!(", at once with {}", self.beside.join(" and with "));
        }
        text
    }

    /// Ops of one job in a round that nothing cuts short: each block once, unless `io_bytes` says otherwise. Copying one
    /// block is one.
    pub fn ops_a_job(&self) -> u64 {
        self.io_bytes.unwrap_or(self.size) / self.bs
    }

    /// As many ops as can be in flight in one job: a round that ends with its blocks has no more than these.
    pub fn reachable_depth(&self) -> u32 {
        match self.time_based {
            true => self.iodepth,
            false => u32::try_from(self.ops_a_job()).map_or(self.iodepth, |ops| ops.min(self.iodepth)),
        }
    }

    /// Whether a read may be in flight together with a write of the same block, so that what it brings cannot be checked:
    /// in a mixture in order each way goes through the file by itself, the two side by side.
    pub fn reads_meet_writes(&self) -> bool {
        self.rw == Rw::Mixed && self.reachable_depth() > 1
    }

    /// How long a round takes at least, as far as it can be known.
    pub fn planned(&self) -> Option<Duration> {
        let runtime = self.runtime_ms.filter(|_| self.time_based)?;
        Some(Duration::from_millis(runtime.saturating_add(self.ramp_ms)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_matrix() {
        let mut job = Job::of(Task::Iops);
        job.iodepth = vec![1, 16];
        job.bs = vec![4096, 8192];
        let cells = job.cells();
        // Four engines with a depth, and sync without.
        assert_eq!(cells.len(), 4 * 2 * 2 + 2);
        assert!(cells
            .iter()
            .all(|c| c.engine.base != Base::Sync || c.iodepth == 1));
    }

    #[test]
    fn what_only_reads_syncs_nothing() {
        let mut job = Job::of(Task::Throughput);
        (job.fsync, job.end_fsync) = (4, true);
        for cell in job.cells() {
            let writes = cell.rw == Rw::Write;
            assert_eq!((cell.fsync, cell.end_fsync), (if writes { 4 } else { 0 }, writes));
        }
    }

    #[test]
    fn reads_beside_writes_of_their_block() {
        let mut cell = Job::of(Task::Iops).cells().remove(1);
        for (rw, iodepth, met) in [
            (Rw::Mixed, 4, true),
            (Rw::Mixed, 1, false),
            (Rw::RandRw, 4, false),
            (Rw::Read, 4, false),
        ] {
            (cell.rw, cell.iodepth) = (rw, iodepth);
            assert_eq!(cell.reads_meet_writes(), met, "{rw:?} at depth {iodepth}");
        }
    }

    #[test]
    fn other_work_has_other_words() {
        let cell = Job::of(Task::Iops).cells().remove(1);
        let changes: [fn(&mut Cell); 6] = [
            |cell| cell.runtime_ms = Some(500),
            |cell| cell.runtime_ms = None,
            |cell| cell.time_based = false,
            |cell| cell.ramp_ms = 1,
            |cell| cell.norandommap = true,
            |cell| cell.end_fsync = true,
        ];
        let changed = changes.map(|change| {
            let mut other = cell.clone();
            change(&mut other);
            other.work()
        });
        let words: std::collections::BTreeSet<_> = changed.iter().cloned().chain([cell.work()]).collect();
        assert_eq!(words.len(), changes.len() + 1, "{words:?}");
    }

    #[test]
    fn what_is_compared() {
        let mut job = Job::of(Task::Iops);
        job.iodepth = vec![1, 16];
        let cells = job.cells();
        let of = |base, depth| {
            let found = cells.iter().find(|c| c.engine.base == base && c.iodepth == depth);
            found.unwrap()
        };
        assert!(of(Base::IoUring, 16).same_work(of(Base::LinuxAio, 16)));
        assert!(!of(Base::IoUring, 16).same_work(of(Base::LinuxAio, 1)));
        assert!(of(Base::IoUring, 16).same_work(of(Base::Sync, 1)));
        assert!(of(Base::Sync, 1).same_work(of(Base::IoUring, 16)));
    }
}
