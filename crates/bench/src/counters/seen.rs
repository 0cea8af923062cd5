//! What only BPF sees of a round. Plain data, whether or not this build can fill it.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// What BPF has seen.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Seen {
    /// How long system calls took, by name. Those that began before or ended after are left out.
    pub call_times: BTreeMap<String, Times>,
    /// io_uring's ops, from the kernel's taking them to their completion, by name.
    pub op_times: BTreeMap<String, Times>,
    /// Ops of io_uring's that went to one of its workers, by name.
    pub punts: BTreeMap<String, u64>,
    /// Context switches of threads that had to wait.
    pub voluntary: u64,
    /// Of threads that had to give way.
    pub involuntary: u64,
    /// How long threads were off the CPU because they waited, all together.
    pub waiting_s: f64,
    /// Because others ran instead.
    pub preempted_s: f64,
    /// How long each wait was.
    pub waits: Option<Times>,
}

/// How long things took: a histogram, in which a time is off by an eighth at most.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Times {
    /// How many.
    pub count: u64,
    /// Half took at most this long.
    pub p50_s: f64,
    /// 99 percent.
    pub p99_s: f64,
    /// All.
    pub max_s: f64,
    /// The upper end of each bucket that has any, in seconds, and how many it has.
    pub buckets: Vec<(f64, u64)>,
}

impl Times {
    /// From buckets in order. None if nothing is in them.
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
