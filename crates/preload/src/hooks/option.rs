//! Socket options that concern what was received or what comes next.

use crate::interest::keep_off;
use crate::report::Cause;
use crate::set::Set;
use crate::{real, set_errno, table};
use libc::{c_int, c_void, socklen_t};

/// `TCP_ULP`: TLS in the kernel (include/uapi/linux/tcp.h).
const TCP_ULP: c_int = 31;
const TCP_INQ: c_int = 36;
const SO_PEEK_OFF: c_int = 42;
const SO_TIMESTAMP_NEW: c_int = 63;
const SO_TIMESTAMPING_NEW: c_int = 65;

/// # Safety
/// As the function of this name in the C library.
#[no_mangle]
pub unsafe extern "C" fn getsockopt(
    fd: c_int,
    level: c_int,
    name: c_int,
    value: *mut c_void,
    len: *mut socklen_t,
) -> c_int {
    // SAFETY: the caller's promise.
    let result = unsafe { real::getsockopt(fd, level, name, value, len) };
    if result < 0 || level != libc::SOL_SOCKET || !matches!(name, libc::SO_ERROR | libc::SO_RCVLOWAT) {
        return result;
    }
    let Some(set) = table::socket(fd) else {
        return result;
    };
    // SAFETY: the kernel has looked at the length.
    if (unsafe { *len } as usize) < size_of::<c_int>() {
        return result;
    }
    let before = crate::errno();
    if let Some(mut held) = set.lock(Cause::OtherThread) {
        held.look(fd, usize::MAX);
        if let Some(socket) = held.socket(fd) {
            // SAFETY: the kernel has written a number there.
            let value = unsafe { &mut *value.cast::<c_int>() };
            if name == libc::SO_RCVLOWAT {
                *value = socket.low_water() as c_int;
            } else {
                let error = std::mem::take(&mut socket.error);
                if *value == 0 {
                    *value = error;
                }
            }
        }
    }
    set_errno(before);
    result
}

/// # Safety
/// As the function of this name in the C library.
#[no_mangle]
pub unsafe extern "C" fn setsockopt(
    fd: c_int,
    level: c_int,
    name: c_int,
    value: *const c_void,
    len: socklen_t,
) -> c_int {
    if !is_special(level, name) {
        // SAFETY: the caller's promise.
        return unsafe { real::setsockopt(fd, level, name, value, len) };
    }
    if level == libc::SOL_SOCKET && name == libc::SO_RCVLOWAT {
        if let Some(set) = table::socket(fd) {
            // SAFETY: the caller's promise.
            return unsafe { set_low_water(set, fd, value, len) };
        }
    }
    let cause = if name == TCP_ULP && level == libc::IPPROTO_TCP {
        Cause::KernelTls
    } else {
        Cause::SocketOption
    };
    if keep_off(fd, cause) {
        let refused = match cause {
            // Records whose beginning lies here cannot be given back to the kernel.
            Cause::KernelTls => libc::ENOPROTOOPT,
            // What lies here is peeked at from its beginning.
            _ if name == SO_PEEK_OFF => libc::EOPNOTSUPP,
            _ => 0,
        };
        if refused != 0 {
            set_errno(refused);
            return -1;
        }
    }
    // SAFETY: the caller's promise.
    unsafe { real::setsockopt(fd, level, name, value, len) }
}

/// Whether an option changes what a receive gives, or when a socket is ready.
fn is_special(level: c_int, name: c_int) -> bool {
    match level {
        libc::IPPROTO_TCP => matches!(name, TCP_INQ | TCP_ULP | libc::TCP_REPAIR),
        libc::SOL_SOCKET => matches!(
            name,
            libc::SO_RCVLOWAT
                | libc::SO_TIMESTAMP
                | libc::SO_TIMESTAMPNS
                | libc::SO_TIMESTAMPING
                | SO_TIMESTAMP_NEW
                ..=SO_TIMESTAMPING_NEW | libc::SO_OOBINLINE | libc::SO_ZEROCOPY | SO_PEEK_OFF
        ),
        _ => false,
    }
}

/// Keeps the mark here: the kernel's own would hold back what a ring is to receive.
///
/// # Safety
/// As [`setsockopt`].
unsafe fn set_low_water(set: &'static Set, fd: c_int, value: *const c_void, len: socklen_t) -> c_int {
    let Some(mut held) = set.lock(Cause::OtherThread) else {
        set_errno(libc::EAGAIN);
        return -1;
    };
    // SAFETY: the caller's promise.
    let result = unsafe { real::setsockopt(fd, libc::SOL_SOCKET, libc::SO_RCVLOWAT, value, len) };
    if result == 0 {
        let mut bounded: c_int = 1;
        let mut room = size_of::<c_int>() as socklen_t;
        // SAFETY: a live number of that length.
        unsafe {
            real::getsockopt(
                fd,
                libc::SOL_SOCKET,
                libc::SO_RCVLOWAT,
                (&raw mut bounded).cast(),
                &raw mut room,
            )
        };
        if let Some(socket) = held.socket(fd) {
            socket.set_low_water(bounded.max(1) as usize);
        }
        held.touch(fd);
        held.mark(fd);
    }
    result
}
