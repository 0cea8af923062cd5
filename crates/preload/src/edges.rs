//! Edges of sockets that were handed back while bytes of them lie here: the real set does not have them yet.
//!
//! Asking for levels does not say what is new. So the kernel has these sockets in an epoll set of this library's own, edge
//! by edge, until they go to the real set.

use crate::set::Inner;
use crate::socket::{Socket, IN};
use crate::{real, table};
use libc::{c_int, epoll_event};
use std::os::fd::RawFd;

/// Edges that are taken at once.
const ROOM: usize = 64;
const BYTES: u32 = (libc::EPOLLIN | libc::EPOLLRDHUP | libc::EPOLLERR | libc::EPOLLHUP) as u32;

impl Inner {
    /// Lists the sockets of which the kernel tells an edge that was not reported.
    pub(crate) fn note_edges(&mut self) {
        for fd in self.all() {
            let needs = |socket: &&mut Socket| socket.is_edge() && socket.member && !socket.lent;
            if let Some(socket) = self.socket(fd).filter(needs) {
                if !socket.has_edges {
                    let interest = socket.events;
                    let has_edges = self.watch_edges(fd, interest);
                    if let Some(socket) = self.socket(fd) {
                        socket.has_edges = has_edges;
                    }
                }
            }
        }
        let mut found = [epoll_event { events: 0, u64: 0 }; ROOM];
        while self.edges >= 0 {
            // SAFETY: room for as many.
            let count = unsafe { real::epoll_wait(self.edges, found.as_mut_ptr(), ROOM as c_int, 0) };
            for event in &found[..count.max(0) as usize] {
                let (fd, is) = (event.u64 as RawFd, event.events);
                if self.socket(fd).is_some_and(|socket| socket.is_news(is)) {
                    self.mark(fd);
                }
            }
            if (count as isize) < ROOM as isize {
                return;
            }
        }
    }

    /// False: it cannot be had, and levels have to do.
    fn watch_edges(&mut self, fd: RawFd, interest: u32) -> bool {
        if self.edges < 0 {
            // SAFETY: no pointer is passed.
            self.edges = unsafe { real::epoll_create1(libc::EPOLL_CLOEXEC) };
            if self.edges < 0 {
                return false;
            }
            table::set_own(self.edges);
        }
        let mut event = epoll_event {
            events: interest & !(libc::EPOLLONESHOT as u32),
            u64: fd as u64,
        };
        let ops = [libc::EPOLL_CTL_ADD, libc::EPOLL_CTL_MOD];
        // SAFETY: one live event.
        ops.into_iter()
            .any(|op| unsafe { real::epoll_ctl(self.edges, op, fd, &raw mut event) } == 0)
    }

    /// The real set is about to have the socket, or nobody.
    pub(crate) fn forget_edges(&mut self, fd: RawFd) {
        // SAFETY: no event is passed.
        unsafe { real::epoll_ctl(self.edges, libc::EPOLL_CTL_DEL, fd, std::ptr::null_mut()) };
    }

    /// Closes the set of edges: with its set, or in a forked child, which must not change the parent's.
    pub(crate) fn drop_edges(&mut self) {
        let fd = std::mem::replace(&mut self.edges, -1);
        if fd >= 0 {
            table::clear(fd);
            // SAFETY: the descriptor is this set's own.
            unsafe { real::close(fd) };
        }
    }
}

impl Socket {
    /// Takes note that the ring does not have the socket any more. What it told is not told again.
    pub(crate) fn begin_edges(&mut self) {
        self.has_edges = false;
        self.told_room = !self.listed && self.is_writable();
    }

    /// Whether the result of a receive is an edge: bytes are none to a program that does not wait for them, and a receive that
    /// was ended, or found no buffer, says nothing.
    pub(crate) fn is_news_of(&self, res: i32) -> bool {
        match -res {
            libc::ECANCELED | libc::EINTR | libc::EAGAIN | libc::ENOBUFS => !self.is_edge(),
            ..0 => !self.is_edge() || self.events & IN != 0,
            _ => true,
        }
    }

    /// Whether an edge was not reported: room may have been, before the socket was handed back.
    fn is_news(&mut self, is: u32) -> bool {
        let was_told = std::mem::replace(&mut self.told_room, false);
        is & BYTES != 0 || !was_told
    }

    /// Asks the kernel whether it has room.
    pub(crate) fn ask_room(&mut self) {
        if self.queued() > 0 {
            return;
        }
        let mut entry = libc::pollfd {
            fd: self.fd,
            events: libc::POLLOUT,
            revents: 0,
        };
        // SAFETY: one live entry.
        self.blocked = unsafe { real::poll(&raw mut entry, 1, 0) } == 0;
    }
}
