//! The functions that the hooks stand before, as the rest of the process has them.
//!
//! They are found when the library is loaded. Before that, an allocator or another library's constructor may call a hook; what
//! is a plain system call is then made directly, because a search would allocate.

use libc::{
    c_char, c_int, c_long, c_uint, c_void, epoll_event, fd_set, iovec, mmsghdr, msghdr, nfds_t, off_t, pid_t,
    pollfd, sigset_t, size_t, sockaddr, socklen_t, ssize_t, timespec, timeval,
};
use std::ptr::null_mut;
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering};

/// All functions have been looked for.
static FOUND: AtomicBool = AtomicBool::new(false);
/// The function is no plain system call, on some machine at least.
const NO_CALL: c_long = -1;

/// Where a function of this name is in the libraries behind this one, or null.
fn find(name: &'static str) -> *mut c_void {
    debug_assert!(name.ends_with('\0'));
    // SAFETY: the name ends with a zero.
    unsafe { libc::dlsym(libc::RTLD_NEXT, name.as_ptr().cast::<c_char>()) }
}

macro_rules! functions {
    ($(fn $name:ident($($arg:ident: $type:ty),*) -> $ret:ty, $missing:expr, $number:expr;)*) => {
        mod at {
            #![allow(non_upper_case_globals)]
            use super::*;
            $(pub(super) static $name: AtomicPtr<c_void> = AtomicPtr::new(null_mut());)*
        }

        $(
            /// Calls the function of this name in the libraries behind this one.
            ///
            /// # Safety
            /// As that function.
            #[allow(non_snake_case)]
            pub(crate) unsafe fn $name($($arg: $type),*) -> $ret {
                let mut found = at::$name.load(Ordering::Relaxed);
                if found.is_null() {
                    if $number != NO_CALL && !FOUND.load(Ordering::Relaxed) {
                        // SAFETY: the system call of the same name and arguments.
                        return unsafe { libc::syscall($number, $($arg as c_long),*) } as $ret;
                    }
                    found = find(concat!(stringify!($name), "\0"));
                    at::$name.store(found, Ordering::Relaxed);
                }
                if found.is_null() {
                    crate::set_errno(libc::ENOSYS);
                    return $missing;
                }
                // SAFETY: the function of this name in the C library has this type.
                let call = unsafe {
                    std::mem::transmute::<*mut c_void, unsafe extern "C" fn($($type),*) -> $ret>(found)
                };
                // SAFETY: the caller's promise.
                unsafe { call($($arg),*) }
            }
        )*

        /// Looks for all of them.
        pub(crate) fn find_all() {
            $(at::$name.store(find(concat!(stringify!($name), "\0")), Ordering::Relaxed);)*
            FOUND.store(true, Ordering::Relaxed);
        }
    };
}

functions! {
    fn epoll_create(size: c_int) -> c_int, -1, NO_CALL;
    fn epoll_create1(flags: c_int) -> c_int, -1, libc::SYS_epoll_create1;
    fn epoll_ctl(ep: c_int, op: c_int, fd: c_int, event: *mut epoll_event) -> c_int, -1, libc::SYS_epoll_ctl;
    fn epoll_wait(ep: c_int, events: *mut epoll_event, max: c_int, timeout: c_int) -> c_int, -1, NO_CALL;
    fn epoll_pwait(ep: c_int, events: *mut epoll_event, max: c_int, timeout: c_int, mask: *const sigset_t) -> c_int, -1, NO_CALL;
    fn epoll_pwait2(ep: c_int, events: *mut epoll_event, max: c_int, timeout: *const timespec, mask: *const sigset_t) -> c_int, -1, NO_CALL;
    fn read(fd: c_int, to: *mut c_void, len: size_t) -> ssize_t, -1, libc::SYS_read;
    fn readv(fd: c_int, to: *const iovec, count: c_int) -> ssize_t, -1, libc::SYS_readv;
    fn preadv2(fd: c_int, to: *const iovec, count: c_int, at: off_t, flags: c_int) -> ssize_t, -1, NO_CALL;
    fn recv(fd: c_int, to: *mut c_void, len: size_t, flags: c_int) -> ssize_t, -1, NO_CALL;
    fn recvfrom(fd: c_int, to: *mut c_void, len: size_t, flags: c_int, from: *mut sockaddr, from_len: *mut socklen_t) -> ssize_t, -1, libc::SYS_recvfrom;
    fn recvmsg(fd: c_int, message: *mut msghdr, flags: c_int) -> ssize_t, -1, libc::SYS_recvmsg;
    fn recvmmsg(fd: c_int, messages: *mut mmsghdr, count: c_uint, flags: c_int, timeout: *mut timespec) -> c_int, -1, libc::SYS_recvmmsg;
    fn write(fd: c_int, from: *const c_void, len: size_t) -> ssize_t, -1, libc::SYS_write;
    fn writev(fd: c_int, from: *const iovec, count: c_int) -> ssize_t, -1, libc::SYS_writev;
    fn pwritev2(fd: c_int, from: *const iovec, count: c_int, at: off_t, flags: c_int) -> ssize_t, -1, NO_CALL;
    fn send(fd: c_int, from: *const c_void, len: size_t, flags: c_int) -> ssize_t, -1, NO_CALL;
    fn sendto(fd: c_int, from: *const c_void, len: size_t, flags: c_int, to: *const sockaddr, to_len: socklen_t) -> ssize_t, -1, libc::SYS_sendto;
    fn sendmsg(fd: c_int, message: *const msghdr, flags: c_int) -> ssize_t, -1, libc::SYS_sendmsg;
    fn sendmmsg(fd: c_int, messages: *mut mmsghdr, count: c_uint, flags: c_int) -> c_int, -1, libc::SYS_sendmmsg;
    fn sendfile(to: c_int, from: c_int, offset: *mut off_t, count: size_t) -> ssize_t, -1, libc::SYS_sendfile;
    fn sendfile64(to: c_int, from: c_int, offset: *mut off_t, count: size_t) -> ssize_t, -1, libc::SYS_sendfile;
    fn splice(from: c_int, from_offset: *mut i64, to: c_int, to_offset: *mut i64, len: size_t, flags: c_uint) -> ssize_t, -1, libc::SYS_splice;
    fn accept(fd: c_int, address: *mut sockaddr, len: *mut socklen_t) -> c_int, -1, NO_CALL;
    fn accept4(fd: c_int, address: *mut sockaddr, len: *mut socklen_t, flags: c_int) -> c_int, -1, libc::SYS_accept4;
    fn connect(fd: c_int, address: *const sockaddr, len: socklen_t) -> c_int, -1, libc::SYS_connect;
    fn close(fd: c_int) -> c_int, -1, libc::SYS_close;
    fn close_range(first: c_uint, last: c_uint, flags: c_int) -> c_int, -1, libc::SYS_close_range;
    fn shutdown(fd: c_int, how: c_int) -> c_int, -1, libc::SYS_shutdown;
    fn dup(fd: c_int) -> c_int, -1, libc::SYS_dup;
    fn dup2(fd: c_int, to: c_int) -> c_int, -1, NO_CALL;
    fn dup3(fd: c_int, to: c_int, flags: c_int) -> c_int, -1, libc::SYS_dup3;
    fn fcntl(fd: c_int, command: c_int, arg: usize) -> c_int, -1, libc::SYS_fcntl;
    fn fcntl64(fd: c_int, command: c_int, arg: usize) -> c_int, -1, libc::SYS_fcntl;
    fn ioctl(fd: c_int, request: libc::c_ulong, arg: usize) -> c_int, -1, libc::SYS_ioctl;
    fn fdopen(fd: c_int, mode: *const c_char) -> *mut libc::FILE, null_mut(), NO_CALL;
    fn poll(fds: *mut pollfd, count: nfds_t, timeout: c_int) -> c_int, -1, NO_CALL;
    fn ppoll(fds: *mut pollfd, count: nfds_t, timeout: *const timespec, mask: *const sigset_t) -> c_int, -1, NO_CALL;
    fn select(count: c_int, r: *mut fd_set, w: *mut fd_set, e: *mut fd_set, timeout: *mut timeval) -> c_int, -1, NO_CALL;
    fn pselect(count: c_int, r: *mut fd_set, w: *mut fd_set, e: *mut fd_set, timeout: *const timespec, mask: *const sigset_t) -> c_int, -1, NO_CALL;
    fn _exit(status: c_int) -> c_int, -1, NO_CALL;
    fn execve(path: *const c_char, args: *const *const c_char, environment: *const *const c_char) -> c_int, -1, libc::SYS_execve;
    fn execv(path: *const c_char, args: *const *const c_char) -> c_int, -1, NO_CALL;
    fn execvp(file: *const c_char, args: *const *const c_char) -> c_int, -1, NO_CALL;
    fn execvpe(file: *const c_char, args: *const *const c_char, environment: *const *const c_char) -> c_int, -1, NO_CALL;
    fn execveat(directory: c_int, path: *const c_char, args: *const *const c_char, environment: *const *const c_char, flags: c_int) -> c_int, -1, libc::SYS_execveat;
    fn fexecve(fd: c_int, args: *const *const c_char, environment: *const *const c_char) -> c_int, -1, NO_CALL;
    fn posix_spawn(pid: *mut pid_t, path: *const c_char, actions: *const c_void, attributes: *const c_void, args: *const *const c_char, environment: *const *const c_char) -> c_int, libc::ENOSYS, NO_CALL;
    fn posix_spawnp(pid: *mut pid_t, file: *const c_char, actions: *const c_void, attributes: *const c_void, args: *const *const c_char, environment: *const *const c_char) -> c_int, libc::ENOSYS, NO_CALL;
    fn system(command: *const c_char) -> c_int, -1, NO_CALL;
    fn popen(command: *const c_char, mode: *const c_char) -> *mut libc::FILE, null_mut(), NO_CALL;
    fn _Fork() -> pid_t, -1, NO_CALL;
    fn getsockopt(fd: c_int, level: c_int, name: c_int, value: *mut c_void, len: *mut socklen_t) -> c_int, -1, libc::SYS_getsockopt;
    fn setsockopt(fd: c_int, level: c_int, name: c_int, value: *const c_void, len: socklen_t) -> c_int, -1, libc::SYS_setsockopt;
}
