//! What takes bytes from a socket.

use crate::report::Cause;
use crate::set::Set;
use crate::transfer::receive;
use crate::{errno, real, set_errno, table};
use libc::{
    c_int, c_uint, c_void, iovec, mmsghdr, msghdr, off_t, size_t, sockaddr, socklen_t, ssize_t, timespec,
};

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
    let Some(set) = table::socket(fd).filter(|_| len > 0) else {
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
        Some(places) if places.iter().any(|place| place.iov_len > 0) => unsafe {
            receive(set, fd, places, 0, real)
        },
        _ => real(),
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
        header.msg_flags = flags & libc::MSG_CMSG_CLOEXEC;
        header.msg_controllen = 0;
        if !header.msg_name.is_null() {
            header.msg_namelen = 0;
        }
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
    let Some(set) = table::socket(fd).filter(|_| count > 0 && !messages.is_null()) else {
        // SAFETY: the caller's promise.
        return unsafe { real::recvmmsg(fd, messages, count, flags, timeout) };
    };
    // The kernel looks for an error before it looks for bytes.
    if let Some(error) = take_error(set, fd) {
        set_errno(error);
        return -1;
    }
    let count = (count as usize).min(MAX_PIECES);
    // SAFETY: the caller's promise.
    let messages = unsafe { std::slice::from_raw_parts_mut(messages, count) };
    let before = errno();
    let mut done = 0;
    // A socket on a ring does not block, so each message gets what is here now.
    for message in messages {
        // SAFETY: the caller's promise.
        let got = unsafe { recvmsg(fd, &raw mut message.msg_hdr, flags & !libc::MSG_WAITFORONE) };
        if got < 0 {
            break;
        }
        message.msg_len = got as c_uint;
        done += 1;
    }
    if done == 0 {
        return -1;
    }
    let error = errno();
    if (done as usize) < count && error != libc::EAGAIN {
        // It is the next call's.
        if let Some(mut held) = set.lock(Cause::OtherThread) {
            if let Some(socket) = held.socket(fd) {
                socket.error = error;
            }
        }
    }
    set_errno(before);
    done
}

fn take_error(set: &'static Set, fd: c_int) -> Option<c_int> {
    let mut held = set.lock(Cause::OtherThread)?;
    held.look(fd, usize::MAX);
    let error = std::mem::take(&mut held.socket(fd)?.error);
    (error != 0).then_some(error)
}

unsafe fn read_by_position(
    fd: c_int,
    to: *const iovec,
    count: c_int,
    at: off_t,
    flags: c_int,
    real: impl FnOnce() -> ssize_t,
) -> ssize_t {
    // Without a position it is readv. No other flag means anything to a socket.
    if at == -1 && flags & !libc::RWF_NOWAIT == 0 && table::socket(fd).is_some() {
        // SAFETY: the caller's promise.
        return unsafe { readv(fd, to, count) };
    }
    real()
}

/// # Safety
/// As the function of this name in the C library.
#[no_mangle]
pub unsafe extern "C" fn preadv2(
    fd: c_int,
    to: *const iovec,
    count: c_int,
    at: off_t,
    flags: c_int,
) -> ssize_t {
    // SAFETY: the caller's promise.
    unsafe {
        read_by_position(fd, to, count, at, flags, || {
            real::preadv2(fd, to, count, at, flags)
        })
    }
}

/// # Safety
/// As the function of this name in the C library.
#[no_mangle]
pub unsafe extern "C" fn preadv64v2(
    fd: c_int,
    to: *const iovec,
    count: c_int,
    at: off_t,
    flags: c_int,
) -> ssize_t {
    // SAFETY: the caller's promise.
    unsafe { preadv2(fd, to, count, at, flags) }
}
