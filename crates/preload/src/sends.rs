//! Sends that the ring has, and how they end.

use crate::ring::Ring;
use crate::set::Inner;
use crate::socket::Socket;
use crate::turn::{self, tag, What};
use io_uring::{opcode, squeue};
use std::os::fd::RawFd;

/// How many bytes of a send buffer one byte that is left may take.
const SEND_BUFFER_SHARE: libc::c_int = 4;

/// Sends in the ring.
#[derive(Default)]
pub(crate) struct Sends {
    /// Those that a kernel worker has: each has a completion.
    pub(crate) by_worker: u32,
    /// Those that have none if all is sent, in order: the descriptor, and the number of the entry.
    ///
    /// A send that does not wait (MSG_DONTWAIT) has ended when the kernel has taken its entry. MSG_WAITALL makes one that was
    /// short a failure, which has a completion in spite of IOSQE_CQE_SKIP_SUCCESS, and ends a wait.
    silent: Vec<(RawFd, u32)>,
}

impl Sends {
    /// Queues what a socket has to send. False: the queue is full.
    pub(crate) fn push(&mut self, socket: &mut Socket, ring: &mut Ring, send: opcode::Send) -> bool {
        socket.in_flight = true;
        let is_silent = !ring.has_worker && !socket.needs_send_result();
        let flags = libc::MSG_NOSIGNAL | libc::MSG_DONTWAIT;
        let entry = match is_silent {
            true => send
                .flags(flags | libc::MSG_WAITALL)
                .build()
                .flags(squeue::Flags::SKIP_SUCCESS),
            false => send.flags(flags).build(),
        };
        let tag = tag(What::Send, socket.fd, socket.generation);
        if !turn::push(ring, &entry.user_data(tag)) {
            socket.in_flight = false;
            return false;
        }
        self.by_worker += u32::from(ring.has_worker);
        socket.send_number = ring.pushed;
        if is_silent {
            self.silent.push((socket.fd, ring.pushed));
        }
        true
    }

    pub(crate) fn forget(&mut self) {
        self.by_worker = 0;
        self.silent.clear();
    }
}

impl Inner {
    /// Takes note of the sends that the kernel has taken and said nothing about: all is sent.
    pub(crate) fn end_silent_sends(&mut self) {
        if self.sends.silent.is_empty() {
            return;
        }
        let Some(taken) = self.ring.as_mut().and_then(Ring::taken) else {
            return;
        };
        let mut silent = std::mem::take(&mut self.sends.silent);
        let is_waiting = |&(_, number): &(RawFd, u32)| (taken.wrapping_sub(number) as i32) < 0;
        let ended = silent.iter().position(is_waiting).unwrap_or(silent.len());
        for (fd, number) in silent.drain(..ended) {
            if let Some(socket) = self
                .socket(fd)
                .filter(|socket| socket.in_flight && socket.send_number == number)
            {
                let count = socket.unsent();
                self.send_ended(fd, count as i32);
            }
        }
        self.sends.silent = silent;
    }

    /// A send of a socket has ended with this result.
    pub(crate) fn send_ended(&mut self, fd: RawFd, res: i32) {
        let Some(socket) = self.socket(fd) else { return };
        let was_writable = socket.is_writable();
        socket.in_flight = false;
        match res {
            0.. => socket.sent(res as usize),
            _ if matches!(-res, libc::EAGAIN | libc::EINTR) => socket.blocked = true,
            _ => socket.fail(-res),
        }
        // A short send: the kernel is full.
        socket.blocked |= res > 0 && socket.is_sending();
        let has_room_now = socket.wants_out() && !was_writable;
        let has_more = socket.queued() > 0 || socket.shut_later || socket.closed;
        if has_room_now || has_more || res < 0 {
            self.mark(fd);
            self.touch(fd);
        }
    }
}

impl Socket {
    /// As [`flush`](Self::flush), for a connection that ends: where the kernel takes no more, its send buffer grows by what is
    /// left, so that the kernel goes on for a peer that is slow.
    pub(crate) fn flush_at_the_end(&mut self) -> bool {
        if self.flush() {
            return true;
        }
        // The kernel counts what a packet takes of memory, which is more than its bytes.
        self.grow_send_buffer(SEND_BUFFER_SHARE * self.queued() as libc::c_int);
        self.flush()
    }

    fn grow_send_buffer(&self, more: libc::c_int) {
        let (mut size, mut len): (libc::c_int, _) = (0, size_of::<libc::c_int>() as libc::socklen_t);
        // SAFETY: a live number of that length.
        unsafe {
            crate::real::getsockopt(
                self.fd,
                libc::SOL_SOCKET,
                libc::SO_SNDBUF,
                (&raw mut size).cast(),
                &raw mut len,
            )
        };
        // The kernel doubles what it is given (socket(7)).
        let size = size.saturating_add(more) / 2;
        // The first takes CAP_NET_ADMIN; the second goes up to net.core.wmem_max.
        for option in [libc::SO_SNDBUFFORCE, libc::SO_SNDBUF] {
            // SAFETY: a live number of that length.
            let failed = unsafe {
                crate::real::setsockopt(self.fd, libc::SOL_SOCKET, option, (&raw const size).cast(), len)
            };
            if failed == 0 {
                return;
            }
        }
    }
}
