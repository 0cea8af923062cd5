//! What kind of kernel the simulated one is, and what goes wrong in it.

/// How often what goes wrong, in 1,000.
#[derive(Debug, Clone, Default)]
pub(crate) struct Faults {
    /// Less is sent or received than could be.
    pub(crate) short: usize,
    /// An entry makes no progress, or an event is not shown, before a later wait.
    pub(crate) late: usize,
    /// An entry or a call ends with ECANCELED, EINTR or EAGAIN.
    pub(crate) transient: usize,
    /// An entry that would go on ends.
    pub(crate) drop_more: usize,
    /// A receive finds no buffer though there are some.
    pub(crate) no_buffers: usize,
    /// A cancellation does not find an entry.
    pub(crate) missed: usize,
    /// No entry is taken before the next wait.
    pub(crate) would_block: usize,
    /// An accept gives a number that is no socket (Linux 6.6 to 6.8 with DEFER_TASKRUN).
    pub(crate) no_socket: usize,
    /// An accept fails because of its connection, a connect is refused.
    pub(crate) refused: usize,
    /// An end does not end its receive, which tells of it again; readiness is told twice in one wait.
    pub(crate) told_twice: usize,
}

/// What kind of kernel it is.
#[derive(Debug)]
pub(crate) struct Settings {
    pub(crate) faults: Faults,
    /// Receives into buffers of a pool; without, polls that go on as epoll's do.
    pub(crate) has_pool: bool,
    /// Cancellations by descriptor, not of one entry only.
    pub(crate) by_descriptor: bool,
    pub(crate) has_quiet_sends: bool,
    pub(crate) max_fds: usize,
    /// Events from which on entries that would go on end.
    pub(crate) completions: usize,
    /// Bytes that a socket holds in each direction.
    pub(crate) socket_bytes: usize,
    pub(crate) buffers: usize,
    pub(crate) max_buffers: usize,
    pub(crate) buffer_bytes: usize,
}
