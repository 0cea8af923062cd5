//! One connection of the simulated kernel: two byte queues, and what ends them.

use std::collections::VecDeque;

/// A connection, which outlives its descriptor here.
#[derive(Debug, Default)]
pub(crate) struct Connection {
    /// The peer takes part.
    pub(crate) established: bool,
    /// Bytes that it holds in each direction.
    socket_bytes: usize,
    pub(super) incoming: VecDeque<u8>,
    outgoing: VecDeque<u8>,
    /// Bytes that were taken for the peer, and those that it has read.
    transmitted: usize,
    arrived: usize,
    /// What was taken for the peer is thrown away.
    purged: bool,
    /// Bytes that the peer has sent.
    pub(crate) peer_sent: usize,
    /// The peer has sent its last byte.
    pub(crate) peer_ended: bool,
    /// The peer takes no bytes any more and answers them with a reset.
    pub(crate) peer_gone: bool,
    /// One of the two has reset the connection, so bytes may be lost.
    pub(crate) reset: bool,
    /// What the next call reports.
    error: Option<i32>,
    /// We have sent our last byte.
    pub(crate) ended: bool,
    pub(super) no_receives: bool,
    pub(super) reset_on_close: bool,
    /// The backend was told to forget the descriptor.
    pub(crate) released: bool,
    /// It was shut down, so the peer sees its end even if another process has a copy of the descriptor.
    pub(crate) shut: bool,
    /// The descriptor was closed with bytes unread.
    pub(crate) cut: bool,
    pub(crate) closed: bool,
}

impl Connection {
    pub(super) fn new(socket_bytes: usize) -> Self {
        Connection {
            socket_bytes,
            ..Connection::default()
        }
    }

    pub(super) fn is_readable(&self) -> bool {
        !self.incoming.is_empty() || self.error.is_some() || self.peer_ended || self.no_receives || self.reset
    }

    pub(super) fn reset(&mut self) {
        self.reset = true;
        self.error = Some(libc::ECONNRESET);
        self.outgoing.clear();
    }

    /// Bytes that were taken for the peer.
    pub(super) fn transmitted(&self) -> usize {
        self.transmitted
    }

    /// Whether the memory of a send that ends there is not needed any more.
    pub(super) fn has_arrived(&self, end: usize) -> bool {
        self.arrived >= end || self.reset || self.purged
    }

    /// The connection is dissolved.
    pub(super) fn purge(&mut self) {
        self.purged = true;
        self.reset();
    }

    /// None: nothing is there yet.
    pub(super) fn receive(&mut self, most: usize) -> Option<Result<Vec<u8>, i32>> {
        let count = self.incoming.len().min(most);
        if count > 0 {
            return Some(Ok(self.incoming.drain(..count).collect()));
        }
        match self.error.take() {
            Some(errno) => Some(Err(errno)),
            None => self.is_readable().then(|| Ok(Vec::new())),
        }
    }

    /// None: there is no room.
    pub(super) fn transmit(&mut self, bytes: &[u8], most: usize) -> Option<Result<usize, i32>> {
        if let Some(errno) = self.error.take() {
            return Some(Err(errno));
        }
        if self.ended || self.reset {
            return Some(Err(libc::EPIPE));
        }
        if self.peer_gone {
            self.reset();
            return Some(Ok(bytes.len().min(most)));
        }
        let count = (self.socket_bytes - self.outgoing.len())
            .min(bytes.len())
            .min(most);
        self.outgoing.extend(&bytes[..count]);
        self.transmitted += count;
        (count > 0).then_some(Ok(count))
    }

    /// The peer sends what there is room for.
    pub(crate) fn peer_send(&mut self, bytes: &[u8]) {
        let count = (self.socket_bytes - self.incoming.len()).min(bytes.len());
        if count > 0 && (self.closed || self.no_receives) {
            return self.reset();
        }
        self.incoming.extend(&bytes[..count]);
        self.peer_sent += count;
    }

    pub(crate) fn peer_read(&mut self, most: usize) -> Vec<u8> {
        let count = self.outgoing.len().min(most);
        self.arrived += count;
        self.outgoing.drain(..count).collect()
    }

    pub(crate) fn peer_reset(&mut self) {
        self.peer_gone = true;
        self.reset();
    }
}
