//! A request: a [`Job`] with lists, and the [`Cell`]s that it expands to. This module does not know how the
//! work is done.

pub use crate::cell::{share_a_file, Cell};
pub use crate::choice::{Base, Cache, EngineSpec, IoSize, Measure, Rates, Rw, Task};
use std::time::Duration;

/// A request with lists: every combination of them is a cell.
#[derive(Debug, Clone, PartialEq)]
pub struct Job {
    /// Engines.
    pub engine: Vec<EngineSpec>,
    /// Kinds of work.
    pub rw: Vec<Rw>,
    /// Sizes in bytes of the part of each job's file that is used.
    pub size: Vec<u64>,
    /// Sizes of one op in bytes.
    pub bs: Vec<u64>,
    /// Size of one write in bytes, if it differs from `bs`.
    pub bs_of_writes: Option<u64>,
    /// Numbers of ops in flight in each job.
    pub iodepth: Vec<u32>,
    /// Numbers of threads (of `psync-threads`: groups of them), each with a file and a depth of its own.
    pub numjobs: Vec<u32>,
    /// True to bypass the page cache.
    pub direct: Vec<bool>,
    /// Times that the submitter sleeps before it looks for completions.
    pub thinktime: Vec<Duration>,
    /// Upper bound on ops that are submitted together; 0: as many as possible.
    pub batch: u32,
    /// Upper bound on completions that are reaped together; 0: all that are ready.
    pub complete_max: u32,
    /// Number of writes of a job between two fsyncs; 0: no fsync.
    pub fsync: u32,
    /// True if the job ends with an fsync, within the measured time.
    pub end_fsync: bool,
    /// Share of reads in `randrw`, in percent.
    pub rwmixread: u8,
    /// Bytes of ops in a round of one job, if not `size`.
    pub io_size: Option<IoSize>,
    /// Number of times that a round repeats the work.
    pub loops: u64,
    /// Upper bounds on ops a second, for each job.
    pub rate_iops: Rates,
    /// Upper bound on the time of a round.
    pub runtime: Option<Duration>,
    /// True if the job starts over at the end of the file until `runtime` is over.
    pub time_based: bool,
    /// Time before measuring starts. With `time_based` only.
    pub ramp_time: Duration,
    /// State of the page cache before a buffered cell.
    pub cache: Cache,
    /// True if offsets are drawn independently, so that some come twice.
    pub norandommap: bool,
    /// True if every byte is checked.
    pub verify: bool,
    /// Number by which cells are compared.
    pub measure: Measure,
}

impl Job {
    /// Returns the usual job for a goal.
    pub fn of(task: Task) -> Job {
        let base = Job {
            engine: EngineSpec::usual(),
            rw: vec![Rw::RandRead],
            size: vec![512 << 20],
            bs: vec![4 << 10],
            bs_of_writes: None,
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
            rate_iops: Rates::default(),
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

    /// Returns every combination. `sync` has no depth, so it occurs once for all of them.
    pub fn cells(&self) -> Vec<Cell> {
        without_repeats(self.product())
    }

    /// Returns every combination of the lists. Jobs with lists of the same lengths have their cells in the
    /// same order.
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
        let of_writes = self.bs_of_writes.filter(|_| rw.writes()).unwrap_or(bs);
        let bs = if rw.is_mixed() { bs } else { of_writes };
        let rates = self.rate_iops;
        let only_writes = matches!(rw, Rw::Write | Rw::RandWrite);
        Cell {
            engine,
            rw,
            size,
            bs,
            bs_of_writes: Some(of_writes).filter(|of_writes| *of_writes != bs),
            iodepth: if has_depth { iodepth } else { 1 },
            numjobs,
            direct,
            thinktime_us: thinktime.as_micros() as u64,
            batch: self.batch,
            complete_max: self.complete_max,
            // In a matrix that also reads: cells that only read have nothing to sync.
            fsync: if rw.writes() { self.fsync } else { 0 },
            end_fsync: self.end_fsync && rw.writes(),
            rwmixread: self.rwmixread,
            io_bytes: self.io_bytes(rw, size, bs, of_writes),
            rate_iops: if only_writes { rates.writes } else { rates.reads },
            rate_iops_of_writes: rates.writes.filter(|_| rw.is_mixed()),
            others_write: false,
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

    /// Returns the bytes of a round, unless it goes through the file once.
    ///
    /// `time_based` ignores them, as in fio: a round then runs until the time is over.
    fn io_bytes(&self, rw: Rw, size: u64, bs: u64, of_writes: u64) -> Option<u64> {
        let (said, loops) = (self.io_size, self.loops);
        if self.time_based || (said.is_none() && loops == 1) {
            return None;
        }
        let once = match said {
            Some(io_size) => io_size.of(size),
            // A mixture ends when its reads and writes together make up the size.
            None if rw == Rw::Mixed || bs != of_writes || bs == 0 => size,
            // Each time the file ends with its last whole block.
            None => size / bs * bs,
        };
        Some(once.saturating_mul(loops))
    }
}

/// Removes repeated cells, keeping the first of each.
pub fn without_repeats<T: PartialEq>(cells: Vec<T>) -> Vec<T> {
    let mut seen: Vec<T> = Vec::new();
    for cell in cells {
        if !seen.contains(&cell) {
            seen.push(cell);
        }
    }
    seen
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
}
