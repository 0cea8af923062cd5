//! Progress, the time left, and the time of day.

use std::time::{Duration, SystemTime};

/// Progress of a run.
#[derive(Debug, Clone)]
pub struct Progress {
    /// Description of the current step.
    pub what: String,
    /// Number of steps done: cells, in all rounds.
    pub done: u64,
    /// Number of steps in all.
    pub of: u64,
    /// Time left, as far as it can be known.
    pub left: Option<Duration>,
}

/// Estimate of the time left, from the last time of each cell, or its plan.
pub(super) struct Clock {
    each: Vec<Option<Duration>>,
    left: Vec<u32>,
    of: u64,
}

impl Clock {
    /// Creates it. `each` is the planned duration of a round of each cell; `times` is the number of rounds.
    pub fn new(each: &[Option<Duration>], times: u32) -> Clock {
        Clock {
            each: each.to_vec(),
            left: vec![times; each.len()],
            of: u64::from(times) * each.len() as u64,
        }
    }

    pub fn took(&mut self, index: usize, time: Duration) {
        self.each[index] = Some(time);
        self.skip(index);
    }

    pub fn skip(&mut self, index: usize) {
        self.left[index] -= 1;
    }

    pub fn progress(&self, what: String) -> Progress {
        let left: u64 = self.left.iter().map(|n| u64::from(*n)).sum();
        let mut rest = self
            .each
            .iter()
            .zip(&self.left)
            .map(|(each, times)| Some(each.as_ref()?.saturating_mul(*times)));
        Progress {
            what,
            done: self.of - left,
            of: self.of,
            left: rest.try_fold(Duration::ZERO, |sum, each| Some(sum.saturating_add(each?))),
        }
    }
}

/// Returns the seconds since 1970 of a time that [`utc`] has written; `None` for anything else.
pub(crate) fn seconds_of(text: &str) -> Option<i64> {
    let part = |range: std::ops::Range<usize>| text.get(range)?.parse::<i32>().ok();
    // SAFETY: zeroes are a valid `tm`.
    let mut parts: libc::tm = unsafe { std::mem::zeroed() };
    (parts.tm_year, parts.tm_mon, parts.tm_mday) = (part(0..4)? - 1900, part(5..7)? - 1, part(8..10)?);
    (parts.tm_hour, parts.tm_min, parts.tm_sec) = (part(11..13)?, part(14..16)?, part(17..19)?);
    // SAFETY: it outlives the call.
    Some(unsafe { libc::timegm(&raw mut parts) })
}

/// Formats a time as `2026-11-21T17:00:00Z`.
pub(crate) fn utc(time: SystemTime) -> String {
    let seconds = time
        .duration_since(SystemTime::UNIX_EPOCH)
        .map_or(0, |t| t.as_secs()) as libc::time_t;
    // SAFETY: zeroes are a valid `tm`, which the call overwrites; both outlive it.
    let parts = unsafe {
        let mut parts: libc::tm = std::mem::zeroed();
        libc::gmtime_r(&raw const seconds, &raw mut parts);
        parts
    };
    format!(
        "{:04}-{:02}-{:02}T{:02}:{:02}:{:02}Z",
        parts.tm_year + 1900,
        parts.tm_mon + 1,
        parts.tm_mday,
        parts.tm_hour,
        parts.tm_min,
        parts.tm_sec
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_and_back() {
        for seconds in [
            0,
            951_782_399,
            951_782_400,
            1_709_251_199,
            1_795_330_000,
            4_107_542_400,
        ] {
            let text = utc(SystemTime::UNIX_EPOCH + Duration::from_secs(seconds));
            assert_eq!(seconds_of(&text), Some(seconds as i64), "{text}");
        }
        assert_eq!(seconds_of("yesterday"), None);
    }
}
