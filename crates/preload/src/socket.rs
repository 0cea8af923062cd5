//! One socket: what was received and not read, what was written and not sent, and what epoll would say of it.
//!
//! Invariant: a byte is in the kernel, in `chunks` or in the program; or in the program, in the queue or in the kernel.

use crate::ring::{Pool, BUFFER_BYTES};
use crate::shared::{copy, Shared};
use std::collections::VecDeque;
use std::os::fd::RawFd;
use std::sync::atomic::AtomicU32;

/// Bytes that wait to be sent, at most.
pub(crate) const QUEUE_BYTES: usize = 64 << 10;
/// Fewer leave the socket writable.
const WRITABLE_BELOW: usize = QUEUE_BYTES / 2;
/// Flags of an interest that are no conditions.
const PRIVATE: u32 = (libc::EPOLLET | libc::EPOLLONESHOT) as u32;
pub(crate) const IN: u32 = (libc::EPOLLIN | libc::EPOLLRDNORM) as u32;
const OUT: u32 = (libc::EPOLLOUT | libc::EPOLLWRNORM) as u32;
const RDHUP: u32 = libc::EPOLLRDHUP as u32;
const HUP: u32 = libc::EPOLLHUP as u32;
const ERR: u32 = libc::EPOLLERR as u32;

/// Bytes that were received in one piece.
enum Place {
    Pooled(u16),
    Heap(Box<[u8]>),
}

struct Chunk {
    place: Place,
    from: u32,
    to: u32,
}

pub(crate) struct Socket {
    pub(crate) fd: RawFd,
    pub(crate) generation: u32,
    /// The interest, as epoll_ctl was given it.
    pub(crate) events: u32,
    pub(crate) data: u64,
    /// In the epoll set. A socket that is not may still have bytes here.
    pub(crate) member: bool,
    /// Its one shot has been fired.
    pub(crate) fired: bool,
    /// On its way back to plain epoll: nothing is received into memory any more.
    pub(crate) released: bool,
    /// Closed by the program; what it has written is still being sent.
    pub(crate) closed: bool,
    /// The real set has it, until no other process does (`lend.rs`).
    pub(crate) lent: bool,
    /// It was handed back because of a fork alone.
    pub(crate) returns: bool,
    /// An option of it makes the kernel do what a ring does not: it does not come back to one.
    pub(crate) odd: bool,
    chunks: VecDeque<Chunk>,
    shared: Option<Shared>,
    pub(crate) bytes: usize,
    /// SO_RCVLOWAT. The kernel has it only of what is handed back.
    low_water: usize,
    pub(crate) armed: bool,
    /// More than the bound was not read; the receive is stopped until half of it is.
    pub(crate) paused: bool,
    /// The peer has ended its side, or the connection is gone.
    pub(crate) eof: bool,
    /// The kernel has no byte any more.
    pub(crate) drained: bool,
    /// The program has read to the end.
    pub(crate) end_seen: bool,
    /// The errno that the next call gets.
    pub(crate) error: i32,
    pub(crate) hung_up: bool,
    /// The kernel has an error that no call has had yet.
    pub(crate) broken: bool,
    pub(crate) queue: Vec<u8>,
    sending: Vec<u8>,
    sent: usize,
    pub(crate) in_flight: bool,
    /// The number of the last send's entry in the ring.
    pub(crate) send_number: u32,
    /// The kernel took less than it was given, and has not said since that it takes more.
    pub(crate) blocked: bool,
    pub(crate) watched: bool,
    /// The peer has ended its side, as a poll for room has said.
    pub(crate) half_closed: bool,
    /// A poll for the connection's end has been in the ring; `end_armed`: it is.
    pub(crate) end_watched: bool,
    pub(crate) end_armed: bool,
    /// The kernel has bytes of a socket whose receive is stopped for good.
    pub(crate) readable: bool,
    /// The write side is shut down, or is to be when the queue is empty.
    pub(crate) shut: bool,
    pub(crate) shut_later: bool,
    pub(crate) listed: bool,
    pub(crate) dirty: bool,
    /// The set of `edges.rs` has it; and room was reported before that.
    pub(crate) has_edges: bool,
    pub(crate) told_room: bool,
}

impl Socket {
    pub(crate) fn new(fd: RawFd, generation: u32, events: u32, data: u64) -> Self {
        Socket {
            fd,
            generation,
            events,
            data,
            member: true,
            fired: false,
            released: false,
            closed: false,
            lent: false,
            returns: false,
            odd: false,
            chunks: VecDeque::new(),
            shared: None,
            bytes: 0,
            low_water: 1,
            armed: false,
            paused: false,
            eof: false,
            drained: false,
            end_seen: false,
            error: 0,
            hung_up: false,
            broken: false,
            queue: Vec::new(),
            sending: Vec::new(),
            sent: 0,
            in_flight: false,
            send_number: 0,
            blocked: false,
            watched: false,
            half_closed: false,
            end_watched: false,
            end_armed: false,
            readable: false,
            shut: false,
            shut_later: false,
            listed: false,
            dirty: false,
            has_edges: false,
            told_room: false,
        }
    }

    /// What epoll_wait reports of it now: 0 for nothing.
    #[inline]
    pub(crate) fn ready(&self) -> u32 {
        if !self.member || self.fired || self.lent {
            return 0;
        }
        let mut is = 0;
        if self.has_enough() || self.eof || self.error != 0 || self.readable {
            is |= IN;
        }
        if self.eof {
            is |= RDHUP;
        }
        if self.hung_up {
            is |= HUP;
        }
        if self.error != 0 || self.broken {
            is |= ERR;
        }
        if self.is_writable() {
            is |= OUT;
        }
        is & ((self.events & !PRIVATE) | HUP | ERR)
    }

    /// Whether so much lies here that the socket is readable.
    pub(crate) fn has_enough(&self) -> bool {
        self.bytes >= self.low_water
    }

    pub(crate) fn low_water(&self) -> usize {
        self.low_water
    }

    /// Takes over what the kernel has made of SO_RCVLOWAT.
    pub(crate) fn set_low_water(&mut self, low_water: usize) {
        self.low_water = low_water.max(1);
        self.place_low_water();
    }

    /// Lets the kernel wait for as many bytes as are missing, once it is the kernel that receives.
    pub(crate) fn place_low_water(&self) {
        let missing = if self.released {
            self.low_water.saturating_sub(self.bytes).max(1)
        } else {
            1
        };
        let missing = missing as libc::c_int;
        let len = size_of::<libc::c_int>() as libc::socklen_t;
        // SAFETY: a live number of that length.
        unsafe {
            crate::real::setsockopt(
                self.fd,
                libc::SOL_SOCKET,
                libc::SO_RCVLOWAT,
                (&raw const missing).cast(),
                len,
            )
        };
    }

    pub(crate) fn is_writable(&self) -> bool {
        !self.blocked && self.queued() < WRITABLE_BELOW
    }

    pub(crate) fn is_edge(&self) -> bool {
        self.events & libc::EPOLLET as u32 != 0
    }

    pub(crate) fn is_one_shot(&self) -> bool {
        self.events & libc::EPOLLONESHOT as u32 != 0
    }

    pub(crate) fn wants_out(&self) -> bool {
        self.member && !self.fired && self.events & OUT != 0
    }

    /// Whether something lies here that the kernel does not know of.
    pub(crate) fn has_rest(&self) -> bool {
        let for_reader = !self.closed && (self.bytes > 0 || self.error != 0);
        for_reader || self.queued() > 0 || self.shut_later
    }

    // Received.

    #[inline]
    pub(crate) fn push(&mut self, id: u16, len: usize) {
        self.bytes += len;
        self.chunks.push_back(Chunk {
            place: Place::Pooled(id),
            from: 0,
            to: len as u32,
        });
    }

    /// Copies a received buffer, so that the kernel gets it back at once.
    pub(crate) fn push_copy(&mut self, bytes: &[u8]) {
        self.bytes += bytes.len();
        self.chunks.push_back(Chunk {
            place: Place::Heap(bytes.into()),
            from: 0,
            to: bytes.len() as u32,
        });
    }

    /// Moves all bytes out of the pool.
    pub(crate) fn leave_pool(&mut self, pool: &mut Pool) {
        for chunk in &mut self.chunks {
            if let Place::Pooled(id) = chunk.place {
                let bytes = pool.bytes(id, 0, chunk.to as usize).into();
                pool.offer(id);
                chunk.place = Place::Heap(bytes);
            }
        }
    }

    /// Throws away what was received.
    pub(crate) fn discard(&mut self, mut pool: Option<&mut Pool>) {
        for chunk in self.chunks.drain(..) {
            if let (Place::Pooled(id), Some(pool)) = (chunk.place, &mut pool) {
                pool.offer(id);
            }
        }
        self.bytes = 0;
    }

    /// Moves bytes to the program, or copies them if it only peeks, or drops them where `to` has no place.
    ///
    /// # Safety
    /// The places are writable, unless `drop`.
    pub(crate) unsafe fn take(
        &mut self,
        to: &[libc::iovec],
        peek: bool,
        drop: bool,
        mut pool: Option<&mut Pool>,
    ) -> usize {
        if let Some(shared) = &self.shared {
            // SAFETY: the caller's promise.
            let done = unsafe { shared.take(to, peek, drop) };
            self.refresh();
            return done;
        }
        let (mut done, mut at, mut peeked) = (0, 0, 0);
        for place in to {
            let mut filled = 0;
            while filled < place.iov_len {
                let Some(chunk) = self.chunks.get_mut(at) else {
                    return done;
                };
                let from = chunk.from as usize + peeked;
                let len = (chunk.to as usize - from).min(place.iov_len - filled);
                let bytes = match (&chunk.place, &pool) {
                    (Place::Pooled(id), Some(pool)) => pool.bytes(*id, from, from + len),
                    (Place::Heap(bytes), _) => &bytes[from..from + len],
                    (Place::Pooled(_), None) => return done,
                };
                if !drop {
                    // SAFETY: the caller's promise; a program does not read into memory of this library.
                    unsafe { copy(bytes, place, filled) };
                }
                filled += len;
                done += len;
                let ended = from + len == chunk.to as usize;
                if peek {
                    at += usize::from(ended);
                    peeked = if ended { 0 } else { peeked + len };
                    continue;
                }
                chunk.from += len as u32;
                self.bytes -= len;
                if ended {
                    let chunk = self.chunks.pop_front();
                    if let (
                        Some(Chunk {
                            place: Place::Pooled(id),
                            ..
                        }),
                        Some(pool),
                    ) = (chunk, &mut pool)
                    {
                        pool.offer(id);
                    }
                }
            }
        }
        done
    }

    /// Lets a forked child and this process take each byte once.
    pub(crate) fn share(&mut self, cursor: &'static AtomicU32) {
        // allocates: what lies in the pool's buffers
        let mut bytes = Vec::with_capacity(self.bytes);
        for chunk in self.chunks.drain(..) {
            if let Place::Heap(piece) = chunk.place {
                // allocates: reserved above
                bytes.extend_from_slice(&piece[chunk.from as usize..chunk.to as usize]);
            }
        }
        self.shared = Some(Shared { bytes, cursor });
    }

    /// Forgets what was received, when no receive is under way.
    pub(crate) fn drop_received(&mut self) {
        self.chunks.clear();
        self.bytes = 0;
    }

    pub(crate) fn is_shared(&self) -> bool {
        self.shared.is_some()
    }

    /// Looks at what others may have changed: how many bytes another process has left, whether an error was taken.
    #[inline]
    pub(crate) fn refresh(&mut self) {
        if let Some(shared) = &self.shared {
            self.bytes = shared.left();
        }
        if self.broken || self.released && !self.readable && self.bytes == 0 {
            self.ask();
        }
    }

    // Written.

    #[inline]
    pub(crate) fn queued(&self) -> usize {
        self.sending.len() - self.sent + self.queue.len()
    }

    /// Appends to what waits to be sent.
    ///
    /// # Safety
    /// The pieces are readable.
    pub(crate) unsafe fn enqueue(&mut self, from: &[libc::iovec]) {
        for piece in from {
            if piece.iov_len > 0 {
                // SAFETY: the caller's promise.
                let bytes = unsafe { std::slice::from_raw_parts(piece.iov_base.cast::<u8>(), piece.iov_len) };
                // allocates: QUEUE_BYTES at most
                self.queue.extend_from_slice(bytes);
            }
        }
    }

    /// Takes over what another socket has to send.
    pub(crate) fn take_queue(&mut self, other: &mut Socket) {
        self.sending = std::mem::take(&mut other.sending);
        self.queue = std::mem::take(&mut other.queue);
        self.sent = std::mem::take(&mut other.sent);
    }

    /// The next bytes to send, which do not move until [`sent`](Self::sent) is called.
    pub(crate) fn next_send(&mut self) -> Option<(*const u8, u32)> {
        if self.in_flight {
            return None;
        }
        if self.sending.is_empty() {
            if self.queue.is_empty() {
                return None;
            }
            std::mem::swap(&mut self.sending, &mut self.queue);
        }
        let rest = &self.sending[self.sent..];
        Some((rest.as_ptr(), rest.len() as u32))
    }

    /// Whether a part of what was handed over is not sent.
    pub(crate) fn is_sending(&self) -> bool {
        !self.sending.is_empty()
    }

    /// How many of the bytes that were handed over are not sent.
    pub(crate) fn unsent(&self) -> usize {
        self.sending.len() - self.sent
    }

    pub(crate) fn sent(&mut self, count: usize) {
        self.sent += count;
        if self.sent >= self.sending.len() {
            self.sending.clear();
            self.sent = 0;
        }
    }

    /// Throws away what cannot be sent any more.
    pub(crate) fn drop_queue(&mut self) {
        self.queue.clear();
        if !self.in_flight {
            self.sending.clear();
            self.sent = 0;
        }
    }

    /// Sends by plain calls until all is sent or the kernel takes no more. True: all is sent.
    pub(crate) fn flush(&mut self) -> bool {
        while let Some((start, len)) = self.next_send() {
            // SAFETY: the bytes are this socket's own.
            let count = unsafe {
                crate::real::send(
                    self.fd,
                    start.cast(),
                    len as usize,
                    libc::MSG_NOSIGNAL | libc::MSG_DONTWAIT,
                )
            };
            match count {
                1.. => self.sent(count as usize),
                _ => match crate::errno() {
                    libc::EINTR => {}
                    libc::EAGAIN => {
                        self.blocked = true;
                        return false;
                    }
                    error => {
                        self.fail(error);
                        return true;
                    }
                },
            }
        }
        let done = !self.in_flight;
        if done && std::mem::take(&mut self.shut_later) {
            // SAFETY: no pointer is passed.
            unsafe { crate::real::shutdown(self.fd, libc::SHUT_WR) };
        }
        done
    }

    /// Takes note of an error of the connection, and asks the kernel how it is.
    pub(crate) fn fail(&mut self, error: i32) {
        self.drop_queue();
        self.shut_later = false;
        if self.error == 0 && error != libc::EPIPE {
            self.error = error;
        }
        self.ask();
    }
}

const _: () = assert!(BUFFER_BYTES <= u32::MAX as usize);
