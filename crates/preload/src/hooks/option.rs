//! Socket options that concern what was received or what comes next.

use crate::interest::hand_back_socket;
use crate::report::Cause;
use crate::{real, set_errno, table};
use libc::{c_int, c_void, socklen_t};

/// `TCP_ULP`: TLS in the kernel (include/uapi/linux/tcp.h).
const TCP_ULP: c_int = 31;
const TCP_INQ: c_int = 36;
const SO_PEEK_OFF: c_int = 42;

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
    if result < 0 || level != libc::SOL_SOCKET || name != libc::SO_ERROR {
        return result;
    }
    let Some(set) = table::socket(fd) else {
        return result;
    };
    let before = crate::errno();
    if let Some(mut held) = set.lock(Cause::OtherThread) {
        held.look();
        if let Some(socket) = held.socket(fd) {
            // SAFETY: the kernel has written a number there.
            let value = unsafe { &mut *value.cast::<c_int>() };
            let error = std::mem::take(&mut socket.error);
            if *value == 0 {
                *value = error;
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
    if table::socket(fd).is_some() {
        let tls = level == libc::IPPROTO_TCP && name == TCP_ULP;
        let changes = match level {
            libc::IPPROTO_TCP => name == TCP_INQ,
            libc::SOL_SOCKET => matches!(
                name,
                libc::SO_RCVLOWAT
                    | libc::SO_TIMESTAMP
                    | libc::SO_TIMESTAMPNS
                    | libc::SO_TIMESTAMPING
                    | libc::SO_OOBINLINE
                    | SO_PEEK_OFF
            ),
            _ => false,
        };
        if tls && hand_back_socket(fd, Cause::KernelTls) {
            // Records whose beginning lies here cannot be given back to the kernel.
            set_errno(libc::ENOPROTOOPT);
            return -1;
        }
        if changes {
            hand_back_socket(fd, Cause::SocketOption);
        }
    }
    // SAFETY: the caller's promise.
    unsafe { real::setsockopt(fd, level, name, value, len) }
}
