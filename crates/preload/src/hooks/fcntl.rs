//! fcntl and ioctl. Their third argument is passed as one word, as every caller does on the machines that Rust's stable
//! compiler cannot define a variadic function for.

use crate::interest::{hand_back_socket, keep_off};
use crate::report::Cause;
use crate::set::Held;
use crate::{fork, real, table};
use libc::{c_int, c_ulong};

// Values of the kernel's interface (include/uapi/asm-generic/fcntl.h, sockios.h, linux/sockios.h).
const F_SETOWN_EX: c_int = 15;
const FIOSETOWN: c_ulong = 0x8901;
const SIOCSPGRP: c_ulong = 0x8902;
const SIOCATMARK: c_ulong = 0x8905;
const SIOCOUTQNSD: c_ulong = 0x894b;

fn before(fd: c_int, command: c_int, arg: usize) {
    match command {
        libc::F_DUPFD | libc::F_DUPFD_CLOEXEC => {
            hand_back_socket(fd, Cause::Duplicated);
        }
        libc::F_SETFD if arg as c_int & libc::FD_CLOEXEC == 0 => fork::outlive_exec(fd),
        libc::F_SETFL if table::socket(fd).is_some() => {
            let flags = arg as c_int;
            if flags & libc::O_NONBLOCK == 0 || flags & libc::O_ASYNC != 0 {
                hand_back_socket(fd, Cause::Blocking);
            }
        }
        // Whoever wants to hear of urgent data by a signal reads it then: before the bytes around it.
        libc::F_SETOWN | F_SETOWN_EX => {
            keep_off(fd, Cause::Urgent);
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
    match request {
        libc::FIOASYNC => {
            hand_back_socket(fd, Cause::Blocking);
        }
        SIOCATMARK | FIOSETOWN | SIOCSPGRP => {
            keep_off(fd, Cause::Urgent);
        }
        libc::FIONREAD | libc::TIOCOUTQ | SIOCOUTQNSD => {
            if let Some(mut held) = set.lock(Cause::OtherThread) {
                // SAFETY: the caller's promise.
                return unsafe { counted(&mut held, fd, request, arg) };
            }
        }
        _ => {}
    }
    // SAFETY: the caller's promise.
    unsafe { real::ioctl(fd, request, arg) }
}

/// Adds what lies here to the kernel's count of bytes.
///
/// # Safety
/// `arg` is where the kernel writes the count.
unsafe fn counted(held: &mut Held, fd: c_int, request: c_ulong, arg: usize) -> c_int {
    let before = crate::errno();
    // Before the kernel counts, or bytes that arrive in between would be counted twice.
    held.await_send(fd);
    held.look(fd, usize::MAX);
    crate::set_errno(before);
    // SAFETY: the caller's promise.
    let result = unsafe { real::ioctl(fd, request, arg) };
    if let (0, Some(socket)) = (result, held.socket(fd)) {
        socket.refresh();
        let more = if request == libc::FIONREAD {
            socket.bytes
        } else {
            socket.queued()
        };
        // SAFETY: the kernel has written a number there.
        let count = unsafe { &mut *(arg as *mut c_int) };
        *count = count.saturating_add(more as c_int);
        crate::set_errno(before);
    }
    result
}
