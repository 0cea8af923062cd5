//! fcntl and ioctl. Their third argument is passed as one word, as every caller does on the machines that Rust's stable
//! compiler cannot define a variadic function for.

use crate::interest::{hand_back_descriptor, hand_back_socket};
use crate::report::Cause;
use crate::{real, table};
use libc::{c_int, c_ulong};

fn before(fd: c_int, command: c_int, arg: usize) {
    match command {
        libc::F_DUPFD | libc::F_DUPFD_CLOEXEC => hand_back_descriptor(fd),
        libc::F_SETFL if table::socket(fd).is_some() => {
            let flags = arg as c_int;
            if flags & libc::O_NONBLOCK == 0 || flags & libc::O_ASYNC != 0 {
                hand_back_socket(fd, Cause::Blocking);
            }
        }
        _ => {}
    }
}

fn after(fd: c_int, command: c_int, result: c_int) -> c_int {
    if matches!(command, libc::F_DUPFD | libc::F_DUPFD_CLOEXEC) {
        super::dup::shared(fd, result);
    }
    result
}

/// # Safety
/// As the function of this name in the C library.
#[no_mangle]
pub unsafe extern "C" fn fcntl(fd: c_int, command: c_int, arg: usize) -> c_int {
    before(fd, command, arg);
    // SAFETY: the caller's promise.
    after(fd, command, unsafe { real::fcntl(fd, command, arg) })
}

/// # Safety
/// As the function of this name in the C library.
#[no_mangle]
pub unsafe extern "C" fn fcntl64(fd: c_int, command: c_int, arg: usize) -> c_int {
    before(fd, command, arg);
    // SAFETY: the caller's promise.
    after(fd, command, unsafe { real::fcntl64(fd, command, arg) })
}

/// # Safety
/// As the function of this name in the C library.
#[no_mangle]
pub unsafe extern "C" fn ioctl(fd: c_int, request: c_ulong, arg: usize) -> c_int {
    let Some(set) = table::socket(fd) else {
        // SAFETY: the caller's promise.
        return unsafe { real::ioctl(fd, request, arg) };
    };
    if request == libc::FIONBIO {
        // SAFETY: the request's argument is a number.
        let on = unsafe { (arg as *const c_int).as_ref() }.is_none_or(|on| *on != 0);
        if !on {
            hand_back_socket(fd, Cause::Blocking);
        }
    }
    if request == libc::FIOASYNC {
        hand_back_socket(fd, Cause::Blocking);
    }
    // SAFETY: the caller's promise.
    let result = unsafe { real::ioctl(fd, request, arg) };
    let counts = matches!(request, libc::FIONREAD | libc::TIOCOUTQ);
    if result == 0 && counts {
        let before = crate::errno();
        if let Some(mut held) = set.lock(Cause::OtherThread) {
            held.look();
            // SAFETY: the kernel has written a number there.
            let (here, count) = (held.socket(fd), unsafe { &mut *(arg as *mut c_int) });
            if let Some(socket) = here {
                socket.refresh();
                let more = if request == libc::FIONREAD {
                    socket.bytes
                } else {
                    socket.queued()
                };
                *count = count.saturating_add(more as c_int);
            }
        }
        crate::set_errno(before);
    }
    result
}
