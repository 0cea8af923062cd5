//! The time, as one turn sees it.

use std::time::{Duration, Instant};

/// The time now: that of the simulator, in a thread where one runs.
#[inline]
fn now() -> Instant {
    #[cfg(test)]
    if let Some(now) = simulated::now() {
        return now;
    }
    Instant::now()
}

/// Milliseconds since the sockets were made, read once a turn.
pub(crate) struct Clock {
    start: Instant,
    pub(crate) now_ms: u64,
    /// When the turn's wait has ended.
    turn_began: Instant,
}

impl Clock {
    pub(crate) fn new() -> Self {
        let start = now();
        Clock {
            start,
            now_ms: 0,
            turn_began: start,
        }
    }

    /// Reads the time at the beginning of a turn.
    pub(crate) fn begin_turn(&mut self) {
        self.turn_began = now();
        self.now_ms = (self.turn_began - self.start).as_millis() as u64;
    }

    /// The time now.
    pub(crate) fn read_ms(&self) -> u64 {
        (now() - self.start).as_millis() as u64
    }

    /// How long the turn has taken up to now, without its wait.
    pub(crate) fn turn(&self) -> Duration {
        now() - self.turn_began
    }
}

/// A clock of the thread that only a test advances.
#[cfg(test)]
pub(crate) mod simulated {
    use std::cell::Cell;
    use std::time::{Duration, Instant};

    thread_local! {
        static NOW: Cell<Option<Instant>> = const { Cell::new(None) };
    }

    pub(crate) fn now() -> Option<Instant> {
        NOW.get()
    }

    pub(crate) fn start() {
        NOW.set(Some(Instant::now()));
    }

    pub(crate) fn advance(by: Duration) {
        NOW.set(NOW.get().map(|now| now + by));
    }

    pub(crate) fn stop() {
        NOW.set(None);
    }
}
