//! `Options::bwlimit`: all threads of a copy together write this many bytes a second.

use crate::context::Context;
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// A write may take this part of a second at the given rate, if that is not less than a page: the copy goes on in
/// small steps.
const STEPS_PER_SECOND: u64 = 8;
const LEAST_BYTES: usize = 4096;

/// A wait notices within this time that the copy is to stop.
const SLICE: Duration = Duration::from_millis(20);

/// When the next bytes may go.
pub(crate) struct RateLimit {
    free: Mutex<Instant>,
}

impl RateLimit {
    pub(crate) fn new() -> RateLimit {
        RateLimit {
            free: Mutex::new(Instant::now()),
        }
    }

    /// Takes a turn for this many bytes: it begins when those before it are through. Nothing is saved up in idle times.
    fn turn(&self, bytes: u64, per_second: u64) -> Instant {
        let mut free = self.free.lock().unwrap();
        let start = Instant::now().max(*free);
        *free = start + Duration::from_secs_f64(bytes as f64 / per_second as f64);
        start
    }
}

/// Returns the number of bytes to write at a time, at most `most`.
pub(crate) fn step(bwlimit: u64, most: usize) -> usize {
    match bwlimit {
        0 => most,
        limit => usize::try_from(limit / STEPS_PER_SECOND)
            .unwrap_or(most)
            .clamp(LEAST_BYTES, most),
    }
}

impl Context<'_> {
    /// Waits until this many bytes may be written. Returns false if the copy is to stop.
    pub(crate) fn wait_for_turn(&self, bytes: usize) -> bool {
        let limit = self.options.bwlimit;
        if limit == 0 {
            return true;
        }
        let turn = self.rate_limit.turn(bytes as u64, limit);
        loop {
            if self.stopped() {
                return false;
            }
            match turn.saturating_duration_since(Instant::now()) {
                Duration::ZERO => return true,
                left => std::thread::sleep(left.min(SLICE)),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{step, RateLimit};
    use std::time::{Duration, Instant};

    #[test]
    fn turns_follow_each_other() {
        let rate_limit = RateLimit::new();
        let first = rate_limit.turn(500, 1000);
        assert!(first <= Instant::now());
        assert_eq!(rate_limit.turn(1000, 1000), first + Duration::from_millis(500));
        assert_eq!(rate_limit.turn(1, 1000), first + Duration::from_millis(1500));
    }

    #[test]
    fn steps() {
        for (limit, bytes) in [(0, 1 << 18), (1, 4096), (80_000, 10_000), (u64::MAX, 1 << 18)] {
            assert_eq!(step(limit, 1 << 18), bytes, "{limit}");
        }
    }
}
