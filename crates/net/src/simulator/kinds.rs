//! What kinds of kernels, bounds and ends a program may have.

use crate::backend::sim::{Faults, Random};
use crate::limits::Limits;
use std::time::Duration;

/// How a program ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    /// The peers send their last byte and read everything.
    Peers,
    /// All is closed here; the peers read, but do not end.
    Here,
    /// Nobody does anything any more, and idle streams are closed.
    Idle,
    /// It is dropped with everything in flight.
    Dropped,
}

pub(super) fn faults(random: &mut Random) -> Faults {
    let mut rate = |most: usize| {
        if random.chance(500) {
            random.below(most)
        } else {
            0
        }
    };
    Faults {
        short: rate(800),
        late: rate(600),
        transient: rate(60),
        drop_more: rate(400),
        no_buffers: rate(300),
        missed: rate(500),
        would_block: rate(150),
        no_socket: rate(200),
        refused: rate(200),
        told_twice: 0,
    }
}

pub(super) fn limits(random: &mut Random, end: End, scale: usize) -> Limits {
    let idle =
        (end == End::Idle || random.chance(150)).then(|| Duration::from_millis(50 + random.next() % 500));
    Limits {
        max_connections: if random.chance(300) {
            1 + random.below(6)
        } else {
            usize::MAX
        },
        socket_bytes: 1 + random.below(800 * scale),
        total_bytes: if random.chance(300) { 500 * scale } else { 1 << 30 },
        idle,
        linger: Duration::from_millis([0, 30, 2000][random.below(3)]),
    }
}
