//! What a set does around each wait: hand entries over, read completions, report sockets.

use crate::report::options;
use crate::ring::{Pool, Ring, GROUP};
use crate::sends::Sends;
use crate::set::Inner;
use crate::socket::Socket;
use io_uring::{cqueue, opcode, squeue, types};
use libc::epoll_event;
use std::os::fd::RawFd;

/// Received bytes that were not read, above which a socket's receive is stopped.
const PER_SOCKET: usize = 64 << 10;
/// How often starved sockets are fed in one turn; those that are not wait for the next.
const FEEDS: usize = 8;

/// What an entry in the ring is about: the top byte of its tag.
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum What {
    Ignored,
    Receive,
    Send,
    /// A poll for room to send.
    Watch,
    /// A poll for the end of the connection.
    End,
    /// A poll of the real epoll set.
    Real,
    /// A poll of the eventfd that ends a wait.
    Wake,
    /// Nothing: it says that the worker has come so far.
    Echo,
}

pub(crate) fn tag(what: What, fd: RawFd, generation: u32) -> u64 {
    (what as u64) << 56 | u64::from(generation & 0xff_ffff) << 32 | u64::from(fd as u32)
}

fn what(tag: u64) -> What {
    match tag >> 56 {
        1 => What::Receive,
        2 => What::Send,
        3 => What::Watch,
        4 => What::End,
        5 => What::Real,
        6 => What::Wake,
        7 => What::Echo,
        _ => What::Ignored,
    }
}

fn poll_entry(fd: RawFd, events: i16, multi: bool, tag: u64) -> squeue::Entry {
    opcode::PollAdd::new(types::Fd(fd), events as u32)
        .multi(multi)
        .build()
        .user_data(tag)
}

/// Queues an entry that does nothing.
pub(crate) fn push_echo(ring: &mut Ring) -> bool {
    push(ring, &opcode::Nop::new().build().user_data(tag(What::Echo, 0, 0)))
}

/// Queues an entry that names no memory but the pool's or a socket's queue.
pub(crate) fn push(ring: &mut Ring, entry: &squeue::Entry) -> bool {
    // SAFETY: the pool lives as long as the ring. The bytes of a send are the socket's `sending`, which does not change while
    // `in_flight`; the socket is not removed before its completion or the ring's end.
    unsafe { ring.push(entry) }
}

impl Inner {
    /// Queues what the sockets need.
    pub(crate) fn settle(&mut self) {
        let Some(ring) = &mut self.ring else { return };
        if !self.real_armed {
            self.real_armed = push(
                ring,
                &poll_entry(self.epfd, libc::POLLIN, true, tag(What::Real, 0, 0)),
            );
        }
        if !self.wake_armed {
            self.wake_armed = push(
                ring,
                &poll_entry(ring.wake, libc::POLLIN, true, tag(What::Wake, 0, 0)),
            );
        }
        let mut dirty = std::mem::take(&mut self.dirty);
        let (mut later, mut is_reaped) = (Vec::new(), false);
        self.is_chained = false;
        for fd in dirty.drain(..) {
            let (sockets, Some(ring)) = (&mut self.sockets, &mut self.ring) else {
                break;
            };
            let Some(socket) = sockets.get_mut(fd as usize).and_then(Option::as_deref_mut) else {
                continue;
            };
            socket.dirty = false;
            if !settle_one(socket, ring, &mut self.sends) {
                later.push(fd);
            } else if ring.has_worker && socket.needs_send_result() {
                self.is_chained = true;
                later.push(fd);
            } else if is_over(socket) {
                is_reaped |= socket.in_kernel();
                self.cancel(fd);
                self.release(fd);
            }
        }
        for fd in later.drain(..) {
            self.touch(fd);
        }
        if self.dirty.is_empty() {
            self.dirty = dirty;
        }
        if is_reaped {
            // What the completions have left to do is done before the wait, too.
            self.settle();
        }
    }

    /// Reads all completions.
    pub(crate) fn reap(&mut self) {
        while let Some(entry) = self.ring.as_mut().and_then(Ring::next) {
            self.note(&entry);
        }
        self.end_silent_sends();
    }

    /// Arms receives again that found no buffer, now that there are some: what else their sockets have belongs to this turn.
    pub(crate) fn feed(&mut self) {
        for _ in 0..FEEDS {
            if !std::mem::take(&mut self.starved) {
                return;
            }
            self.settle();
            let Some(ring) = &mut self.ring else { return };
            if ring.has_worker {
                // What they receive ends the next wait.
                ring.wake_worker();
                return;
            }
            self.stats.enters += 1;
            let _ = ring.submit();
            self.reap();
        }
    }

    fn note(&mut self, entry: &cqueue::Entry) {
        let (tag, res, more) = (entry.user_data(), entry.result(), cqueue::more(entry.flags()));
        match what(tag) {
            What::Real => {
                self.real_ready = true;
                self.real_armed &= more;
                return;
            }
            What::Wake => {
                self.wake_armed &= more;
                return;
            }
            What::Echo => {
                self.echoes = self.echoes.wrapping_add(1);
                return;
            }
            What::Ignored => return,
            _ => {}
        }
        self.nothing_since = None;
        self.sends.by_worker -= u32::from(what(tag) == What::Send && self.has_worker());
        let Some(ring) = &mut self.ring else { return };
        let id = cqueue::buffer_select(entry.flags());
        if id.is_some() {
            ring.pool.free -= 1;
        }
        let fd = tag as u32 as RawFd;
        let generation = (tag >> 32) as u32 & 0xff_ffff;
        let socket = self.sockets.get_mut(fd as usize).and_then(Option::as_deref_mut);
        let Some(socket) = socket.filter(|socket| socket.generation == generation) else {
            if let Some(id) = id {
                ring.pool.offer(id);
            }
            return;
        };
        match what(tag) {
            What::Receive => {
                self.stats.received += u64::from(res.max(0) as u32);
                received(socket, ring, res, id, more);
                self.starved |= res == -libc::ENOBUFS;
                if socket.is_news_of(res) {
                    self.mark(fd);
                }
                self.touch(fd);
            }
            What::Send => self.send_ended(fd, res),
            What::End => {
                socket.end_armed &= more;
                if socket.ask() {
                    self.mark(fd);
                }
            }
            _ => {
                socket.watched = more;
                socket.watch_told(res.max(0));
                if res > 0 || !socket.is_edge() {
                    self.mark(fd);
                }
                self.touch(fd);
            }
        }
    }

    /// Whether a socket would be reported now. Those at the list's head that would not are dropped from it.
    pub(crate) fn has_ready(&mut self) -> bool {
        let listed = std::mem::take(&mut self.ready);
        let mut gone = 0;
        for fd in &listed {
            if let Some(socket) = self.socket(*fd) {
                socket.refresh();
                if socket.ready() != 0 {
                    break;
                }
                socket.listed = false;
            }
            gone += 1;
        }
        self.ready = listed;
        self.ready.drain(..gone);
        !self.ready.is_empty()
    }

    /// Writes sockets that are ready to `events`, at most `max`. Returns how many.
    ///
    /// # Safety
    /// `events` has room for `max`.
    pub(crate) unsafe fn collect(&mut self, events: *mut epoll_event, max: usize) -> usize {
        let listed = std::mem::take(&mut self.ready);
        let mut again = Vec::new();
        std::mem::swap(&mut again, &mut self.spare);
        let mut count = 0;
        let mut rest = listed.len();
        for (at, fd) in listed.iter().copied().enumerate() {
            if count == max {
                rest = at;
                break;
            }
            let Some(socket) = self.socket(fd) else { continue };
            socket.refresh();
            let is = socket.ready();
            if is == 0 {
                socket.listed = false;
                continue;
            }
            let event = epoll_event {
                events: is,
                u64: socket.data,
            };
            // SAFETY: the caller's promise.
            unsafe { events.add(count).write_unaligned(event) };
            count += 1;
            if socket.is_one_shot() {
                socket.fired = true;
            }
            if socket.is_one_shot() || socket.is_edge() {
                socket.listed = false;
            } else {
                again.push(fd);
            }
        }
        // Those that were not looked at come first next time.
        let mut listed = listed;
        listed.drain(..rest);
        // allocates: four bytes a socket
        listed.extend_from_slice(&again);
        again.clear();
        self.spare = again;
        self.ready = listed;
        count
    }

    /// Looks for bytes of a socket that have arrived, until there are `room`.
    pub(crate) fn look(&mut self, fd: RawFd, room: usize) {
        let Some(ring) = &mut self.ring else { return };
        if ring.has_worker {
            self.look_past_worker(fd, room);
            return;
        }
        if ring.is_behind() {
            self.stats.enters += 1;
            let _ = ring.submit();
        }
        self.reap();
    }

    /// Asks the kernel to end all entries.
    pub(crate) fn cancel_all(&mut self) {
        let Some(ring) = &mut self.ring else { return };
        let entry = opcode::AsyncCancel2::new(types::CancelBuilder::any()).build();
        push(ring, &entry.user_data(tag(What::Ignored, 0, 0)));
        let _ = ring.submit();
        self.stats.enters += 1;
        self.reap();
    }

    /// Ends all entries of a socket in the kernel, and waits until it has let go of them. False: it cannot be asked.
    pub(crate) fn cancel(&mut self, fd: RawFd) -> bool {
        for _ in 0..1000 {
            let (Some(ring), Some(socket)) = (
                &mut self.ring,
                self.sockets.get(fd as usize).and_then(Option::as_deref),
            ) else {
                return true;
            };
            if !socket.in_kernel() {
                return true;
            }
            // By descriptor: a cancellation by tag now and then misses a receive that is about to be armed again.
            let all = types::CancelBuilder::fd(types::Fd(fd)).all();
            let entry = opcode::AsyncCancel2::new(all)
                .build()
                .user_data(tag(What::Ignored, 0, 0));
            push(ring, &entry);
            self.stats.enters += 1;
            match ring.submit() {
                Ok(_) | Err(libc::EBUSY | libc::EAGAIN | libc::EINTR) => {}
                Err(_) => return false,
            }
            self.reap();
        }
        false
    }
}

/// Queues what one socket needs. False: the queue is full.
pub(crate) fn settle_one(socket: &mut Socket, ring: &mut Ring, sends: &mut Sends) -> bool {
    if socket.lent {
        return true;
    }
    let types_fd = types::Fd(socket.fd);
    let bound = options().per_socket.unwrap_or(PER_SOCKET).max(socket.low_water());
    let wants_more = !(socket.released || socket.closed || socket.eof || socket.error != 0);
    if socket.armed && socket.bytes > bound && !socket.paused {
        let of = types::CancelBuilder::user_data(tag(What::Receive, socket.fd, socket.generation));
        let entry = opcode::AsyncCancel2::new(of)
            .build()
            .user_data(tag(What::Ignored, 0, 0));
        if !push(ring, &entry) {
            return false;
        }
        socket.paused = true;
    }
    let has_room = socket.bytes <= bound / 2 || !socket.has_enough();
    if !socket.armed && wants_more && socket.member && has_room {
        let entry = opcode::RecvMulti::new(types_fd, GROUP).build().user_data(tag(
            What::Receive,
            socket.fd,
            socket.generation,
        ));
        if !push(ring, &entry) {
            return false;
        }
        socket.armed = true;
        socket.paused = false;
    }
    if !socket.blocked {
        if let Some((start, len)) = socket.next_send() {
            if !sends.push(socket, ring, opcode::Send::new(types_fd, start, len)) {
                return false;
            }
        } else if socket.shut_later && socket.queued() == 0 {
            socket.flush();
        }
    }
    let wants_room = socket.blocked && (socket.queued() > 0 || socket.wants_out());
    if !socket.watched && (wants_room || socket.wants_kernels_bytes()) {
        let tag = tag(What::Watch, socket.fd, socket.generation);
        let events = if socket.released {
            libc::POLLIN | libc::POLLOUT
        } else {
            libc::POLLOUT
        };
        // The kernel adds POLLRDHUP to what a poll asks for: once the peer has ended its side, a poll ends at once. A multishot
        // one says so once, and later tells of room. Bytes that are not read yet end a poll, too.
        let multi = socket.released || socket.eof || socket.half_closed;
        if !push(ring, &poll_entry(socket.fd, events, multi, tag)) {
            return false;
        }
        socket.watched = true;
    }
    if socket.watches_end() && !socket.end_watched {
        let tag = tag(What::End, socket.fd, socket.generation);
        if !push(ring, &poll_entry(socket.fd, 0, true, tag)) {
            return false;
        }
        socket.end_watched = true;
        socket.end_armed = true;
    }
    true
}

/// Whether the ring has nothing more to do for a socket: the kernel's epoll knows the rest better.
fn is_over(socket: &Socket) -> bool {
    let read_to_the_end = socket.eof && socket.bytes == 0 && socket.end_seen && !socket.keeps_edges();
    !socket.is_busy() && !socket.has_rest() && (socket.released || socket.closed || read_to_the_end)
}

fn received(socket: &mut Socket, ring: &mut Ring, res: i32, id: Option<u16>, more: bool) {
    socket.armed &= more;
    match (res, id) {
        (1.., Some(id)) if is_short(&ring.pool) => {
            socket.push_copy(ring.pool.bytes(id, 0, res as usize));
            ring.pool.offer(id);
        }
        (1.., Some(id)) => socket.push(id, res as usize),
        (0, id) => {
            if let Some(id) = id {
                ring.pool.offer(id);
            }
            socket.eof = true;
            socket.drained = true;
            socket.ask();
        }
        (_, id) => {
            if let Some(id) = id {
                ring.pool.offer(id);
            }
            match -res {
                // The receive has ended; it is armed again before the next wait.
                libc::ENOBUFS => ring.pool.grow(ring.pool.made().saturating_mul(2)),
                libc::ECANCELED | libc::EINTR | libc::EAGAIN => {}
                error => {
                    socket.eof = true;
                    socket.drained = true;
                    socket.fail(error);
                }
            }
        }
    }
}

/// The buffer that a receive has filled is copied when fewer are left: others must find one.
fn is_short(pool: &Pool) -> bool {
    pool.free < (pool.made() / 4).max(1)
}
