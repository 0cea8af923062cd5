//! What gives bytes to a socket.

use super::read::slice;
use crate::interest::{hand_back_sent, hand_back_socket};
use crate::report::Cause;
use crate::transfer::{send as transfer, send_directly};
use crate::{real, table};
use libc::{c_int, c_uint, c_void, iovec, mmsghdr, msghdr, off_t, size_t, sockaddr, socklen_t, ssize_t};

fn piece(from: *const c_void, len: size_t) -> iovec {
    iovec {
        iov_base: from.cast_mut(),
        iov_len: len,
    }
}

/// # Safety
/// As the function of this name in the C library.
#[no_mangle]
pub unsafe extern "C" fn write(fd: c_int, from: *const c_void, len: size_t) -> ssize_t {
    // SAFETY: the caller's promise.
    let real = || unsafe { real::write(fd, from, len) };
    if table::is_own(fd) {
        crate::set_errno(libc::EBADF);
        return -1;
    }
    let Some(set) = table::socket(fd) else {
        return real();
    };
    // SAFETY: the caller's promise.
    unsafe { transfer(set, fd, &[piece(from, len)], 0, real) }
}

/// # Safety
/// As the function of this name in the C library.
#[no_mangle]
pub unsafe extern "C" fn writev(fd: c_int, from: *const iovec, count: c_int) -> ssize_t {
    // SAFETY: the caller's promise.
    let real = || unsafe { real::writev(fd, from, count) };
    let Some(set) = table::socket(fd) else {
        return real();
    };
    // SAFETY: the caller's promise.
    match unsafe { slice(from, usize::try_from(count).unwrap_or(0)) } {
        // SAFETY: the caller's promise.
        Some(pieces) => unsafe { transfer(set, fd, pieces, 0, real) },
        None => real(),
    }
}

/// # Safety
/// As the function of this name in the C library.
#[no_mangle]
pub unsafe extern "C" fn pwritev2(
    fd: c_int,
    from: *const iovec,
    count: c_int,
    at: off_t,
    flags: c_int,
) -> ssize_t {
    // SAFETY: the caller's promise.
    let real = || unsafe { real::pwritev2(fd, from, count, at, flags) };
    // Without a position it is writev.
    match table::socket(fd).filter(|_| at == -1) {
        Some(set) => send_directly(set, fd, 0, real),
        None => real(),
    }
}

/// # Safety
/// As the function of this name in the C library.
#[no_mangle]
pub unsafe extern "C" fn pwritev64v2(
    fd: c_int,
    from: *const iovec,
    count: c_int,
    at: off_t,
    flags: c_int,
) -> ssize_t {
    // SAFETY: the caller's promise.
    unsafe { pwritev2(fd, from, count, at, flags) }
}

/// # Safety
/// As the function of this name in the C library.
#[no_mangle]
pub unsafe extern "C" fn send(fd: c_int, from: *const c_void, len: size_t, flags: c_int) -> ssize_t {
    // SAFETY: the caller's promise.
    let real = || unsafe { real::send(fd, from, len, flags) };
    let Some(set) = table::socket(fd) else {
        return real();
    };
    // SAFETY: the caller's promise.
    unsafe { transfer(set, fd, &[piece(from, len)], flags, real) }
}

/// # Safety
/// As the function of this name in the C library.
#[no_mangle]
pub unsafe extern "C" fn sendto(
    fd: c_int,
    from: *const c_void,
    len: size_t,
    flags: c_int,
    to: *const sockaddr,
    to_len: socklen_t,
) -> ssize_t {
    // SAFETY: the caller's promise.
    let real = || unsafe { real::sendto(fd, from, len, flags, to, to_len) };
    let Some(set) = table::socket(fd) else {
        return real();
    };
    if !to.is_null() {
        // The kernel says what it thinks of an address.
        return send_directly(set, fd, len, real);
    }
    // SAFETY: the caller's promise.
    unsafe { transfer(set, fd, &[piece(from, len)], flags, real) }
}

/// # Safety
/// As the function of this name in the C library.
#[no_mangle]
pub unsafe extern "C" fn sendmsg(fd: c_int, message: *const msghdr, flags: c_int) -> ssize_t {
    // SAFETY: the caller's promise.
    let header = unsafe { message.as_ref() };
    if let Some(header) = header.filter(|header| header.msg_controllen > 0) {
        // SAFETY: the caller's promise.
        unsafe { hand_back_sent_with(header) };
    }
    // SAFETY: the caller's promise.
    let real = || unsafe { real::sendmsg(fd, message, flags) };
    let (Some(set), Some(header)) = (table::socket(fd), header) else {
        return real();
    };
    // SAFETY: the caller's promise.
    let pieces = unsafe { slice(header.msg_iov, header.msg_iovlen) };
    match pieces {
        // SAFETY: the caller's promise.
        Some(pieces) if header.msg_controllen == 0 && header.msg_name.is_null() => unsafe {
            transfer(set, fd, pieces, flags, real)
        },
        // A control message goes with its bytes, and the kernel says what it thinks of an address.
        _ => send_directly(set, fd, 0, real),
    }
}

/// # Safety
/// As the function of this name in the C library.
#[no_mangle]
pub unsafe extern "C" fn sendmmsg(fd: c_int, messages: *mut mmsghdr, count: c_uint, flags: c_int) -> c_int {
    for at in 0..if messages.is_null() { 0 } else { count as usize } {
        // SAFETY: the caller's promise.
        let header = unsafe { &(*messages.add(at)).msg_hdr };
        if header.msg_controllen > 0 {
            // SAFETY: the caller's promise.
            unsafe { hand_back_sent_with(header) };
        }
    }
    // SAFETY: the caller's promise.
    let real = || unsafe { real::sendmmsg(fd, messages, count, flags) };
    match table::socket(fd) {
        Some(set) => send_directly(set, fd, 0, || real() as ssize_t) as c_int,
        None => real(),
    }
}

/// Hands back the sockets and sets whose descriptors go along with a message.
///
/// # Safety
/// The header is one.
#[cold]
unsafe fn hand_back_sent_with(header: &msghdr) {
    // SAFETY: the caller's promise; these stay within the control messages.
    unsafe {
        let mut at = libc::CMSG_FIRSTHDR(header);
        while let Some(control) = at.as_ref() {
            if control.cmsg_level == libc::SOL_SOCKET && control.cmsg_type == libc::SCM_RIGHTS {
                let head = libc::CMSG_LEN(0) as usize;
                let count = control.cmsg_len.saturating_sub(head) / size_of::<c_int>();
                let first = libc::CMSG_DATA(at).cast::<c_int>();
                for number in 0..count {
                    hand_back_sent(first.add(number).read_unaligned());
                }
            }
            at = libc::CMSG_NXTHDR(header, at);
        }
    }
}

/// A file, or a socket that is handed back first, to a socket.
fn copied(to: c_int, from: c_int, len: usize, real: impl FnOnce() -> ssize_t) -> ssize_t {
    if hand_back_socket(from, Cause::Splice) {
        // The bytes that lie here must be read before any that the kernel has.
        crate::set_errno(libc::EINVAL);
        return -1;
    }
    match table::socket(to) {
        Some(set) => send_directly(set, to, len, real),
        None => real(),
    }
}

/// # Safety
/// As the function of this name in the C library.
#[no_mangle]
pub unsafe extern "C" fn sendfile(to: c_int, from: c_int, offset: *mut off_t, count: size_t) -> ssize_t {
    // SAFETY: the caller's promise.
    copied(to, from, count, || unsafe {
        real::sendfile(to, from, offset, count)
    })
}

/// # Safety
/// As the function of this name in the C library.
#[no_mangle]
pub unsafe extern "C" fn sendfile64(to: c_int, from: c_int, offset: *mut off_t, count: size_t) -> ssize_t {
    // SAFETY: the caller's promise.
    copied(to, from, count, || unsafe {
        real::sendfile64(to, from, offset, count)
    })
}

/// # Safety
/// As the function of this name in the C library.
#[no_mangle]
pub unsafe extern "C" fn splice(
    from: c_int,
    from_offset: *mut i64,
    to: c_int,
    to_offset: *mut i64,
    len: size_t,
    flags: c_uint,
) -> ssize_t {
    // SAFETY: the caller's promise.
    let real = || unsafe { real::splice(from, from_offset, to, to_offset, len, flags) };
    if from_offset.is_null() && len > 0 && hand_back_socket(from, Cause::Splice) {
        // What lies here goes into the pipe first. It fits at least a byte, or the pipe is full.
        return from_memory(from, to, len, flags);
    }
    match table::socket(to) {
        Some(set) => send_directly(set, to, len, real),
        None => real(),
    }
}

/// Writes what was received from a socket into a pipe, waiting for room as `splice` does. What the pipe refuses stays with
/// the socket.
fn from_memory(from: c_int, to: c_int, len: usize, flags: c_uint) -> ssize_t {
    if let Err(errno) = wait_for_room(to, flags) {
        crate::set_errno(errno);
        return -1;
    }
    // A pipe that polls writable takes this much at once.
    let mut bytes = [0u8; 4096];
    let len = len.min(bytes.len());
    // SAFETY: a live buffer of that length.
    let got = unsafe { super::read::recv(from, bytes.as_mut_ptr().cast(), len, libc::MSG_DONTWAIT) };
    if got <= 0 {
        return got;
    }
    // SAFETY: as many live bytes.
    unsafe { real::write(to, bytes.as_ptr().cast(), got as usize) }
}

/// Waits until a pipe has room, or says with which errno `splice` fails.
fn wait_for_room(to: c_int, flags: c_uint) -> Result<(), c_int> {
    // SAFETY: zero is a valid value for the C struct.
    let mut facts: libc::stat = unsafe { std::mem::zeroed() };
    // SAFETY: a live place for the answer.
    if unsafe { libc::fstat(to, &raw mut facts) } < 0 {
        return Err(libc::EBADF);
    }
    if facts.st_mode & libc::S_IFMT != libc::S_IFIFO {
        return Err(libc::EINVAL);
    }
    // SAFETY: no pointer is passed.
    let status = unsafe { real::fcntl(to, libc::F_GETFL, 0) };
    if status & libc::O_ACCMODE == libc::O_RDONLY {
        return Err(libc::EBADF);
    }
    let waits = flags & libc::SPLICE_F_NONBLOCK == 0 && status & libc::O_NONBLOCK == 0;
    let mut room = libc::pollfd {
        fd: to,
        events: libc::POLLOUT,
        revents: 0,
    };
    // SAFETY: one live entry.
    match unsafe { real::poll(&raw mut room, 1, if waits { -1 } else { 0 }) } {
        0 => return Err(libc::EAGAIN),
        1.. => {}
        _ => return Err(crate::errno()),
    }
    if room.revents & libc::POLLERR != 0 {
        // Nobody reads from it.
        // SAFETY: no pointer is passed.
        unsafe { libc::raise(libc::SIGPIPE) };
        return Err(libc::EPIPE);
    }
    Ok(())
}
