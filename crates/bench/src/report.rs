//! The outcome of a benchmark as plain data, which is written as JSON and read back.

use crate::cache::Resident;
use crate::counters::{Calls, Seen};
use crate::environment::Environment;
use crate::job::{Cache, Measure};
use crate::stats::Spread;
use crate::subject::Subject;
use crate::tally::Tally;
use crate::usage::Used;
use crate::verdict::{less_is_better, Verdict};
use serde::{Deserialize, Serialize};

/// What the file says first. A change that an older reader would misread gets another number.
pub const FORMAT: &str = "proactor-bench-1";

/// All that was measured.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// [`FORMAT`].
    pub format: String,
    /// The command, to repeat it.
    pub command: Vec<String>,
    /// When it began, in UTC.
    pub started: String,
    /// Seconds it took, with all that was made ready.
    pub took_s: f64,
    /// Where the offsets and contents come from.
    pub seed: u64,
    /// Rounds that were asked for.
    pub rounds: u32,
    /// Whether it was ended early: cells then have fewer rounds, or none.
    pub interrupted: bool,
    /// The machine.
    pub environment: Environment,
    /// Engines that do not work here, and why.
    pub left_out: Vec<String>,
    /// How system calls were counted: `perf`, `bpf` or `none`.
    pub counters: String,
    /// What these counters could not see, or why there were none.
    pub not_seen: Vec<String>,
    /// What was measured.
    pub cells: Vec<CellReport>,
    /// What it means.
    pub verdicts: Vec<Verdict>,
}

/// One cell.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CellReport {
    /// What it is.
    pub cell: Subject,
    /// Each round.
    pub rounds: Vec<Round>,
    /// How long reads took, in all rounds together.
    pub read_latency: Option<Distribution>,
    /// How long writes took, in all rounds together.
    pub write_latency: Option<Distribution>,
    /// System calls, from a round of its own.
    pub counted: Option<Counted>,
    /// Why there is nothing more.
    pub failed: Option<String>,
}

/// One round of a cell.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Round {
    /// From the first op's start to the last one's end.
    pub elapsed_s: f64,
    /// Reads.
    pub read: Way,
    /// Writes.
    pub write: Way,
    /// Both.
    pub all: Way,
    /// Syncs.
    pub fsyncs: u64,
    /// How often ops were handed over to the engine, many together or one by one; None of what is no engine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub submissions: Option<u64>,
    /// How many ops were in flight when one began; None of what is no engine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub depth: Option<Depth>,
    /// Of all that ran at once, itself included; None if nothing did. `used` is of all of that then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub together: Option<Together>,
    /// What it cost.
    pub used: Used,
    /// What the page cache had of the files before.
    pub resident_before: Option<Resident>,
    /// And after.
    pub resident_after: Option<Resident>,
    /// How late an event loop ran what was due, at most; None without a loop.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub late_max_s: Option<f64>,
    /// Requests to a server that were due and had no answer at the end; None where requests are not due by the clock.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unanswered: Option<u64>,
}

/// Of all cells that ran at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Together {
    /// Ops.
    pub ios: u64,
    /// Bytes that were read.
    pub read_bytes: u64,
}

/// How many ops were in flight, each counted when it began, with itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Depth {
    /// The most that were in flight at once, all jobs of the cell together.
    pub most: u64,
    /// Ops that began with so many in flight: 1, 2 to 3, 4 to 7, 8 to 15, 16 to 31, 32 to 63, 64 and more in one job.
    /// An op of a plain call has none beside it in its thread.
    pub levels: [u64; DEPTH_LEVELS],
}

/// The classes of [`Depth::levels`], which are fio's `iodepth_level`.
pub const DEPTH_LEVELS: usize = 7;

impl Depth {
    /// An op began, and so many are in flight with it.
    pub fn record(&mut self, in_flight: u64) {
        assert!(in_flight > 0, "the op itself is in flight");
        self.most = self.most.max(in_flight);
        self.levels[(in_flight.ilog2() as usize).min(DEPTH_LEVELS - 1)] += 1;
    }
}

/// Ops of one direction.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct Way {
    /// Ops.
    pub ios: u64,
    /// Bytes.
    pub bytes: u64,
    /// Ops a second.
    pub iops: f64,
    /// Bytes a second.
    pub bytes_per_s: f64,
    /// The mean time of an op.
    pub mean_s: f64,
    /// Half of the ops took at most this long.
    pub p50_s: f64,
    /// 90 percent of them.
    pub p90_s: f64,
    /// 99 percent.
    pub p99_s: f64,
    /// 99.9 percent.
    pub p999_s: f64,
    /// All of them.
    pub max_s: f64,
}

/// How long ops took.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Distribution {
    /// Ops.
    pub ios: u64,
    /// Their mean.
    pub mean_s: f64,
    /// Their standard deviation.
    pub deviation_s: f64,
    /// The shortest.
    pub min_s: f64,
    /// Percentile and seconds.
    pub percentiles: Vec<(f64, f64)>,
    /// fio's classes: ops that took less than so many nanoseconds, and no less than the bound before. What is left of
    /// `ios` took longer than all of them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub classes: Vec<(u64, u64)>,
}

/// System calls of a round that was counted.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Counted {
    /// Reads and writes in it.
    pub ios: u64,
    /// How long it took: longer than a round without counting.
    pub elapsed_s: f64,
    /// What was counted.
    pub calls: Calls,
    /// What BPF has seen, where that was used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seen: Option<Seen>,
}

impl Counted {
    /// System calls for each read or write.
    pub fn per_op(&self) -> f64 {
        self.calls.total as f64 / self.ios.max(1) as f64
    }
}

/// What came from memory, of all that was to come from a device, is told above this share: a few pages do not matter.
pub const MEMORY_SHARE: f64 = 0.1;

/// A percentile needs so many ops, or it is the longest of them.
pub fn ops_needed(percentile: f64) -> u64 {
    (100.0 / (100.0 - percentile)).round() as u64
}

/// As fio's, with more at the ends.
const PERCENTILES: &[f64] = &[
    1.0, 5.0, 10.0, 20.0, 30.0, 40.0, 50.0, 60.0, 70.0, 80.0, 90.0, 95.0, 99.0, 99.5, 99.9, 99.95, 99.99,
    100.0,
];

/// Upper bounds of fio's classes, in nanoseconds, microseconds and milliseconds; the last are followed by two seconds.
const CLASS_BOUNDS: [u64; 10] = [2, 4, 10, 20, 50, 100, 250, 500, 750, 1000];

fn classes(tally: &Tally) -> Vec<(u64, u64)> {
    let units = [1, 1_000, 1_000_000];
    let bounds = units
        .iter()
        .flat_map(|unit| CLASS_BOUNDS.map(|bound| bound * unit))
        .chain([2_000_000_000]);
    tally.classes(&bounds.collect::<Vec<_>>())
}

impl Way {
    /// So much, over this time, of which no op has a time of its own.
    pub fn counted(ios: u64, bytes: u64, elapsed_s: f64) -> Way {
        let rate = |count: u64| {
            if elapsed_s > 0.0 {
                count as f64 / elapsed_s
            } else {
                0.0
            }
        };
        Way {
            ios,
            bytes,
            iops: rate(ios),
            bytes_per_s: rate(bytes),
            ..Way::default()
        }
    }

    /// From a tally, over this time.
    pub fn of(tally: &Tally, elapsed_s: f64) -> Way {
        Way {
            mean_s: tally.mean(),
            p50_s: tally.quantile(0.5),
            p90_s: tally.quantile(0.9),
            p99_s: tally.quantile(0.99),
            p999_s: tally.quantile(0.999),
            max_s: tally.quantile(1.0),
            ..Way::counted(tally.ios, tally.bytes, elapsed_s)
        }
    }
}

impl Distribution {
    /// None without an op.
    pub fn of(tally: &Tally) -> Option<Distribution> {
        (tally.ios > 0).then(|| Distribution {
            ios: tally.ios,
            mean_s: tally.mean(),
            deviation_s: tally.deviation(),
            min_s: tally.min(),
            percentiles: PERCENTILES
                .iter()
                .map(|p| (*p, tally.quantile(p / 100.0)))
                .collect(),
            classes: classes(tally),
        })
    }
}

impl Round {
    /// CPU seconds for each read or write.
    pub fn cpu_per_op(&self) -> f64 {
        (self.used.user_s + self.used.system_s) / self.ops_of_costs().max(1) as f64
    }

    /// Context switches for each read or write.
    pub fn switches_per_op(&self) -> f64 {
        (self.used.voluntary + self.used.involuntary) as f64 / self.ops_of_costs().max(1) as f64
    }

    /// The ops that `used` is of.
    pub fn ops_of_costs(&self) -> u64 {
        self.together.map_or(self.all.ios, |together| together.ios)
    }
}

impl CellReport {
    /// Of each round the number by which it is compared.
    pub fn values(&self, measure: Measure) -> Vec<f64> {
        let value = |round: &Round| match measure {
            Measure::Time => round.elapsed_s,
            Measure::Iops => round.all.iops,
            Measure::Bandwidth => round.all.bytes_per_s,
            Measure::Latency => round.all.p99_s,
            Measure::Cpu => round.cpu_per_op(),
        };
        self.rounds.iter().map(value).collect()
    }

    /// Any number of the rounds, in the middle and with its spread. None without a round.
    pub fn spread(&self, value: impl Fn(&Round) -> f64) -> Option<Spread> {
        Spread::of(&self.rounds.iter().map(value).collect::<Vec<_>>())
    }

    /// The round in the middle, by the number that counts; of an even number of rounds the worse one of two. None without a
    /// round.
    pub fn middle_round(&self) -> Option<&Round> {
        let values = self.values(self.cell.measure());
        let mut order: Vec<usize> = (0..values.len()).collect();
        order.sort_by(|a, b| values[*a].total_cmp(&values[*b]));
        if !less_is_better(self.cell.measure()) {
            order.reverse();
        }
        self.rounds.get(*order.get(order.len() / 2)?)
    }

    /// What the page cache had of the files, in words, and whether that is what was asked for.
    pub fn cache_words(&self) -> String {
        // Of the round that was furthest from what was asked for.
        let (direct, cache) = self.cell.cache();
        let before = self.rounds.iter().filter_map(|round| round.resident_before);
        if before.map(|found| found.of).max() == Some(0) {
            return "the files have no bytes".into();
        }
        let worse = if !direct && cache == Cache::Warmed {
            f64::min
        } else {
            f64::max
        };
        let share = |of: fn(&Round) -> Option<Resident>| {
            let shares = self.rounds.iter().filter_map(of).map(|r| r.share() * 100.0);
            shares.reduce(worse)
        };
        let (Some(before), Some(after)) = (share(|r| r.resident_before), share(|r| r.resident_after)) else {
            return "the kernel did not tell what is cached".into();
        };
        // A page or two that somebody else has looked at do not matter.
        const SOME: f64 = 1.0;
        if let Some(words) = self.memory_words() {
            return format!("{words} (cached before: {before:.0} %, after: {after:.0} %)");
        }
        let wish = match (direct, cache) {
            (true, _) if after > SOME => "NOT bypassed",
            (true, _) => "bypassed",
            (false, Cache::Dropped) if before > SOME => "NOT dropped",
            (false, Cache::Dropped) => "dropped",
            (false, Cache::Warmed) if before < 100.0 - SOME => "NOT all warmed",
            (false, Cache::Warmed) => "warmed",
            (false, Cache::Left) => "as it was",
        };
        format!("{wish} (cached before: {before:.0} %, after: {after:.0} %)")
    }

    /// The share of the bytes read that did not come from a device, in the round with the most of it. None where all is
    /// meant to come from memory, nothing is read, or the kernel does not count.
    pub fn from_memory(&self) -> Option<f64> {
        let (direct, cache) = self.cell.cache();
        if self.cell.io().is_none() || (!direct && cache != Cache::Dropped) {
            return None;
        }
        let share = |round: &Round| {
            let asked = round.together.map_or(round.read.bytes, |all| all.read_bytes);
            let device = round.used.process_read_bytes?;
            (asked > 0).then(|| 1.0 - device.min(asked) as f64 / asked as f64)
        };
        self.rounds.iter().filter_map(share).reduce(f64::max)
    }

    /// What to say if bytes that were to come from the device came from memory.
    fn memory_words(&self) -> Option<String> {
        let percent = self.from_memory().filter(|share| *share > MEMORY_SHARE)? * 100.0;
        Some(match self.cell.cache().0 {
            true => format!(
                "NOT read from a device: {percent:.0} % of what was read came from memory or from holes, as far as the \
                 kernel counts"
            ),
            false => format!("NOT cold: dropped before, and {percent:.0} % of what was read came from memory"),
        })
    }

    /// The fewest ops of a round of which each has a time.
    pub fn fewest_ops(&self) -> u64 {
        self.rounds.iter().map(|round| round.all.ios).min().unwrap_or(0)
    }

    /// Whether the page cache was not in the state that was asked for.
    pub fn cache_is_wrong(&self) -> bool {
        self.cache_words().starts_with("NOT")
    }
}

impl Report {
    /// From JSON.
    ///
    /// # Errors
    /// If it is none of ours.
    pub fn from_json(text: &str) -> Result<Report, String> {
        #[derive(Deserialize)]
        struct Head {
            format: String,
        }
        let head: Head = serde_json::from_str(text).map_err(|_| "no report of proactor bench".to_owned())?;
        if head.format != FORMAT {
            return Err(format!(
                "a report in the format {:?}, where {FORMAT} is expected",
                head.format
            ));
        }
        serde_json::from_str(text).map_err(|e| format!("a report that is damaged: {e}"))
    }

    /// As JSON, with a line's end.
    pub fn to_json(&self) -> String {
        let mut text = serde_json::to_string_pretty(self).expect("plain data can be written");
        text.push('\n');
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::{Job, Task};

    fn cell(change: fn(&mut Job), rounds: &[(f64, u64)]) -> CellReport {
        let mut job = Job::of(Task::Iops);
        change(&mut job);
        let round = |(iops, pages): &(f64, u64)| Round {
            elapsed_s: 1.0,
            read: Way::default(),
            write: Way::default(),
            all: Way {
                iops: *iops,
                ..Way::default()
            },
            fsyncs: 0,
            submissions: None,
            depth: None,
            together: None,
            used: Used {
                peak_rss_bytes: Some(*pages),
                ..Used::default()
            },
            resident_before: Some(Resident {
                pages: *pages,
                of: 100,
            }),
            resident_after: Some(Resident { pages: 0, of: 100 }),
            late_max_s: None,
            unanswered: None,
        };
        CellReport {
            cell: Subject::Io(job.cells().remove(0)),
            rounds: rounds.iter().map(round).collect(),
            read_latency: None,
            write_latency: None,
            counted: None,
            failed: None,
        }
    }

    /// One round that was not in the state that was asked for is told, whatever the others were.
    #[test]
    fn the_page_cache_of_the_worst_round() {
        let warmed = |job: &mut Job| (job.direct, job.cache) = (vec![false], Cache::Warmed);
        assert!(cell(warmed, &[(1.0, 100), (1.0, 40)])
            .cache_words()
            .starts_with("NOT all warmed"));
        assert!(cell(warmed, &[(1.0, 100), (1.0, 100)])
            .cache_words()
            .starts_with("warmed"));
        let dropped = |job: &mut Job| job.direct = vec![false];
        assert!(cell(dropped, &[(1.0, 0), (1.0, 40)])
            .cache_words()
            .starts_with("NOT dropped"));
        assert!(cell(dropped, &[(1.0, 0), (1.0, 0)])
            .cache_words()
            .starts_with("dropped"));
        let mut empty = cell(warmed, &[(1.0, 0)]);
        empty.rounds[0].resident_before = Some(Resident { pages: 0, of: 0 });
        assert!(!empty.cache_is_wrong());
    }

    #[test]
    fn the_round_in_the_middle() {
        let middle = |rounds: &[(f64, u64)]| {
            cell(|_| (), rounds)
                .middle_round()
                .and_then(|round| round.used.peak_rss_bytes)
        };
        assert_eq!(middle(&[(5.0, 1), (1.0, 2), (3.0, 3)]), Some(3));
        assert_eq!(middle(&[(5.0, 1), (1.0, 2)]), Some(2));
        assert_eq!(middle(&[]), None);
    }
}
