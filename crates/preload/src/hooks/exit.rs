//! The ends of a program that run none of its handlers, and the starts of other ones: what was written goes to the kernel
//! before, so that another program's bytes come after it.

use crate::handback::{finish, flush_all};
use crate::{fork, real, report};
use libc::{c_char, c_int, c_void, pid_t};

type Strings = *const *const c_char;

/// This program ends, and another one may take its place.
fn end() {
    in_this_process(finish);
}

/// Another program starts beside this one.
fn flush() {
    in_this_process(|| flush_all(None));
}

/// Between vfork and exec another process has this one's memory, and nothing of it is its own.
fn in_this_process(work: fn()) {
    if report::is_this_process() {
        let before = crate::errno();
        work();
        crate::set_errno(before);
    }
}

/// # Safety
/// As the function of this name in the C library.
#[no_mangle]
pub unsafe extern "C" fn _exit(status: c_int) -> ! {
    end();
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
    end();
    // SAFETY: the caller's promise.
    unsafe { real::execve(path, args, environment) }
}

/// # Safety
/// As the function of this name in the C library.
#[no_mangle]
pub unsafe extern "C" fn execv(path: *const c_char, args: Strings) -> c_int {
    end();
    // SAFETY: the caller's promise.
    unsafe { real::execv(path, args) }
}

/// # Safety
/// As the function of this name in the C library.
#[no_mangle]
pub unsafe extern "C" fn execvp(file: *const c_char, args: Strings) -> c_int {
    end();
    // SAFETY: the caller's promise.
    unsafe { real::execvp(file, args) }
}

/// # Safety
/// As the function of this name in the C library.
#[no_mangle]
pub unsafe extern "C" fn execvpe(file: *const c_char, args: Strings, environment: Strings) -> c_int {
    end();
    // SAFETY: the caller's promise.
    unsafe { real::execvpe(file, args, environment) }
}

/// # Safety
/// As the function of this name in the C library.
#[no_mangle]
pub unsafe extern "C" fn execveat(
    directory: c_int,
    path: *const c_char,
    args: Strings,
    environment: Strings,
    flags: c_int,
) -> c_int {
    end();
    // SAFETY: the caller's promise.
    unsafe { real::execveat(directory, path, args, environment, flags) }
}

/// # Safety
/// As the function of this name in the C library.
#[no_mangle]
pub unsafe extern "C" fn fexecve(fd: c_int, args: Strings, environment: Strings) -> c_int {
    end();
    // SAFETY: the caller's promise.
    unsafe { real::fexecve(fd, args, environment) }
}

/// # Safety
/// As the function of this name in the C library.
#[no_mangle]
pub unsafe extern "C" fn posix_spawn(
    pid: *mut pid_t,
    path: *const c_char,
    actions: *const c_void,
    attributes: *const c_void,
    args: Strings,
    environment: Strings,
) -> c_int {
    flush();
    // SAFETY: the caller's promise.
    unsafe { real::posix_spawn(pid, path, actions, attributes, args, environment) }
}

/// # Safety
/// As the function of this name in the C library.
#[no_mangle]
pub unsafe extern "C" fn posix_spawnp(
    pid: *mut pid_t,
    file: *const c_char,
    actions: *const c_void,
    attributes: *const c_void,
    args: Strings,
    environment: Strings,
) -> c_int {
    flush();
    // SAFETY: the caller's promise.
    unsafe { real::posix_spawnp(pid, file, actions, attributes, args, environment) }
}

/// # Safety
/// As the function of this name in the C library.
#[no_mangle]
pub unsafe extern "C" fn system(command: *const c_char) -> c_int {
    flush();
    // SAFETY: the caller's promise.
    unsafe { real::system(command) }
}

/// # Safety
/// As the function of this name in the C library.
#[no_mangle]
pub unsafe extern "C" fn popen(command: *const c_char, mode: *const c_char) -> *mut libc::FILE {
    flush();
    // SAFETY: the caller's promise.
    unsafe { real::popen(command, mode) }
}

/// A fork without the program's handlers, but with ours.
///
/// # Safety
/// As the function of this name in the C library.
#[no_mangle]
pub unsafe extern "C" fn _Fork() -> pid_t {
    fork::before_fork();
    // SAFETY: the caller's promise.
    let child = unsafe { real::_Fork() };
    if child == 0 {
        fork::after_fork_in_child();
    } else {
        let error = crate::errno();
        fork::after_fork_in_parent();
        crate::set_errno(error);
    }
    child
}
