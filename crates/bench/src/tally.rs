//! Number of ops and bytes, and the time that each op took.

use hdrhistogram::Histogram;
use std::time::Duration;

/// Significant digits of a time: a value is off by one in a thousand at most.
const DIGITS: u8 = 3;
/// Upper bound on a time, a minute in nanoseconds. Longer times count as this long.
const LONGEST_NS: u64 = 60_000_000_000;

/// The ops of one direction.
#[derive(Debug, Clone)]
pub struct Tally {
    /// Ops.
    pub ios: u64,
    /// Bytes.
    pub bytes: u64,
    latency: Histogram<u64>,
}

impl Default for Tally {
    fn default() -> Self {
        Tally {
            ios: 0,
            bytes: 0,
            latency: Histogram::new_with_bounds(1, LONGEST_NS, DIGITS).expect("these bounds are in order"),
        }
    }
}

impl Tally {
    /// Records one op.
    pub fn record(&mut self, bytes: u64, took: Duration) {
        self.ios += 1;
        self.bytes += bytes;
        self.latency.saturating_record(took.as_nanos() as u64);
    }

    /// Creates a tally of ops that were not timed individually.
    pub fn untimed(ios: u64, bytes: u64) -> Tally {
        Tally {
            ios,
            bytes,
            ..Tally::default()
        }
    }

    /// Records a lower bound on the time of an op that is not done. The op itself is not counted.
    pub fn wait_at_least(&mut self, took: Duration) {
        self.latency.saturating_record(took.as_nanos() as u64);
    }

    /// Adds another tally.
    pub fn add(&mut self, other: &Tally) {
        self.ios += other.ios;
        self.bytes += other.bytes;
        self.latency.add(&other.latency).expect("the bounds are the same");
    }

    /// Returns the time in seconds that this share of the ops (0 to 1) took at most; 0 without an op.
    pub fn quantile(&self, share: f64) -> f64 {
        // A bucket is represented by its upper end, which may lie beyond every recorded time.
        self.latency.value_at_quantile(share).min(self.latency.max()) as f64 / 1e9
    }

    /// Counts the ops that took less than each bound (nanoseconds, in order), and no less than the bound
    /// before.
    pub fn classes(&self, bounds: &[u64]) -> Vec<(u64, u64)> {
        let mut classes: Vec<(u64, u64)> = bounds.iter().map(|bound| (*bound, 0)).collect();
        for bucket in self.latency.iter_recorded() {
            let at = classes.partition_point(|class| class.0 <= bucket.value_iterated_to());
            if let Some(class) = classes.get_mut(at) {
                class.1 += bucket.count_at_value();
            }
        }
        classes
    }

    /// Returns the mean time in seconds.
    pub fn mean(&self) -> f64 {
        self.latency.mean() / 1e9
    }

    /// Returns the standard deviation in seconds.
    pub fn deviation(&self) -> f64 {
        self.latency.stdev() / 1e9
    }

    /// Returns the shortest time in seconds.
    pub fn min(&self) -> f64 {
        self.latency.min() as f64 / 1e9
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles() {
        let mut tally = Tally::default();
        assert_eq!(tally.quantile(0.5), 0.0);
        (1..=1000).for_each(|us| tally.record(10, Duration::from_micros(us)));
        assert_eq!((tally.ios, tally.bytes), (1000, 10_000));
        for (share, us) in [(0.5, 500.0), (0.99, 990.0), (0.999, 999.0), (1.0, 1000.0)] {
            let found = tally.quantile(share) * 1e6;
            assert!((found / us - 1.0).abs() < 0.002, "{share}: {found}");
        }
        let classes = tally.classes(&[1_000, 100_000, 2_000_000]);
        assert_eq!(classes.iter().map(|class| class.1).sum::<u64>(), 1000);
        assert!(classes[0].1 == 0 && classes[1].1.abs_diff(99) <= 1, "{classes:?}");
        assert_eq!(tally.classes(&[1_000]), [(1_000, 0)], "others took longer");
        let mut twice = tally.clone();
        twice.add(&tally);
        assert_eq!(twice.ios, 2000);
        assert!((twice.mean() / tally.mean() - 1.0).abs() < 1e-9);
    }

    #[test]
    fn beyond_the_bounds() {
        let mut tally = Tally::default();
        tally.record(1, Duration::from_secs(3600));
        tally.record(1, Duration::ZERO);
        assert!((tally.quantile(1.0) / 60.0 - 1.0).abs() < 0.001);
    }
}
