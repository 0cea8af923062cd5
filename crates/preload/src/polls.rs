//! What only the kernel knows of a socket, and the polls that ask it.

use crate::socket::Socket;

impl Socket {
    /// Whether only the kernel knows when a connection that has ended is reset or hung up.
    pub(crate) fn watches_end(&self) -> bool {
        (self.eof || self.is_stopped()) && self.member && !self.hung_up && !self.released
    }

    /// Whether nothing is received until some of what lies here is read: only the kernel knows when the peer ends its side.
    pub(crate) fn is_stopped(&self) -> bool {
        self.bytes > 0 && !self.armed && !self.released
    }

    /// Whether bytes that come to the kernel are to be told, of a socket of which others lie here that say nothing new.
    pub(crate) fn wants_kernels_bytes(&self) -> bool {
        let says_nothing_new = !self.has_enough() || self.is_edge();
        self.released && self.member && self.bytes > 0 && !self.readable && says_nothing_new
    }

    /// Whether the socket stays here at its end: the real set would report it once more.
    pub(crate) fn keeps_edges(&self) -> bool {
        self.eof && self.end_seen && self.member && self.is_edge() && !self.released
    }

    /// Whether the connection has ended in both directions while the kernel may have bytes of it.
    pub(crate) fn has_end_in_kernel(&self) -> bool {
        self.eof && !self.drained
    }

    /// Whether the kernel holds an entry that names this socket.
    pub(crate) fn in_kernel(&self) -> bool {
        self.is_busy() || self.watched
    }

    /// Whether the kernel holds one of which something is still expected: not a multishot poll that has told of room.
    pub(crate) fn is_busy(&self) -> bool {
        self.armed || self.end_armed || self.in_flight || self.watched && self.blocked
    }

    /// Takes note of what a poll for room has found.
    pub(crate) fn watch_told(&mut self, found: i32) {
        let has = |events: i16| found & i32::from(events) != 0;
        self.half_closed |= has(libc::POLLRDHUP);
        self.readable |= self.released && has(libc::POLLIN);
        self.eof |= self.released && has(libc::POLLRDHUP);
        if has(libc::POLLOUT | libc::POLLERR | libc::POLLHUP) {
            self.blocked = false;
        }
        if has(libc::POLLERR | libc::POLLHUP) {
            self.ask();
        }
    }

    /// Asks the kernel for what only it knows. True: the connection has got worse.
    pub(crate) fn ask(&mut self) -> bool {
        let mut entry = libc::pollfd {
            fd: self.fd,
            events: libc::POLLIN | libc::POLLRDHUP,
            revents: 0,
        };
        // SAFETY: one live entry.
        let found = unsafe { crate::real::poll(&raw mut entry, 1, 0) };
        let is = if found > 0 { entry.revents } else { 0 };
        let before = (self.broken, self.hung_up, self.eof);
        self.broken = is & libc::POLLERR != 0;
        self.readable = self.released && is & libc::POLLIN != 0;
        self.hung_up |= is & libc::POLLHUP != 0;
        let is_in_kernel = self.released || self.is_stopped();
        self.eof |= is & libc::POLLHUP != 0 || is_in_kernel && is & libc::POLLRDHUP != 0;
        self.broken && !before.0 || self.hung_up && !before.1 || self.eof && !before.2
    }
}
