//! The time, as one turn sees it.

use std::time::{Duration, Instant};

/// Milliseconds since the sockets were made, read once a turn.
pub(crate) struct Clock {
    start: Instant,
    pub(crate) now_ms: u64,
    /// When the turn's wait has ended.
    turn_began: Instant,
}

impl Clock {
    pub(crate) fn new() -> Self {
        let start = Instant::now();
        Clock {
            start,
            now_ms: 0,
            turn_began: start,
        }
    }

    /// Reads the time at the beginning of a turn.
    pub(crate) fn begin_turn(&mut self) {
        self.turn_began = Instant::now();
        self.now_ms = (self.turn_began - self.start).as_millis() as u64;
    }

    /// The time now.
    pub(crate) fn read_ms(&self) -> u64 {
        self.start.elapsed().as_millis() as u64
    }

    /// How long the turn has taken up to now, without its wait.
    pub(crate) fn turn(&self) -> Duration {
        self.turn_began.elapsed()
    }
}
