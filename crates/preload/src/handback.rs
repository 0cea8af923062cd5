//! Giving a socket or a set back to plain epoll, without losing, doubling or reordering a byte.
//!
//! The receive is stopped, completions are read, what was written is sent. What was received and not read stays here, is
//! reported and read first; only then does the socket go to the real epoll set. So it is never reported by both.

use crate::report::{self, Cause};
use crate::ring::Ring;
use crate::set::{Inner, Phase};
use crate::socket::Socket;
use crate::{parked, real, table};
use libc::{c_int, epoll_event};
use std::os::fd::RawFd;
use std::sync::atomic::AtomicU32;
use std::time::{Duration, Instant};

/// How long a socket that is handed back waits for its peer to take what was written.
const FLUSH_MS: c_int = 100;
/// How long a process that ends waits for its peers, all together.
const FINISH_MS: c_int = 1000;
/// How long the kernel may take to end a ring that was closed with entries in it.
const TAKING_DOWN: Duration = Duration::from_secs(1);

impl Inner {
    /// Puts a socket on its way back, for `cause`. Only the owner may.
    pub(crate) fn hand_back_socket(&mut self, fd: RawFd, cause: Cause) {
        if self.socket(fd).is_some_and(|socket| !socket.released) {
            report::count(cause);
        }
        if self.socket(fd).is_some_and(|socket| socket.lent) {
            report::count(cause);
            self.forget_one(fd);
            return;
        }
        if let Some(socket) = self.socket(fd) {
            socket.returns = false;
        }
        self.stop(fd, FLUSH_MS);
        self.release(fd);
    }

    /// Ends the socket's entries in the kernel, sends what was written, takes what was received out of the pool.
    fn stop(&mut self, fd: RawFd, flush_ms: c_int) {
        if let Some(socket) = self.socket(fd) {
            socket.released = true;
        }
        if !self.cancel(fd) {
            self.give_up(Cause::RingLost);
        }
        if let Some(socket) = self.socket(fd).filter(|socket| socket.low_water() > 1) {
            socket.place_low_water();
        }
        let (ring, Some(socket)) = (
            &mut self.ring,
            self.sockets.get_mut(fd as usize).and_then(Option::as_deref_mut),
        ) else {
            return;
        };
        if let Some(ring) = ring {
            socket.leave_pool(&mut ring.pool);
        }
        if !socket.flush() {
            let mut entry = libc::pollfd {
                fd,
                events: libc::POLLOUT,
                revents: 0,
            };
            // SAFETY: one live entry.
            unsafe { real::poll(&raw mut entry, 1, flush_ms) };
            socket.flush();
        }
        self.mark(fd);
        self.touch(fd);
    }

    /// Gives a socket of which nothing is left here to the real set, if it is a member.
    pub(crate) fn release(&mut self, fd: RawFd) {
        let (epfd, lending, phase) = (self.epfd, self.lending, self.phase);
        let Some(socket) = self.socket(fd) else { return };
        socket.refresh();
        if socket.lent || socket.in_kernel() || socket.has_rest() {
            return;
        }
        if socket.closed {
            self.remove(fd);
            // SAFETY: no pointer is passed; the descriptor is this library's own.
            unsafe { real::close(fd) };
            return;
        }
        if socket.returns && socket.member && socket.low_water() == 1 {
            if lending {
                self.lend(fd);
                return;
            }
            if phase == Phase::Ring {
                self.renew(fd);
                return;
            }
        }
        if socket.low_water() > 1 {
            socket.released = true;
            socket.place_low_water();
        }
        let odd = socket.odd || socket.low_water() > 1;
        let (member, mut events) = (socket.member, socket.events);
        if socket.fired {
            events &= libc::EPOLLONESHOT as u32;
        }
        let mut event = epoll_event {
            events,
            u64: socket.data,
        };
        self.remove(fd);
        if member {
            // SAFETY: one live event.
            unsafe { real::epoll_ctl(epfd, libc::EPOLL_CTL_ADD, fd, &raw mut event) };
            table::set_plain(fd);
        }
        if odd {
            table::set_odd(fd);
        }
    }

    /// Takes a socket that has left the set off the ring. What was received stays for whoever reads.
    pub(crate) fn withdraw(&mut self, fd: RawFd) {
        self.stop(fd, 0);
        self.release(fd);
    }

    /// Takes a socket of which something is left here out of this set, for another one. None: nothing is left here.
    pub(crate) fn detach(&mut self, fd: RawFd) -> Option<Socket> {
        self.withdraw(fd);
        let socket = self.socket(fd)?;
        if socket.in_kernel() {
            return None;
        }
        let mut fresh = Socket::new(fd, 0, 0, 0);
        // Its removal takes it out of the lists.
        (fresh.listed, fresh.dirty) = (socket.listed, socket.dirty);
        let mut socket = std::mem::replace(socket, fresh);
        self.remove(fd);
        socket.listed = false;
        socket.dirty = false;
        Some(socket)
    }

    /// Prepares a socket for its close: sends what was written, lets the kernel let go of it, forgets it.
    pub(crate) fn close(&mut self, fd: RawFd) {
        let Some(socket) = self.socket(fd) else { return };
        socket.refresh();
        socket.member = false;
        socket.released = true;
        // The kernel resets a connection that is closed with bytes unread.
        let unread = socket.bytes > 0 && !socket.is_shared();
        if !self.cancel(fd) {
            self.give_up(Cause::RingLost);
        }
        let Some(socket) = self.socket(fd) else { return };
        // What was written before has left, or lies in the kernel, when it resets.
        let is_sent = socket.flush_at_the_end();
        if unread {
            let now = libc::linger {
                l_onoff: 1,
                l_linger: 0,
            };
            let len = size_of::<libc::linger>() as libc::socklen_t;
            // SAFETY: a live option of that length.
            unsafe {
                real::setsockopt(
                    fd,
                    libc::SOL_SOCKET,
                    libc::SO_LINGER,
                    (&raw const now).cast(),
                    len,
                )
            };
        } else if !is_sent {
            self.keep_sending(fd);
        }
        self.remove(fd);
    }

    /// Moves what a slow peer has not taken to a descriptor of this library's own, which is closed when it is sent.
    fn keep_sending(&mut self, fd: RawFd) {
        // SAFETY: no pointer is passed.
        let copy = unsafe { real::fcntl(fd, libc::F_DUPFD_CLOEXEC, 0) };
        if copy < 0 || !table::has_room(copy) {
            return;
        }
        let generation = self.new_generation();
        let mut rest = Socket::new(copy, generation, 0, 0);
        if let Some(socket) = self.socket(fd) {
            rest.take_queue(socket);
        }
        rest.member = false;
        rest.closed = true;
        rest.blocked = true;
        self.insert(rest);
        table::set_own(copy);
        self.touch(copy);
    }

    /// Hands the set back from another thread than the owner's, which is not in the kernel.
    pub(crate) fn hand_back_while_owner_computes(&mut self, cause: Cause) {
        if self.has_worker() {
            self.hand_back(cause);
        } else {
            self.give_up(cause);
        }
    }

    /// Hands the whole set back. Only the owner may, or any thread if the ring has a kernel worker.
    pub(crate) fn hand_back(&mut self, cause: Cause) {
        self.stop_lending(cause);
        if self.phase == Phase::Ring {
            self.cancel_all();
            for fd in self.all() {
                if let Some(socket) = self.socket(fd) {
                    socket.released = true;
                }
                if self.phase == Phase::Ring && !self.cancel(fd) {
                    self.give_up(Cause::RingLost);
                }
            }
        }
        report::count(cause);
        self.become_plain();
    }

    fn stop_lending(&mut self, cause: Cause) {
        if cause != Cause::Fork {
            self.forget_lent();
            for socket in self.sockets.iter_mut().flatten() {
                socket.returns = false;
            }
        }
    }

    /// Leaves the ring because the set is closed.
    pub(crate) fn leave(&mut self) {
        self.forget_lent();
        self.cancel_all();
        for fd in self.all() {
            if !self.cancel(fd) {
                self.give_up(Cause::RingLost);
            }
        }
        self.become_plain();
    }

    /// Hands the set back from any thread, while its owner is not in the kernel. See `ring.rs` for why that is sound.
    pub(crate) fn give_up(&mut self, cause: Cause) {
        self.stop_lending(cause);
        if self.has_worker() {
            self.cancel_all();
            for fd in self.all() {
                self.cancel(fd);
            }
        }
        self.reap();
        self.sends.forget();
        self.real_armed = false;
        self.wake_armed = false;
        if let Some(ring) = &mut self.ring {
            ring.stop_receiving();
        }
        for socket in self.sockets.iter_mut().flatten() {
            // What is queued in the ring is never handed over any more.
            socket.armed = false;
            socket.watched = false;
            socket.end_armed = false;
            socket.in_flight = false;
        }
        report::count(cause);
        let ring = self.ring.take();
        if self.without_ring(ring).is_some() {
            self.noisy_until = Instant::now().checked_add(TAKING_DOWN);
        }
    }

    /// Leaves a ring in which nothing is left.
    fn become_plain(&mut self) {
        for _ in 0..100 {
            if !(self.real_armed || self.wake_armed) {
                break;
            }
            self.cancel_all();
        }
        let is_empty = !(self.real_armed || self.wake_armed);
        let ring = self.ring.take();
        if let Some(ring) = self.without_ring(ring).filter(|_| is_empty) {
            parked::put(self.owner, ring);
        }
    }

    fn without_ring(&mut self, mut ring: Option<Ring>) -> Option<Ring> {
        self.phase = Phase::Plain;
        self.real_ready = false;
        self.real_armed = false;
        self.wake_armed = false;
        for fd in self.all() {
            if let Some(socket) = self.sockets.get_mut(fd as usize).and_then(Option::as_deref_mut) {
                socket.released = true;
                if socket.low_water() > 1 {
                    socket.place_low_water();
                }
                if let Some(ring) = &mut ring {
                    socket.leave_pool(&mut ring.pool);
                }
                socket.flush();
                socket.begin_edges();
            }
            if !self.socket(fd).is_some_and(|socket| socket.is_edge()) {
                self.mark(fd);
            }
            self.release(fd);
        }
        ring
    }
}

/// Lets a child that is about to be forked and this process have each received byte once.
pub(crate) fn share(set: &mut Inner) {
    let waiting = set.sockets.iter_mut().flatten();
    let mut waiting: Vec<_> = waiting
        .filter(|socket| socket.bytes > 0 && !socket.is_shared())
        .collect(); // allocates: eight bytes a socket
    if waiting.is_empty() {
        return;
    }
    // Not freed: the child may outlive this process.
    // SAFETY: a new mapping at an address of the kernel's choice.
    let page = unsafe {
        libc::mmap(
            std::ptr::null_mut(),
            waiting.len() * size_of::<AtomicU32>(),
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_SHARED | libc::MAP_ANONYMOUS,
            -1,
            0,
        )
    };
    if page == libc::MAP_FAILED {
        return;
    }
    for (at, socket) in waiting.iter_mut().enumerate() {
        // SAFETY: the mapping has a zeroed word for each, and stays for ever.
        socket.share(unsafe { &*page.cast::<AtomicU32>().add(at) });
    }
}

/// At the end of the process: what was written goes to the kernel. Where its buffers may not grow, peers have a second to
/// make room.
pub(crate) fn finish() {
    flush_all(Some(FINISH_MS));
}

/// Sends what was written, as far as the kernel takes it. `ends_ms`: the process ends, and waits for peers so long at most.
pub(crate) fn flush_all(mut ends_ms: Option<c_int>) {
    for set in table::sets() {
        let Some(mut held) = set.hold() else { continue };
        for fd in held.all() {
            held.flush(fd);
            let rest = held.socket(fd).filter(|socket| socket.queued() > 0);
            if let (Some(socket), Some(left_ms)) = (rest, &mut ends_ms) {
                finish_one(socket, left_ms);
            }
        }
        if held.waiting && held.has_worker() {
            // What it waits for may have been read here.
            held.wake_owner();
        }
    }
}

fn finish_one(socket: &mut Socket, left_ms: &mut c_int) {
    while !socket.in_flight && !socket.flush_at_the_end() && *left_ms > 0 {
        let begin = Instant::now();
        let mut entry = libc::pollfd {
            fd: socket.fd,
            events: libc::POLLOUT,
            revents: 0,
        };
        // SAFETY: one live entry.
        unsafe { real::poll(&raw mut entry, 1, *left_ms) };
        *left_ms -= (begin.elapsed().as_millis() as c_int).max(1);
    }
}
