//! What has happened so far, counted.

/// Counters of one [`Sockets`](crate::Sockets), from its beginning.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Stats {
    /// Connections that were accepted.
    pub accepted: u64,
    /// Streams whose descriptor has been closed.
    pub closed: u64,
    /// Bytes that handlers were given.
    pub received_bytes: u64,
    /// Bytes that the kernel has taken.
    pub sent_bytes: u64,
    /// Times that a handler was given bytes.
    pub receives: u64,
    /// Sends by a system call of their own.
    pub direct_sends: u64,
    /// Sends that went to the kernel together with the turn's wait.
    pub queued_sends: u64,
    /// Of those, sends that the kernel has not copied.
    pub zero_copy_sends: u64,
    /// Receives that found no buffer in the pool.
    pub starved: u64,
    /// Receives and accepts that were armed, again or for the first time.
    pub armed: u64,
    /// Turns.
    pub turns: u64,
    /// Events that turns have found.
    pub events: u64,
    /// Times that accepting stopped, because descriptors or the memory for unsent bytes had run out.
    pub holds: u64,
    /// Connections that were closed because they were idle for too long.
    pub idle_closed: u64,
}

impl std::ops::AddAssign for Stats {
    fn add_assign(&mut self, other: Stats) {
        self.accepted += other.accepted;
        self.closed += other.closed;
        self.received_bytes += other.received_bytes;
        self.sent_bytes += other.sent_bytes;
        self.receives += other.receives;
        self.direct_sends += other.direct_sends;
        self.queued_sends += other.queued_sends;
        self.zero_copy_sends += other.zero_copy_sends;
        self.starved += other.starved;
        self.armed += other.armed;
        self.turns += other.turns;
        self.events += other.events;
        self.holds += other.holds;
        self.idle_closed += other.idle_closed;
    }
}
