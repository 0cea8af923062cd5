//! How long requests are served, counted in buckets whose width grows with the time.

use std::time::Duration;

/// Buckets in each power of two: the error is at most an eighth.
const PER_POWER: u32 = 8;
const BUCKETS: usize = 64 * PER_POWER as usize;

/// Times of requests, each counted to within an eighth.
#[derive(Clone)]
pub struct Latency {
    counts: Box<[u64; BUCKETS]>,
}

impl Default for Latency {
    fn default() -> Self {
        Latency {
            counts: Box::new([0; BUCKETS]),
        }
    }
}

fn bucket(nanos: u64) -> usize {
    let nanos = nanos.max(u64::from(PER_POWER));
    let power = nanos.ilog2();
    let shift = power - PER_POWER.ilog2();
    let part = (nanos >> shift) - u64::from(PER_POWER);
    (shift * PER_POWER) as usize + part as usize
}

/// The greatest time of a bucket.
fn upper_nanos(bucket: usize) -> u64 {
    let (shift, part) = (bucket as u32 / PER_POWER, bucket as u32 % PER_POWER);
    let start = u64::from(PER_POWER + part).checked_shl(shift).unwrap_or(u64::MAX);
    start.saturating_add((1u64 << shift) - 1)
}

impl Latency {
    /// Counts `requests` that have taken so long.
    #[inline]
    pub fn record(&mut self, took: Duration, requests: u64) {
        self.counts[bucket(took.as_nanos() as u64)] += requests;
    }

    /// The time that the given part of all requests, 0 to 1, has not exceeded. None without requests.
    pub fn quantile(&self, part: f64) -> Option<Duration> {
        let all: u64 = self.counts.iter().sum();
        let wanted = ((all as f64 * part).ceil() as u64).max(1);
        let mut seen = 0;
        let found = self.counts.iter().position(|count| {
            seen += count;
            seen >= wanted
        })?;
        Some(Duration::from_nanos(upper_nanos(found)))
    }

    /// Adds the counts of another one.
    pub fn add(&mut self, other: &Latency) {
        for (own, more) in self.counts.iter_mut().zip(other.counts.iter()) {
            *own += more;
        }
    }

    /// What was counted since an earlier copy.
    #[must_use]
    pub fn since(&self, before: &Latency) -> Latency {
        let mut new = self.clone();
        for (own, less) in new.counts.iter_mut().zip(before.counts.iter()) {
            *own = own.saturating_sub(*less);
        }
        new
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_time_is_in_a_bucket_that_is_hardly_longer() {
        let mut nanos = 8;
        while nanos < u64::MAX / 2 {
            let upper = upper_nanos(bucket(nanos));
            assert!(nanos <= upper && upper - nanos <= nanos / 8, "{nanos}: {upper}");
            nanos += nanos / 8 + 1;
        }
        assert!(bucket(0) == 0 && bucket(u64::MAX) < BUCKETS);
    }

    #[test]
    fn quantiles() {
        let mut latency = Latency::default();
        assert_eq!(latency.quantile(0.5), None);
        latency.record(Duration::from_micros(10), 98);
        let before = latency.clone();
        latency.record(Duration::from_millis(5), 2);
        let micros = |part| latency.quantile(part).unwrap().as_micros();
        assert!((10..=11).contains(&micros(0.5)));
        assert!((5000..=5625).contains(&micros(0.99)));
        assert!(latency.since(&before).quantile(0.01).unwrap() > Duration::from_millis(4));
    }
}
