//! How a socket receives: into buffers of the pool, or by readiness into one buffer that all sockets share.
//!
//! A receive that stays in the ring costs least while messages are short. From about 32 KiB in one go on, copying them through
//! many buffers misses the processor's caches, and a poll with `recv` into one hot buffer is cheaper. Each socket is watched and
//! changes by itself. Invariant: one receive or poll of a socket is in the backend at most, so bytes keep their order.

/// The way in which a socket receives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Way {
    /// A receive that stays in the ring and takes buffers of the pool (Linux 6.0).
    #[default]
    Pool,
    /// A poll, then `recv`.
    Ready,
}

/// So many bytes in full buffers in one turn are a long message.
const LONG_BYTES: usize = 32 << 10;
/// After so many short receives in a row a socket goes back to the pool.
const SHORT_RECEIVES: u8 = 16;

/// A socket's receiving side.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Reading {
    /// What is in the backend.
    pub(crate) armed: Option<Way>,
    /// What the next receive is to be.
    pub(crate) way: Way,
    /// The handler wants no bytes for now.
    pub(crate) paused: bool,
    /// Full buffers in this turn with `Pool`, short receives in a row with `Ready`.
    streak: u8,
    /// The low bits of the turn in which `streak` was counted with `Pool`.
    turn: u8,
}

impl Reading {
    /// Whether it is received through the pool, and is to be.
    #[inline]
    pub(crate) fn is_usual(&self) -> bool {
        self.armed == Some(Way::Pool) && self.way == Way::Pool && !self.paused
    }

    /// Takes note of a receive through the pool in a turn.
    #[inline]
    pub(crate) fn saw_pooled(&mut self, len: usize, buffer_bytes: usize, turn: u64) {
        if len < buffer_bytes {
            return;
        }
        if self.turn != turn as u8 {
            self.turn = turn as u8;
            self.streak = 0;
        }
        self.streak = self.streak.saturating_add(1);
        if usize::from(self.streak) * buffer_bytes >= LONG_BYTES {
            self.way = Way::Ready;
            self.streak = 0;
        }
    }

    /// Takes note of a `recv` after a poll, on a backend that has both ways.
    pub(crate) fn saw_ready(&mut self, len: usize, buffer_bytes: usize) {
        if len > buffer_bytes {
            self.streak = 0;
            return;
        }
        self.streak += 1;
        if self.streak >= SHORT_RECEIVES {
            self.way = Way::Pool;
            self.streak = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_messages_leave_the_pool_and_short_ones_come_back() {
        let mut reading = Reading::default();
        (0..100).for_each(|turn| reading.saw_pooled(4096, 4096, turn));
        (0..7).for_each(|_| reading.saw_pooled(4096, 4096, 100));
        assert_eq!(reading.way, Way::Pool);
        reading.saw_pooled(100, 4096, 100);
        reading.saw_pooled(4096, 4096, 100);
        assert_eq!(reading.way, Way::Ready);
        (0..15).for_each(|_| reading.saw_ready(10, 4096));
        reading.saw_ready(60_000, 4096);
        (0..15).for_each(|_| reading.saw_ready(10, 4096));
        assert_eq!(reading.way, Way::Ready);
        reading.saw_ready(4096, 4096);
        assert_eq!(reading.way, Way::Pool);
    }
}
