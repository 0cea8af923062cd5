//! close, shutdown, and what closes many.

use crate::report::{self, Cause};
use crate::set::Phase;
use crate::{errno, real, set_errno, table};
use libc::{c_int, c_uint};

/// Prepares a descriptor for its close. False: it is this library's own and stays open.
pub(super) fn before(fd: c_int) -> bool {
    if !table::is_known(fd) {
        return true;
    }
    if table::is_own(fd) {
        return false;
    }
    if !report::is_this_process() {
        // Of vfork: its close is not ours, and the memory is its parent's.
        return true;
    }
    let saved = errno();
    if let Some(set) = table::socket(fd) {
        if let Some(mut held) = set.lock(Cause::OtherThread) {
            held.close(fd);
        }
    } else if let Some(set) = table::epoll(fd) {
        let name = fd;
        if let Some(mut held) = set.lock(Cause::OtherThread) {
            held.names.retain(|one| *one != name);
            if let Some(other) = held.names.first().copied() {
                held.epfd = other;
                table::clear(name);
                set_errno(saved);
                return true;
            }
            for fd in held.all() {
                if let Some(socket) = held.socket(fd) {
                    socket.member = false;
                }
            }
            match held.phase {
                Phase::Ring => held.leave(),
                Phase::Idle => held.leave(),
                Phase::Plain | Phase::Closed => {}
            }
            held.phase = if held.count == 0 {
                Phase::Closed
            } else {
                Phase::Plain
            };
            held.drop_flag(set);
            held.drop_edges();
            held.epfd = -1;
        }
        table::clear(fd);
    } else {
        table::clear(fd);
    }
    set_errno(saved);
    true
}

/// # Safety
/// As the function of this name in the C library.
#[no_mangle]
pub unsafe extern "C" fn close(fd: c_int) -> c_int {
    if !before(fd) {
        set_errno(libc::EBADF);
        return -1;
    }
    // SAFETY: the caller's promise.
    unsafe { real::close(fd) }
}

/// # Safety
/// As the function of this name in the C library.
#[no_mangle]
pub unsafe extern "C" fn close_range(first: c_uint, last: c_uint, flags: c_int) -> c_int {
    if flags == 0 {
        return range(first, last);
    }
    // SAFETY: the caller's promise.
    unsafe { real::close_range(first, last, flags) }
}

/// # Safety
/// As the function of this name in the C library.
#[no_mangle]
pub unsafe extern "C" fn closefrom(first: c_int) {
    range(first.max(0) as c_uint, c_uint::MAX);
}

/// Closes a range, around what is this library's own.
fn range(first: c_uint, last: c_uint) -> c_int {
    if first > last {
        set_errno(libc::EINVAL);
        return -1;
    }
    let mut from = first;
    for fd in table::known(first, last) {
        if before(fd) {
            continue;
        }
        let own = fd as c_uint;
        if own > from {
            // SAFETY: no pointer is passed.
            unsafe { real::close_range(from, own - 1, 0) };
        }
        from = own + 1;
    }
    if from > last {
        return 0;
    }
    // SAFETY: no pointer is passed.
    unsafe { real::close_range(from, last, 0) }
}

/// # Safety
/// As the function of this name in the C library.
#[no_mangle]
pub unsafe extern "C" fn shutdown(fd: c_int, how: c_int) -> c_int {
    if let Some(set) = table::socket(fd) {
        let saved = errno();
        if let Some(mut held) = set.lock(Cause::OtherThread) {
            let is_sent = how == libc::SHUT_RD || held.flush(fd);
            if let Some(socket) = held.socket(fd) {
                if !is_sent {
                    // The end comes after the bytes.
                    socket.shut = true;
                    socket.shut_later = true;
                    held.touch(fd);
                    if how == libc::SHUT_RDWR {
                        // SAFETY: no pointer is passed.
                        unsafe { real::shutdown(fd, libc::SHUT_RD) };
                    }
                    return 0;
                }
            }
            // SAFETY: the caller's promise.
            let result = unsafe { real::shutdown(fd, how) };
            let after = errno();
            if let Some(socket) = held.socket(fd) {
                socket.shut |= result == 0 && how != libc::SHUT_RD;
                socket.ask();
            }
            held.mark(fd);
            set_errno(if result < 0 { after } else { saved });
            return result;
        }
    }
    // SAFETY: the caller's promise.
    unsafe { real::shutdown(fd, how) }
}
