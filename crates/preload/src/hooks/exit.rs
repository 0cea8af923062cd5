//! The ends of a program that run none of its handlers: what was written goes to the kernel before.

use crate::handback::finish;
use crate::{real, report};
use libc::{c_char, c_int};

type Strings = *const *const c_char;

/// Between vfork and exec another process has this one's memory, and nothing of it is its own.
fn flush() {
    if report::is_this_process() {
        let before = crate::errno();
        finish();
        crate::set_errno(before);
    }
}

/// # Safety
/// As the function of this name in the C library.
#[no_mangle]
pub unsafe extern "C" fn _exit(status: c_int) -> ! {
    flush();
    // SAFETY: the process ends here.
    unsafe {
        real::_exit(status);
        libc::syscall(libc::SYS_exit_group, status);
    }
    std::process::abort()
}

/// # Safety
/// As the function of this name in the C library.
#[no_mangle]
pub unsafe extern "C" fn _Exit(status: c_int) -> ! {
    // SAFETY: the caller's promise.
    unsafe { _exit(status) }
}

/// # Safety
/// As the function of this name in the C library.
#[no_mangle]
pub unsafe extern "C" fn execve(path: *const c_char, args: Strings, environment: Strings) -> c_int {
    flush();
    // SAFETY: the caller's promise.
    unsafe { real::execve(path, args, environment) }
}

/// # Safety
/// As the function of this name in the C library.
#[no_mangle]
pub unsafe extern "C" fn execv(path: *const c_char, args: Strings) -> c_int {
    flush();
    // SAFETY: the caller's promise.
    unsafe { real::execv(path, args) }
}

/// # Safety
/// As the function of this name in the C library.
#[no_mangle]
pub unsafe extern "C" fn execvp(file: *const c_char, args: Strings) -> c_int {
    flush();
    // SAFETY: the caller's promise.
    unsafe { real::execvp(file, args) }
}

/// # Safety
/// As the function of this name in the C library.
#[no_mangle]
pub unsafe extern "C" fn execvpe(file: *const c_char, args: Strings, environment: Strings) -> c_int {
    flush();
    // SAFETY: the caller's promise.
    unsafe { real::execvpe(file, args, environment) }
}
