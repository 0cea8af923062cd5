//! What bounds memory, connections and time.

use std::time::Duration;

/// Bounds of one [`Sockets`](crate::Sockets).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Number of streams from which on no connection is accepted; more wait in the listener's backlog. Of several listeners
    /// each may accept one more at the same moment. Default: no bound but descriptors.
    pub max_connections: usize,
    /// Unsent bytes of one stream from which on its receive stops, so that TCP slows the peer down. It goes on below half
    /// of it. Default 256 KiB.
    pub socket_bytes: usize,
    /// Unsent bytes of all streams from which on no connection is accepted. Accepting goes on below 80 % of it. Default
    /// 256 MiB.
    pub total_bytes: usize,
    /// How long a stream may neither receive nor send before it is closed. Default: for ever.
    pub idle: Option<Duration>,
    /// How long a stream that was closed here waits for its peer to end, after everything is sent. Default 2 seconds.
    pub linger: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            max_connections: usize::MAX,
            socket_bytes: 256 << 10,
            total_bytes: 256 << 20,
            idle: None,
            linger: Duration::from_secs(2),
        }
    }
}

impl Limits {
    /// Whether `total` unsent bytes are few enough to accept again.
    pub(crate) fn is_relieved(&self, total: usize) -> bool {
        total < self.total_bytes / 5 * 4 || total == 0
    }
}
