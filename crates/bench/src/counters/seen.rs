//! Facts about a round that only BPF sees. This is plain data, even if this build cannot fill it.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Facts that BPF has seen.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Seen {
    /// Times of system calls, by name. Calls that began before or ended after are left out.
    pub call_times: BTreeMap<String, Times>,
    /// Times of io_uring's ops from the kernel's taking them to their completion, by name.
    pub op_times: BTreeMap<String, Times>,
    /// Number of io_uring's ops that went to one of its workers, by name.
    pub punts: BTreeMap<String, u64>,
    /// Context switches of threads that had to wait.
    pub voluntary: u64,
    /// Context switches of threads that were preempted.
    pub involuntary: u64,
    /// Time that threads were off the CPU because they waited, in total.
    pub waiting_s: f64,
    /// Time that threads were off the CPU because they were preempted, in total.
    pub preempted_s: f64,
    /// Times of the waits.
    pub waits: Option<Times>,
}

/// A histogram of times, in which a time is off by an eighth at most.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Times {
    /// Number of times.
    pub count: u64,
    /// Median.
    pub p50_s: f64,
    /// 99th percentile.
    pub p99_s: f64,
    /// Maximum.
    pub max_s: f64,
    /// Upper end of each bucket that is not empty, in seconds, and its count.
    pub buckets: Vec<(f64, u64)>,
}

impl Times {
    /// Creates it from buckets in order; `None` if they are empty.
    pub fn of(buckets: Vec<(f64, u64)>) -> Option<Times> {
        let buckets: Vec<(f64, u64)> = buckets.into_iter().filter(|b| b.1 > 0).collect();
        let count: u64 = buckets.iter().map(|b| b.1).sum();
        let quantile = |share: f64| {
            let wanted = (share * count as f64).ceil() as u64;
            let mut below = 0;
            buckets.iter().find_map(|(end_s, n)| {
                below += n;
                (below >= wanted).then_some(*end_s)
            })
        };
        Some(Times {
            count,
            p50_s: quantile(0.5)?,
            p99_s: quantile(0.99)?,
            max_s: buckets.last()?.0,
            buckets,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_of_buckets() {
        assert_eq!(Times::of(vec![(1.0, 0)]), None);
        let times = Times::of(vec![(1.0, 50), (2.0, 0), (3.0, 49), (9.0, 1)]).unwrap();
        assert_eq!((times.count, times.buckets.len()), (100, 3));
        assert_eq!((times.p50_s, times.p99_s, times.max_s), (1.0, 3.0, 9.0));
    }
}
