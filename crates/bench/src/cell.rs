//! A [`Cell`]: one combination of the options, which is measured in each round. This module does not know how
//! the work is done.

use crate::choice::{Base, Cache, EngineSpec, Measure, Rw};
use crate::units;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// Formats a time as `2 s` or `500 ms`.
fn formatted(time_ms: u64) -> String {
    match time_ms % 1000 {
        0 => format!("{} s", time_ms / 1000),
        _ => format!("{time_ms} ms"),
    }
}

/// Notes that these cells, which run at once, work in one file.
pub fn share_a_file(group: &mut [Cell]) {
    let writers = |cell: &Cell| match cell.rw.writes() && cell.rw != Rw::Copy {
        true => cell.numjobs,
        false => 0,
    };
    let all: u32 = group.iter().map(writers).fold(0, u32::saturating_add);
    for cell in group {
        cell.others_write = all > writers(cell).min(1);
    }
}

/// One combination of the options, which is measured in each round.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cell {
    /// The engine.
    pub engine: EngineSpec,
    /// Kind of work.
    pub rw: Rw,
    /// Size in bytes of the part of each job's file that is used.
    pub size: u64,
    /// Size of one op in bytes.
    pub bs: u64,
    /// Size of one write of a mixture in bytes, if not `bs`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bs_of_writes: Option<u64>,
    /// Number of ops in flight in each job; 1 for `sync`.
    pub iodepth: u32,
    /// Number of jobs that run at once.
    pub numjobs: u32,
    /// True if the page cache is bypassed.
    pub direct: bool,
    /// Time that the submitter sleeps before it looks for completions.
    pub thinktime_us: u64,
    /// Upper bound on ops that are submitted together; 0: as many as possible.
    pub batch: u32,
    /// Upper bound on completions that are reaped together; 0: all that are ready.
    #[serde(default)]
    pub complete_max: u32,
    /// Number of writes of a job between two fsyncs; 0: no fsync.
    pub fsync: u32,
    /// True if the job ends with an fsync.
    pub end_fsync: bool,
    /// Share of reads in `randrw`, in percent.
    pub rwmixread: u8,
    /// Bytes of ops in a round of one job, if not `size`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub io_bytes: Option<u64>,
    /// Upper bound on ops a second, for each job; of a mixture, on reads.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate_iops: Option<u32>,
    /// Upper bound on writes a second of a mixture.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate_iops_of_writes: Option<u32>,
    /// True if another job or section writes to the same file at the same time.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub others_write: bool,
    /// Description of the other sections of a job file that run at the same time.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub beside: Vec<String>,
    /// Upper bound on the time of a round.
    pub runtime_ms: Option<u64>,
    /// True if the job starts over at the end of the file until the time is over.
    pub time_based: bool,
    /// Time before measuring starts.
    pub ramp_ms: u64,
    /// State of the page cache before the round.
    pub cache: Cache,
    /// True if offsets are drawn independently.
    pub norandommap: bool,
    /// True if every byte is checked.
    pub verify: bool,
    /// Number by which cells are compared.
    pub measure: Measure,
}

impl Cell {
    /// Returns true if two cells do the same work, so that their engines can be compared. `sync` takes part
    /// at every depth.
    pub fn same_work(&self, other: &Cell) -> bool {
        let any_depth = [self, other].iter().any(|cell| cell.engine.base == Base::Sync);
        let alike = Cell {
            engine: other.engine,
            iodepth: if any_depth { other.iodepth } else { self.iodepth },
            ..self.clone()
        };
        alike == *other
    }

    /// Describes the work without the engine, in one line. Different work has different words.
    pub fn work(&self) -> String {
        let mut text = format!(
            "{} {} of {}",
            self.rw,
            self.block_sizes(),
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
            Some(time) if self.time_based => format!(", for {}", formatted(time)),
            Some(time) => format!(", {} at most", formatted(time)),
            None => String::new(),
        };
        if self.ramp_ms > 0 {
            text += &format!(" after {}", formatted(self.ramp_ms));
        }
        if let Some(bytes) = self.io_bytes {
            text += &format!(", {} in all", units::bytes(bytes));
        }
        text += &match (self.rate_iops, self.rate_iops_of_writes) {
            (None, None) => String::new(),
            (Some(rate), _) if !self.rw.is_mixed() => format!(", {rate} ops a second at most"),
            (reads, writes) => {
                let rate = |rate: Option<u32>, way| rate.map(|rate| format!("{rate} {way}"));
                let rates: Vec<String> = [rate(reads, "reads"), rate(writes, "writes")]
                    .into_iter()
                    .flatten()
                    .collect();
                format!(", {} a second at most", rates.join(" and "))
            }
        };
        text += match (self.verify, self.reads_meet_writes(), self.rw.writes()) {
            (false, ..) => "",
            (true, false, _) => ", verified",
            (true, true, true) => ", writes verified",
            (true, true, false) => ", not verified",
        };
        if !self.beside.is_empty() {
            text += &format!(", at once with {}", self.beside.join(" and with "));
        }
        text
    }

    /// Formats the block sizes as fio's `bs` does: `4k`, or `4k,16k` for reads and writes.
    pub fn block_sizes(&self) -> String {
        match self.bs_of_writes {
            Some(of_writes) => format!("{},{}", units::bytes(self.bs), units::bytes(of_writes)),
            None => units::bytes(self.bs),
        }
    }

    /// Returns the size of one write in bytes.
    pub fn write_bytes(&self) -> u64 {
        self.bs_of_writes.unwrap_or(self.bs)
    }

    /// Returns the size of the longest op in bytes.
    pub fn longest_op_bytes(&self) -> u64 {
        self.bs.max(self.write_bytes())
    }

    /// Returns true if reads and writes go through the file separately, so that each has block numbers of its
    /// own.
    pub fn ways_are_apart(&self) -> bool {
        match self.rw {
            Rw::Mixed => true,
            Rw::RandRw => self.bs_of_writes.is_some() || self.has_rates_of_a_mixture(),
            _ => false,
        }
    }

    /// Returns true if rates decide whether a read or a write comes next.
    pub fn has_rates_of_a_mixture(&self) -> bool {
        self.rw.is_mixed() && self.has_rate()
    }

    /// Returns the bytes of ops of one job in a round that nothing cuts short.
    pub fn bytes_a_job(&self) -> u64 {
        match self.io_bytes {
            Some(bytes) => bytes,
            None if self.ways_are_apart() => self.size,
            None => self.size / self.bs * self.bs,
        }
    }

    /// Returns an upper bound on the ops of one job in a round that nothing cuts short. A mixture with two
    /// block sizes has fewer. The last op may go beyond `io_bytes`, as fio's does. Copying a block is one op.
    pub fn ops_a_job(&self) -> u64 {
        self.bytes_a_job().div_ceil(self.bs.min(self.write_bytes()))
    }

    /// Returns an upper bound on the ops in flight in one job: a round that ends with its blocks has no more.
    pub fn reachable_depth(&self) -> u32 {
        match self.time_based {
            true => self.iodepth,
            false => u32::try_from(self.ops_a_job()).map_or(self.iodepth, |ops| ops.min(self.iodepth)),
        }
    }

    /// Returns true if a read may be in flight together with a write of the same block, so that its bytes
    /// cannot be checked.
    ///
    /// This happens where others write to the file. In a mixture it also happens where reads and writes go
    /// through the file separately, where offsets are drawn independently, and where the file is gone through
    /// again.
    pub fn reads_meet_writes(&self) -> bool {
        let comes_twice =
            self.norandommap || self.time_based || self.io_bytes.is_some_and(|bytes| bytes > self.size);
        let meets_its_own = self.rw.is_mixed() && self.reachable_depth() > 1;
        (self.others_write && self.rw.reads()) || (meets_its_own && (self.ways_are_apart() || comes_twice))
    }

    /// Returns true if `rate_iops` bounds a rate of this cell.
    pub fn has_rate(&self) -> bool {
        self.rate_iops.is_some() || self.rate_iops_of_writes.is_some()
    }

    /// Returns a lower bound on the time of a round, as far as it can be known.
    pub fn planned(&self) -> Option<Duration> {
        let runtime = self.runtime_ms.filter(|_| self.time_based)?;
        Some(Duration::from_millis(runtime.saturating_add(self.ramp_ms)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::{IoSize, Job, Task};

    #[test]
    fn reads_beside_writes_of_their_block() {
        let mut cell = Job::of(Task::Iops).cells().remove(1);
        cell.time_based = false;
        let met = |change: fn(&mut Cell)| {
            let mut other = cell.clone();
            (other.rw, other.iodepth) = (Rw::RandRw, 4);
            change(&mut other);
            other.reads_meet_writes()
        };
        assert!(!met(|_| ()));
        assert!(!met(|cell| cell.rw = Rw::Read));
        assert!(met(|cell| cell.rw = Rw::Mixed));
        assert!(!met(|cell| (cell.rw, cell.iodepth) = (Rw::Mixed, 1)));
        assert!(met(|cell| cell.norandommap = true));
        assert!(met(|cell| cell.time_based = true));
        assert!(met(|cell| cell.io_bytes = Some(2 * cell.size)));
        assert!(met(|cell| cell.bs_of_writes = Some(2 * cell.bs)));
        assert!(met(|cell| cell.rate_iops = Some(100)));
        assert!(met(|cell| cell.others_write = true));
        assert!(met(|cell| (cell.rw, cell.others_write) = (Rw::Read, true)));
        assert!(!met(|cell| (cell.rw, cell.others_write) = (Rw::Write, true)));
    }

    #[test]
    fn others_that_write_to_the_one_file() {
        let cell = |rw, numjobs| Cell {
            rw,
            numjobs,
            ..Job::of(Task::Iops).cells().remove(0)
        };
        let others_write = |mut group: Vec<Cell>| -> Vec<bool> {
            share_a_file(&mut group);
            group.iter().map(|cell| cell.others_write).collect()
        };
        assert_eq!(others_write(vec![cell(Rw::RandRw, 1)]), [false]);
        assert_eq!(others_write(vec![cell(Rw::RandRw, 2)]), [true]);
        assert_eq!(
            others_write(vec![cell(Rw::Read, 2), cell(Rw::Write, 1)]),
            [true, false]
        );
        // A copy writes to a file of its own.
        assert_eq!(
            others_write(vec![cell(Rw::Read, 1), cell(Rw::Copy, 2)]),
            [false, false]
        );
    }

    /// Number of ops that fio 3.33 did with each job.
    #[test]
    fn as_many_ops_as_fio_does() {
        let k = |kilobytes: u64| Some(IoSize::Bytes(kilobytes << 10));
        for (rw, bs, size, io_size, loops, ops) in [
            (Rw::Read, 16, 100, None, 1, 6),
            (Rw::Read, 16, 100, None, 3, 18),
            (Rw::Read, 60, 100, None, 3, 3),
            (Rw::Read, 16, 100, k(250), 1, 16),
            (Rw::RandRead, 4, 100, k(10), 1, 3),
            (Rw::RandRead, 4, 100, Some(IoSize::Percent(50)), 1, 13),
            (Rw::Write, 4, 100, Some(IoSize::Percent(50)), 3, 38),
            (Rw::Mixed, 16, 100, None, 1, 7),
            (Rw::Mixed, 16, 100, None, 2, 13),
            (Rw::RandRw, 16, 100, None, 1, 6),
            (Rw::RandRw, 16, 100, None, 2, 12),
        ] {
            let job = Job {
                rw: vec![rw],
                bs: vec![bs << 10],
                size: vec![size << 10],
                io_size,
                loops,
                ..Job::of(Task::Throughput)
            };
            let found = job.cells()[0].ops_a_job();
            assert_eq!(found, ops, "{rw} {bs}k of {size}k, {io_size:?}, {loops} times");
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
