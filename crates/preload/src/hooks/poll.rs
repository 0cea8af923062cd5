//! poll and select on a socket or a set: both are handed back. What was received and not read makes its socket readable.

use crate::interest::{hand_back_set, hand_back_socket};
use crate::report::Cause;
use crate::{errno, real, set_errno, table};
use libc::{c_int, c_short, fd_set, nfds_t, pollfd, sigset_t, timespec, timeval};

const READABLE: c_short = libc::POLLIN | libc::POLLRDNORM;

/// Hands back what is asked about. Returns the conditions that only this library knows of.
fn hand_back(fd: c_int) -> c_short {
    if let Some(set) = table::epoll(fd) {
        hand_back_set(set, Cause::Nested);
    }
    hand_back_socket(fd, Cause::Polled);
    let before = errno();
    let mut known = 0;
    if let Some(mut held) = table::socket(fd).and_then(|set| set.lock(Cause::Polled)) {
        if let Some(socket) = held.socket(fd) {
            if socket.has_enough() {
                known |= READABLE;
            }
            if socket.error != 0 {
                known |= READABLE | libc::POLLERR;
            }
        }
    }
    set_errno(before);
    known
}

/// Answers a poll of which some descriptors have something here. None: none has.
///
/// # Safety
/// `fds` points to `count` entries.
unsafe fn polled(fds: *mut pollfd, count: nfds_t) -> Option<c_int> {
    if fds.is_null() || count > 1 << 20 {
        return None;
    }
    // SAFETY: the caller's promise.
    let entries = unsafe { std::slice::from_raw_parts_mut(fds, count as usize) };
    let mut here = Vec::new();
    for (at, entry) in entries.iter().enumerate() {
        if table::socket(entry.fd).is_some() || table::epoll(entry.fd).is_some() {
            let known = hand_back(entry.fd) & (entry.events | libc::POLLERR);
            if known != 0 {
                here.push((at, known));
            }
        }
    }
    if here.is_empty() {
        return None;
    }
    // SAFETY: the caller's promise.
    if unsafe { real::poll(fds, count, 0) } < 0 {
        return Some(-1);
    }
    for (at, known) in here {
        entries[at].revents |= known;
    }
    Some(entries.iter().filter(|entry| entry.revents != 0).count() as c_int)
}

/// # Safety
/// As the function of this name in the C library.
#[no_mangle]
pub unsafe extern "C" fn poll(fds: *mut pollfd, count: nfds_t, timeout: c_int) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { polled(fds, count).unwrap_or_else(|| real::poll(fds, count, timeout)) }
}

/// # Safety
/// As the function of this name in the C library.
#[no_mangle]
pub unsafe extern "C" fn __poll_chk(fds: *mut pollfd, count: nfds_t, timeout: c_int, room: usize) -> c_int {
    super::read::overflow_check((count as usize).saturating_mul(size_of::<pollfd>()), room);
    // SAFETY: the caller's promise.
    unsafe { poll(fds, count, timeout) }
}

/// # Safety
/// As the function of this name in the C library.
#[no_mangle]
pub unsafe extern "C" fn ppoll(
    fds: *mut pollfd,
    count: nfds_t,
    timeout: *const timespec,
    mask: *const sigset_t,
) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { polled(fds, count).unwrap_or_else(|| real::ppoll(fds, count, timeout, mask)) }
}

/// Hands back what a select asks about. Returns the descriptors that have bytes here and are asked about for reading.
///
/// # Safety
/// The sets are null or sets.
unsafe fn selected(count: c_int, sets: [*mut fd_set; 3]) -> Vec<c_int> {
    let mut here = Vec::new();
    for fd in 0..count.clamp(0, libc::FD_SETSIZE as c_int) {
        if table::socket(fd).is_none() && table::epoll(fd).is_none() {
            continue;
        }
        // SAFETY: the caller's promise; the number is below the set's size.
        let asked = sets.map(|set| !set.is_null() && unsafe { libc::FD_ISSET(fd, set) });
        if asked.contains(&true) && hand_back(fd) != 0 && asked[0] {
            here.push(fd);
        }
    }
    here
}

/// Adds to a select's answer what lies here.
///
/// # Safety
/// `readable` is a set if `here` has anything.
unsafe fn add(here: &[c_int], readable: *mut fd_set, found: c_int) -> c_int {
    let mut found = found;
    for fd in here {
        // SAFETY: the caller's promise.
        unsafe {
            found += c_int::from(!libc::FD_ISSET(*fd, readable));
            libc::FD_SET(*fd, readable);
        }
    }
    found
}

/// # Safety
/// As the function of this name in the C library.
#[no_mangle]
pub unsafe extern "C" fn select(
    count: c_int,
    r: *mut fd_set,
    w: *mut fd_set,
    e: *mut fd_set,
    timeout: *mut timeval,
) -> c_int {
    // SAFETY: the caller's promise.
    let here = unsafe { selected(count, [r, w, e]) };
    let mut now = timeval {
        tv_sec: 0,
        tv_usec: 0,
    };
    let timeout = if here.is_empty() { timeout } else { &raw mut now };
    // SAFETY: the caller's promise.
    match unsafe { real::select(count, r, w, e, timeout) } {
        // SAFETY: the caller's promise.
        found @ 0.. => unsafe { add(&here, r, found) },
        failed => failed,
    }
}

/// # Safety
/// As the function of this name in the C library.
#[no_mangle]
pub unsafe extern "C" fn pselect(
    count: c_int,
    r: *mut fd_set,
    w: *mut fd_set,
    e: *mut fd_set,
    timeout: *const timespec,
    mask: *const sigset_t,
) -> c_int {
    // SAFETY: the caller's promise.
    let here = unsafe { selected(count, [r, w, e]) };
    let now = timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    let timeout = if here.is_empty() { timeout } else { &raw const now };
    // SAFETY: the caller's promise.
    match unsafe { real::pselect(count, r, w, e, timeout, mask) } {
        // SAFETY: the caller's promise.
        found @ 0.. => unsafe { add(&here, r, found) },
        failed => failed,
    }
}
