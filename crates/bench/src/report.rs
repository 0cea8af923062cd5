//! The result of a benchmark as plain data, which is written as JSON and read back.

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

/// First value of the file. A change that an older reader would misread gets another number.
pub const FORMAT: &str = "proactor-bench-1";

/// Result of a benchmark.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// [`FORMAT`].
    pub format: String,
    /// The command, to repeat it.
    pub command: Vec<String>,
    /// Start time, in UTC.
    pub started: String,
    /// Duration in seconds, including all preparation.
    pub took_s: f64,
    /// Seed of the offsets and contents.
    pub seed: u64,
    /// Number of rounds that were asked for.
    pub rounds: u32,
    /// True if it was ended early: cells then have fewer rounds, or none.
    pub interrupted: bool,
    /// The machine.
    pub environment: Environment,
    /// Engines that do not work here, and why.
    pub left_out: Vec<String>,
    /// How system calls were counted: `perf`, `bpf` or `none`.
    pub counters: String,
    /// Facts that these counters could not see, or the reason why there were none.
    pub not_seen: Vec<String>,
    /// Cells that were measured.
    pub cells: Vec<CellReport>,
    /// Conclusions from the numbers.
    pub verdicts: Vec<Verdict>,
}

/// One cell.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CellReport {
    /// Description of the cell.
    pub cell: Subject,
    /// Each round.
    pub rounds: Vec<Round>,
    /// Times of the reads, in all rounds together.
    pub read_latency: Option<Distribution>,
    /// Times of the writes, in all rounds together.
    pub write_latency: Option<Distribution>,
    /// System calls, from a separate round.
    pub counted: Option<Counted>,
    /// Reason why there is nothing more.
    pub failed: Option<String>,
}

/// One round of a cell.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Round {
    /// Seconds from the first op's start to the last one's end.
    pub elapsed_s: f64,
    /// Reads.
    pub read: Way,
    /// Writes.
    pub write: Way,
    /// Reads and writes together.
    pub all: Way,
    /// Syncs.
    pub fsyncs: u64,
    /// Number of submissions to the engine, of many ops or of one; `None` if there is no engine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub submissions: Option<u64>,
    /// Number of ops in flight when one began; `None` if there is no engine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub depth: Option<Depth>,
    /// Ops of all cells that ran at once, which `used` counts then; `None` if no other cell did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub together: Option<Together>,
    /// Costs.
    pub used: Used,
    /// State of the files in the page cache before the round.
    pub resident_before: Option<Resident>,
    /// State of the files in the page cache after the round.
    pub resident_after: Option<Resident>,
    /// Upper bound on the delay of what was due in an event loop; `None` without a loop.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub late_max_s: Option<f64>,
    /// Requests that were due and unanswered at the end; `None` where requests have no due time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unanswered: Option<u64>,
}

/// Ops of all cells that ran at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Together {
    /// Ops.
    pub ios: u64,
    /// Bytes that were read.
    pub read_bytes: u64,
}

/// Number of ops in flight, each counted when it began, including itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Depth {
    /// Peak number of ops in flight at once, in all jobs of the cell together.
    pub most: u64,
    /// Number of ops that began with 1, 2 to 3, 4 to 7, 8 to 15, 16 to 31, 32 to 63, and 64 or more in flight
    /// in one job. An op of a plain call has none beside it in its thread.
    pub levels: [u64; DEPTH_LEVELS],
}

/// Number of classes of [`Depth::levels`], which are fio's `iodepth_level`.
pub const DEPTH_LEVELS: usize = 7;

impl Depth {
    /// Records an op that began with this many in flight, including itself.
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
    /// Mean time of an op.
    pub mean_s: f64,
    /// Median time of an op.
    pub p50_s: f64,
    /// 90th percentile.
    pub p90_s: f64,
    /// 99th percentile.
    pub p99_s: f64,
    /// 99.9th percentile.
    pub p999_s: f64,
    /// Maximum.
    pub max_s: f64,
}

/// Distribution of the times of ops.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Distribution {
    /// Ops.
    pub ios: u64,
    /// Mean.
    pub mean_s: f64,
    /// Standard deviation.
    pub deviation_s: f64,
    /// Minimum.
    pub min_s: f64,
    /// Percentiles, and their times in seconds.
    pub percentiles: Vec<(f64, f64)>,
    /// Classes of fio: an upper bound in nanoseconds, and the number of ops below it and not below the bound
    /// before. The rest of `ios` took longer than all of them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub classes: Vec<(u64, u64)>,
}

/// System calls of a round that was counted.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Counted {
    /// Number of reads and writes in it.
    pub ios: u64,
    /// Duration, which is longer than that of a round without counting.
    pub elapsed_s: f64,
    /// Counts of calls.
    pub calls: Calls,
    /// Facts that BPF has seen, where it was used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seen: Option<Seen>,
}

impl Counted {
    /// Returns the number of system calls for each read or write.
    pub fn per_op(&self) -> f64 {
        self.calls.total as f64 / self.ios.max(1) as f64
    }
}

/// Share of the bytes that came from memory instead of a device above which a report mentions it: a few pages
/// do not matter.
pub const MEMORY_SHARE: f64 = 0.1;

/// Returns the number of ops that a percentile requires; with fewer it is the longest of them.
pub fn ops_needed(percentile: f64) -> u64 {
    (100.0 / (100.0 - percentile)).round() as u64
}

/// Percentiles of fio, with more at the ends.
const PERCENTILES: &[f64] = &[
    1.0, 5.0, 10.0, 20.0, 30.0, 40.0, 50.0, 60.0, 70.0, 80.0, 90.0, 95.0, 99.0, 99.5, 99.9, 99.95, 99.99,
    100.0,
];

/// Upper bounds of fio's classes, in nanoseconds, microseconds and milliseconds; the last are followed by two
/// seconds.
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
    /// Creates it from ops that were not timed individually, over this time.
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

    /// Creates it from a tally, over this time.
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
    /// Creates it from a tally; `None` without an op.
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
    /// Returns the CPU seconds for each read or write.
    pub fn cpu_per_op(&self) -> f64 {
        (self.used.user_s + self.used.system_s) / self.ops_of_costs().max(1) as f64
    }

    /// Returns the context switches for each read or write.
    pub fn switches_per_op(&self) -> f64 {
        (self.used.voluntary + self.used.involuntary) as f64 / self.ops_of_costs().max(1) as f64
    }

    /// Returns the number of ops that `used` covers.
    pub fn ops_of_costs(&self) -> u64 {
        self.together.map_or(self.all.ios, |together| together.ios)
    }
}

impl CellReport {
    /// Returns for each round the number by which it is compared.
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

    /// Returns the median and the spread of any number of the rounds; `None` without a round.
    pub fn spread(&self, value: impl Fn(&Round) -> f64) -> Option<Spread> {
        Spread::of(&self.rounds.iter().map(value).collect::<Vec<_>>())
    }

    /// Returns the middle round by the number that counts (of two, the worse one); `None` without a round.
    pub fn middle_round(&self) -> Option<&Round> {
        let values = self.values(self.cell.measure());
        let mut order: Vec<usize> = (0..values.len()).collect();
        order.sort_by(|a, b| values[*a].total_cmp(&values[*b]));
        if !less_is_better(self.cell.measure()) {
            order.reverse();
        }
        self.rounds.get(*order.get(order.len() / 2)?)
    }

    /// Describes the state of the files in the page cache, and whether it is the requested one.
    pub fn cache_words(&self) -> String {
        // The round that was furthest from the requested state.
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
        // A page or two that another program has read do not matter.
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

    /// Returns the share of the bytes read that did not come from a device, in the round with the highest.
    /// `None` where all bytes are meant to come from memory, nothing is read, or the kernel does not count.
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

    /// Returns a note if bytes that were to come from the device came from memory.
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

    /// Returns the number of timed ops in the round with the fewest.
    pub fn fewest_ops(&self) -> u64 {
        self.rounds.iter().map(|round| round.all.ios).min().unwrap_or(0)
    }

    /// Returns true if the page cache was not in the requested state.
    pub fn cache_is_wrong(&self) -> bool {
        self.cache_words().starts_with("NOT")
    }
}

impl Report {
    /// Parses JSON.
    ///
    /// # Errors
    /// If it is not a report of ours.
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

    /// Formats it as JSON, with a line end.
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

    /// Checks that one round that was not in the requested state is reported, whatever the others were.
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
