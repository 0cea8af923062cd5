//! Second names of descriptors, and streams of the C library on them.

use super::close::before;
use crate::interest::{hand_back_socket, keep_off};
use crate::report::Cause;
use crate::{errno, fork, real, report, set_errno, table};
use libc::{c_char, c_int};

/// Says that two descriptors share what they are.
pub(super) fn shared(fd: c_int, copy: c_int) {
    if copy < 0 || copy == fd || !report::is_this_process() {
        return;
    }
    let before = errno();
    fork::outlive_exec(fd);
    match table::epoll(fd) {
        Some(set) => set.add_name(copy),
        None => {
            table::set_plain(fd);
            table::set_plain(copy);
        }
    }
    set_errno(before);
}

/// # Safety
/// As the function of this name in the C library.
#[no_mangle]
pub unsafe extern "C" fn dup(fd: c_int) -> c_int {
    hand_back_socket(fd, Cause::Duplicated);
    // SAFETY: the caller's promise.
    let copy = unsafe { real::dup(fd) };
    shared(fd, copy);
    copy
}

fn replaces(fd: c_int, to: c_int) -> bool {
    hand_back_socket(fd, Cause::Duplicated);
    // A descriptor that is not open takes no other's place.
    // SAFETY: no pointer is passed.
    fd != to && unsafe { real::fcntl(fd, libc::F_GETFD, 0) } >= 0
}

/// # Safety
/// As the function of this name in the C library.
#[no_mangle]
pub unsafe extern "C" fn dup2(fd: c_int, to: c_int) -> c_int {
    if replaces(fd, to) && !before(to) {
        set_errno(libc::EBUSY);
        return -1;
    }
    // SAFETY: the caller's promise.
    let copy = unsafe { real::dup2(fd, to) };
    shared(fd, copy);
    copy
}

/// # Safety
/// As the function of this name in the C library.
#[no_mangle]
pub unsafe extern "C" fn dup3(fd: c_int, to: c_int, flags: c_int) -> c_int {
    // With other flags it fails, and `to` stays open.
    if flags & !libc::O_CLOEXEC == 0 && replaces(fd, to) && !before(to) {
        set_errno(libc::EBUSY);
        return -1;
    }
    // SAFETY: the caller's promise.
    let copy = unsafe { real::dup3(fd, to, flags) };
    shared(fd, copy);
    copy
}

/// # Safety
/// As the function of this name in the C library.
#[no_mangle]
pub unsafe extern "C" fn fdopen(fd: c_int, mode: *const c_char) -> *mut libc::FILE {
    // A stream reads inside the C library, where there is no hook.
    keep_off(fd, Cause::Stdio);
    // SAFETY: the caller's promise.
    unsafe { real::fdopen(fd, mode) }
}
