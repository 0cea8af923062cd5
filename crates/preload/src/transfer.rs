//! Reading and writing of a socket that is on a ring.

use crate::report::{options, Cause};
use crate::ring::BUFFER_BYTES;
use crate::set::{Inner, Phase, Set};
use crate::socket::{Socket, QUEUE_BYTES};
use crate::{errno, real, set_errno, table};
use libc::{c_int, iovec, ssize_t};
use std::os::fd::RawFd;

/// With so many sockets reported by the last wait, or fewer, writes go to the kernel at once.
const DIRECT_SOCKETS: usize = 2;
/// Longer writes go to the kernel at once: copying costs more than a call.
const COPIED_BYTES: usize = 16 << 10;
/// Flags of a receive that asks for something else than the next bytes. TCP ignores those that it does not know.
const ELSEWHERE: c_int = libc::MSG_ERRQUEUE | MSG_SOCK_DEVMEM;
/// Linux 6.12 (include/linux/socket.h).
const MSG_SOCK_DEVMEM: c_int = 0x200_0000;
/// No mapping of a program's begins below: `vm.mmap_min_addr` is never less where it is not turned off.
pub(crate) const FIRST_ADDRESS: usize = 4096;
/// Flags of a send that say nothing that a queue does not do.
const SEND_FLAGS: c_int = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;

/// What a hook does.
pub(crate) enum Answer {
    Done(usize),
    Fail(c_int),
    /// Call the real function.
    Real,
}

/// Whole ticks of a clock that costs next to nothing to read.
pub(crate) fn ticks() -> i64 {
    let mut now = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: one live time.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC_COARSE, &raw mut now) };
    now.tv_sec * 1_000_000_000 + now.tv_nsec
}

/// The bytes that the pieces have together. None: the kernel says what is wrong with them.
fn total(pieces: &[iovec]) -> Option<usize> {
    let mut sum: isize = 0;
    for piece in pieces {
        // Addresses from the middle on are the kernel's own, and lengths from there on are negative.
        let is_user = (piece.iov_base as isize) >= 0;
        let len = isize::try_from(piece.iov_len).ok().filter(|_| is_user)?;
        sum = sum.saturating_add(len);
    }
    Some(sum as usize)
}

/// Whether one of the pieces is where nothing can be.
fn has_null(pieces: &[iovec]) -> bool {
    pieces
        .iter()
        .any(|piece| piece.iov_len > 0 && (piece.iov_base as usize) < FIRST_ADDRESS)
}

impl Inner {
    /// # Safety
    /// The places are writable.
    unsafe fn read(&mut self, fd: RawFd, to: &[iovec], flags: c_int) -> Answer {
        if flags & libc::MSG_OOB != 0 {
            self.hand_back_socket(fd, Cause::Urgent);
            return Answer::Real;
        }
        if flags & ELSEWHERE != 0 {
            return Answer::Real;
        }
        let has_worker = self.has_worker();
        let (Some(socket), Some(room)) = (self.socket(fd), total(to)) else {
            return Answer::Real;
        };
        if socket.lent {
            return Answer::Real;
        }
        socket.refresh();
        // A full buffer may be the first of several that one message has filled.
        let is_full = socket.bytes.is_multiple_of(BUFFER_BYTES);
        let may_have_more = is_full || options().workers.in_step && socket.bytes < room;
        if socket.armed && (socket.bytes == 0 || has_worker && may_have_more) {
            self.look(fd, room.max(1));
        }
        if self
            .socket(fd)
            .is_some_and(|socket| socket.armed && socket.has_end_in_kernel())
        {
            // No more comes: from here on the kernel is read by plain calls.
            self.cancel(fd);
        }
        let (ring, Some(socket)) = (
            &mut self.ring,
            self.sockets.get_mut(fd as usize).and_then(Option::as_deref_mut),
        ) else {
            return Answer::Real;
        };
        let peek = flags & libc::MSG_PEEK != 0;
        if socket.bytes > 0 {
            let drop = flags & libc::MSG_TRUNC != 0;
            if room == 0 {
                return Answer::Done(0);
            }
            if !drop && has_null(to) {
                return Answer::Fail(libc::EFAULT);
            }
            // A receive that was stopped has left the rest in the kernel, and a short count says that there is none.
            let is_stopped = !socket.armed && !socket.drained && socket.error == 0;
            let in_place = to.len() == 1 && !peek && !drop;
            if is_stopped && !in_place && !socket.is_shared() && socket.bytes < room {
                fetch(socket, room - socket.bytes);
            }
            // SAFETY: the caller's promise.
            let mut done = unsafe { socket.take(to, peek, drop, ring.as_mut().map(|ring| &mut ring.pool)) };
            if done > 0 {
                if let ([place], true, true) = (to, is_stopped && in_place, socket.bytes == 0) {
                    // SAFETY: the caller's promise.
                    done += unsafe { rest_of(socket, place, done) };
                }
                if !peek && socket.bytes < socket.low_water() && (socket.released || !socket.armed) {
                    self.after_last_byte(fd);
                }
                return Answer::Done(done);
            }
        }
        if socket.error != 0 {
            // A peek takes it, too.
            let error = std::mem::take(&mut socket.error);
            socket.end_seen = true;
            self.after_last_byte(fd);
            return Answer::Fail(error);
        }
        socket.readable = false;
        let released = socket.released;
        if socket.eof && !peek {
            socket.end_seen = true;
            self.touch(fd);
        }
        if released {
            // Only the kernel knows what this leaves.
            self.mark(fd);
        }
        if socket_is_empty(self, fd) {
            return Answer::Fail(libc::EAGAIN);
        }
        Answer::Real
    }

    fn after_last_byte(&mut self, fd: RawFd) {
        self.touch(fd);
        if self.socket(fd).is_some_and(|socket| socket.released) {
            self.release(fd);
        }
    }

    /// # Safety
    /// The pieces are readable.
    unsafe fn write(&mut self, fd: RawFd, from: &[iovec], flags: c_int) -> Answer {
        let len = total(from).filter(|_| !has_null(from));
        // A long turn: no reply is to wait until it ends.
        let has_worker = self.has_worker();
        let is_slow = || self.batch <= DIRECT_SOCKETS || ticks() != self.turn;
        let at_once = self.phase != Phase::Ring || !has_worker && is_slow();
        let Some(socket) = self.socket(fd) else {
            return Answer::Real;
        };
        if socket.error != 0 {
            let error = std::mem::take(&mut socket.error);
            socket.end_seen = true;
            self.after_last_byte(fd);
            return Answer::Fail(error);
        }
        if socket.shut_later {
            // The program has said that it writes no more.
            if flags & libc::MSG_NOSIGNAL == 0 {
                // SAFETY: no pointer is passed. A handler that uses a socket now gets EAGAIN.
                unsafe { libc::raise(libc::SIGPIPE) };
            }
            return Answer::Fail(libc::EPIPE);
        }
        let is_open = !(socket.shut || socket.eof || socket.released || socket.hung_up);
        let can_wait = is_open && !at_once && !socket.blocked;
        let fits = |len: &usize| *len <= COPIED_BYTES && socket.queued() + len <= QUEUE_BYTES;
        if let Some(len) = len.filter(|len| can_wait && fits(len) && flags & !SEND_FLAGS == 0) {
            if len > 0 {
                // SAFETY: the caller's promise.
                unsafe { socket.enqueue(from) };
                self.stats.queued_sends += 1;
                self.touch(fd);
                if has_worker {
                    self.push_send(fd);
                }
            }
            return Answer::Done(len);
        }
        self.before_direct(fd)
    }

    /// Sends what is queued, so that the real call comes after it.
    fn before_direct(&mut self, fd: RawFd) -> Answer {
        self.stats.direct_sends += 1;
        let Some(socket) = self.socket(fd) else {
            return Answer::Real;
        };
        if socket.queued() == 0 && !socket.in_flight {
            return Answer::Real;
        }
        if self.flush(fd) {
            return Answer::Real;
        }
        self.touch(fd);
        Answer::Fail(libc::EAGAIN)
    }

    /// Takes note of how the real call went.
    fn after_direct(&mut self, fd: RawFd, result: ssize_t, len: usize) {
        let is_full = match result {
            ..0 => errno() == libc::EAGAIN,
            count => (count as usize) < len,
        };
        let before = errno();
        let is_on_ring = self.phase == Phase::Ring;
        if let Some(socket) = self.socket(fd).filter(|socket| is_full && !socket.lent) {
            // Room that comes is an edge.
            socket.told_room = false;
            if is_on_ring {
                socket.blocked = true;
                self.touch(fd);
            }
        }
        set_errno(before);
    }
}

/// Fills the rest of a place from the kernel. An error is the next call's.
///
/// # Safety
/// The place is writable.
unsafe fn rest_of(socket: &mut Socket, place: &iovec, done: usize) -> usize {
    if done >= place.iov_len {
        return 0;
    }
    // SAFETY: the caller's promise.
    let rest = unsafe {
        let start = place.iov_base.cast::<u8>().add(done);
        std::slice::from_raw_parts_mut(start, place.iov_len - done)
    };
    from_kernel(socket, rest)
}

/// Takes up to `room` bytes from the kernel, behind those that lie here: for what one call of the kernel's cannot do. An
/// error is a later call's.
#[cold]
fn fetch(socket: &mut Socket, room: usize) {
    let mut bytes = [0; BUFFER_BYTES];
    let mut left = room;
    while left > 0 {
        let len = left.min(bytes.len());
        let got = from_kernel(socket, &mut bytes[..len]);
        if got > 0 {
            socket.push_copy(&bytes[..got]);
        }
        if got < len {
            return;
        }
        left -= got;
    }
}

fn from_kernel(socket: &mut Socket, to: &mut [u8]) -> usize {
    // SAFETY: live bytes.
    let got = unsafe { real::recv(socket.fd, to.as_mut_ptr().cast(), to.len(), libc::MSG_DONTWAIT) };
    if got < 0 && !matches!(errno(), libc::EAGAIN | libc::EINTR) {
        socket.error = errno();
        socket.eof = true;
    }
    let got = got.max(0) as usize;
    socket.readable &= got == to.len();
    got
}

/// Whether the kernel has nothing for a socket either: its receive takes all that comes.
fn socket_is_empty(set: &mut Inner, fd: RawFd) -> bool {
    set.socket(fd).is_some_and(|socket| socket.armed && !socket.eof)
}

fn finish(answer: Answer, real: impl FnOnce() -> ssize_t) -> ssize_t {
    match answer {
        Answer::Done(count) => count as ssize_t,
        Answer::Fail(error) => {
            set_errno(error);
            -1
        }
        Answer::Real => real(),
    }
}

/// Receives on a socket of `set`.
///
/// # Safety
/// The places are writable.
#[inline]
pub(crate) unsafe fn receive(
    set: &'static Set,
    fd: RawFd,
    to: &[iovec],
    flags: c_int,
    real: impl FnOnce() -> ssize_t,
) -> ssize_t {
    let before = errno();
    let answer = match set.lock(Cause::OtherThread) {
        None => Answer::Fail(libc::EAGAIN),
        // SAFETY: the caller's promise.
        Some(mut held) => unsafe { held.read(fd, to, flags) },
    };
    set_errno(before);
    finish(answer, real)
}

/// Sends on a socket of `set`.
///
/// # Safety
/// The pieces are readable.
#[inline]
pub(crate) unsafe fn send(
    set: &'static Set,
    fd: RawFd,
    from: &[iovec],
    flags: c_int,
    real: impl FnOnce() -> ssize_t,
) -> ssize_t {
    let before = errno();
    let answer = match set.lock(Cause::OtherThread) {
        None => Answer::Fail(libc::EAGAIN),
        // SAFETY: the caller's promise.
        Some(mut held) => unsafe { held.write(fd, from, flags) },
    };
    set_errno(before);
    directly(set, fd, answer, total(from).unwrap_or(0), real)
}

/// Lets a call that takes bytes from elsewhere (a file, many messages) write to a socket, after what is queued.
pub(crate) fn send_directly(
    set: &'static Set,
    fd: RawFd,
    len: usize,
    real: impl FnOnce() -> ssize_t,
) -> ssize_t {
    let before = errno();
    let answer = match set.lock(Cause::OtherThread) {
        None => Answer::Fail(libc::EAGAIN),
        Some(mut held) => held.before_direct(fd),
    };
    set_errno(before);
    directly(set, fd, answer, len, real)
}

fn directly(
    set: &'static Set,
    fd: RawFd,
    answer: Answer,
    len: usize,
    real: impl FnOnce() -> ssize_t,
) -> ssize_t {
    let is_real = matches!(answer, Answer::Real);
    let result = finish(answer, real);
    // A full send says that the kernel has room, and needs no second look.
    if is_real && (result < 0 || (result as usize) < len) && table::socket(fd).is_some() {
        if let Some(mut held) = set.hold() {
            held.after_direct(fd, result, len);
        }
    }
    result
}
