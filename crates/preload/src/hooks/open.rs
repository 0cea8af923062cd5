//! accept and connect. A new descriptor is not what an old one of its number was. A close that no hook has seen leaves an entry behind.

use crate::interest::hand_back_socket;
use crate::report::Cause;
use crate::{fork, real, table};
use libc::{c_int, sockaddr, socklen_t};

/// A connection has the options of its listener.
fn fresh(listener: c_int, fd: c_int) -> c_int {
    if fd >= 0 && table::is_known(fd) && !table::is_own(fd) {
        let before = crate::errno();
        super::close::before(fd);
        crate::set_errno(before);
    }
    if fd >= 0 {
        fork::opened(fd);
        if table::is_odd(listener) {
            table::set_odd(fd);
        }
    }
    fd
}

/// # Safety
/// As the function of this name in the C library.
#[no_mangle]
pub unsafe extern "C" fn accept(fd: c_int, address: *mut sockaddr, len: *mut socklen_t) -> c_int {
    // SAFETY: the caller's promise.
    fresh(fd, unsafe { real::accept(fd, address, len) })
}

/// # Safety
/// As the function of this name in the C library.
#[no_mangle]
pub unsafe extern "C" fn accept4(
    fd: c_int,
    address: *mut sockaddr,
    len: *mut socklen_t,
    flags: c_int,
) -> c_int {
    // SAFETY: the caller's promise.
    fresh(fd, unsafe { real::accept4(fd, address, len, flags) })
}

/// # Safety
/// As the function of this name in the C library.
#[no_mangle]
pub unsafe extern "C" fn connect(fd: c_int, address: *const sockaddr, len: socklen_t) -> c_int {
    let ours = table::socket(fd);
    if ours.is_some() {
        // It is connected already, and may be dissolved: an address of AF_UNSPEC does that.
        hand_back_socket(fd, Cause::Connected);
    }
    // SAFETY: the caller's promise.
    let result = unsafe { real::connect(fd, address, len) };
    if let (0, Some(set)) = (result, ours) {
        let before = crate::errno();
        if let Some(mut held) = set.lock(Cause::Connected) {
            if let Some(socket) = held.socket(fd) {
                // The kernel forgets what the old connection had received, too.
                socket.discard(None);
            }
            held.release(fd);
        }
        crate::set_errno(before);
    }
    result
}
