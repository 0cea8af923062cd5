//! accept: a new descriptor is not what an old one of its number was. A close that no hook has seen leaves an entry behind.

use crate::{real, table};
use libc::{c_int, sockaddr, socklen_t};

fn fresh(fd: c_int) -> c_int {
    if fd >= 0 && (table::socket(fd).is_some() || table::is_plain(fd)) {
        let before = crate::errno();
        super::close::before(fd);
        crate::set_errno(before);
    }
    fd
}

/// # Safety
/// As the function of this name in the C library.
#[no_mangle]
pub unsafe extern "C" fn accept(fd: c_int, address: *mut sockaddr, len: *mut socklen_t) -> c_int {
    // SAFETY: the caller's promise.
    fresh(unsafe { real::accept(fd, address, len) })
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
    fresh(unsafe { real::accept4(fd, address, len, flags) })
}
