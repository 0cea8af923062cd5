//! What takes bytes from a socket.

use crate::interest::hand_back_socket;
use crate::report::Cause;
use crate::transfer::receive;
use crate::{real, table};
use libc::{c_int, c_uint, c_void, iovec, mmsghdr, msghdr, size_t, sockaddr, socklen_t, ssize_t, timespec};

/// The most pieces that the kernel takes.
const MAX_PIECES: usize = 1024;

/// The pieces as a slice. None: the kernel is to say what is wrong with them.
///
/// # Safety
/// `pieces` points to as many.
pub(super) unsafe fn slice<'a>(pieces: *const iovec, count: usize) -> Option<&'a [iovec]> {
    if pieces.is_null() || count == 0 || count > MAX_PIECES {
        return None;
    }
    // SAFETY: the caller's promise.
    Some(unsafe { std::slice::from_raw_parts(pieces, count) })
}

/// # Safety
/// As the function of this name in the C library.
#[no_mangle]
pub unsafe extern "C" fn read(fd: c_int, to: *mut c_void, len: size_t) -> ssize_t {
    // SAFETY: the caller's promise.
    let real = || unsafe { real::read(fd, to, len) };
    let Some(set) = table::socket(fd) else {
        return real();
    };
    // SAFETY: the caller's promise.
    unsafe {
        receive(
            set,
            fd,
            &[iovec {
                iov_base: to,
                iov_len: len,
            }],
            0,
            real,
        )
    }
}

/// # Safety
/// As the function of this name in the C library.
#[no_mangle]
pub unsafe extern "C" fn __read_chk(fd: c_int, to: *mut c_void, len: size_t, room: size_t) -> ssize_t {
    overflow_check(len, room);
    // SAFETY: the caller's promise.
    unsafe { read(fd, to, len) }
}

/// Ends the process, as the C library does, before more is read than there is room for.
pub(super) fn overflow_check(len: size_t, room: size_t) {
    if len > room {
        let text = b"*** buffer overflow detected ***: terminated\n";
        // SAFETY: a live slice; then the process ends.
        unsafe {
            real::write(2, text.as_ptr().cast(), text.len());
            libc::abort();
        }
    }
}

/// # Safety
/// As the function of this name in the C library.
#[no_mangle]
pub unsafe extern "C" fn readv(fd: c_int, to: *const iovec, count: c_int) -> ssize_t {
    // SAFETY: the caller's promise.
    let real = || unsafe { real::readv(fd, to, count) };
    let Some(set) = table::socket(fd) else {
        return real();
    };
    // SAFETY: the caller's promise.
    match unsafe { slice(to, usize::try_from(count).unwrap_or(0)) } {
        // SAFETY: the caller's promise.
        Some(places) => unsafe { receive(set, fd, places, 0, real) },
        None => real(),
    }
}

/// # Safety
/// As the function of this name in the C library.
#[no_mangle]
pub unsafe extern "C" fn recv(fd: c_int, to: *mut c_void, len: size_t, flags: c_int) -> ssize_t {
    // SAFETY: the caller's promise.
    let real = || unsafe { real::recv(fd, to, len, flags) };
    let Some(set) = table::socket(fd) else {
        return real();
    };
    // SAFETY: the caller's promise.
    unsafe {
        receive(
            set,
            fd,
            &[iovec {
                iov_base: to,
                iov_len: len,
            }],
            flags,
            real,
        )
    }
}

/// # Safety
/// As the function of this name in the C library.
#[no_mangle]
pub unsafe extern "C" fn __recv_chk(
    fd: c_int,
    to: *mut c_void,
    len: size_t,
    room: size_t,
    flags: c_int,
) -> ssize_t {
    overflow_check(len, room);
    // SAFETY: the caller's promise.
    unsafe { recv(fd, to, len, flags) }
}

/// # Safety
/// As the function of this name in the C library.
#[no_mangle]
pub unsafe extern "C" fn recvfrom(
    fd: c_int,
    to: *mut c_void,
    len: size_t,
    flags: c_int,
    from: *mut sockaddr,
    from_len: *mut socklen_t,
) -> ssize_t {
    // SAFETY: the caller's promise.
    let real = || unsafe { real::recvfrom(fd, to, len, flags, from, from_len) };
    let Some(set) = table::socket(fd) else {
        return real();
    };
    let mut was_real = false;
    let noted = || {
        was_real = true;
        real()
    };
    // SAFETY: the caller's promise.
    let result = unsafe {
        receive(
            set,
            fd,
            &[iovec {
                iov_base: to,
                iov_len: len,
            }],
            flags,
            noted,
        )
    };
    if result >= 0 && !was_real && !from.is_null() && !from_len.is_null() {
        // A stream has no address to tell.
        // SAFETY: the caller's promise.
        unsafe { *from_len = 0 };
    }
    result
}

/// # Safety
/// As the function of this name in the C library.
#[no_mangle]
pub unsafe extern "C" fn __recvfrom_chk(
    fd: c_int,
    to: *mut c_void,
    len: size_t,
    room: size_t,
    flags: c_int,
    from: *mut sockaddr,
    from_len: *mut socklen_t,
) -> ssize_t {
    overflow_check(len, room);
    // SAFETY: the caller's promise.
    unsafe { recvfrom(fd, to, len, flags, from, from_len) }
}

/// # Safety
/// As the function of this name in the C library.
#[no_mangle]
pub unsafe extern "C" fn recvmsg(fd: c_int, message: *mut msghdr, flags: c_int) -> ssize_t {
    // SAFETY: the caller's promise.
    let real = || unsafe { real::recvmsg(fd, message, flags) };
    let Some(set) = table::socket(fd) else {
        return real();
    };
    // SAFETY: the caller's promise.
    let Some(header) = (unsafe { message.as_mut() }) else {
        return real();
    };
    // SAFETY: the caller's promise.
    let Some(places) = (unsafe { slice(header.msg_iov, header.msg_iovlen) }) else {
        return real();
    };
    let mut was_real = false;
    let noted = || {
        was_real = true;
        real()
    };
    // SAFETY: the caller's promise.
    let result = unsafe { receive(set, fd, places, flags, noted) };
    if result >= 0 && !was_real {
        header.msg_flags = 0;
        header.msg_controllen = 0;
        header.msg_namelen = 0;
    }
    result
}

/// # Safety
/// As the function of this name in the C library.
#[no_mangle]
pub unsafe extern "C" fn recvmmsg(
    fd: c_int,
    messages: *mut mmsghdr,
    count: c_uint,
    flags: c_int,
    timeout: *mut timespec,
) -> c_int {
    if hand_back_socket(fd, Cause::Splice) && count > 0 && !messages.is_null() {
        // What lies here comes first, and as one message.
        // SAFETY: the caller's promise.
        let first = unsafe { &mut *messages };
        // SAFETY: the caller's promise.
        let got = unsafe { recvmsg(fd, &raw mut first.msg_hdr, flags & !libc::MSG_WAITFORONE) };
        first.msg_len = got.max(0) as c_uint;
        return if got < 0 { -1 } else { 1 };
    }
    // SAFETY: the caller's promise.
    unsafe { real::recvmmsg(fd, messages, count, flags, timeout) }
}
