//! Second names that the C library exports for its functions, which other libraries call.

use libc::{c_char, c_int, c_void, fd_set, nfds_t, pollfd, size_t, ssize_t, timeval};

macro_rules! names {
    ($(fn $name:ident = $of:path, ($($arg:ident: $type:ty),*) -> $ret:ty;)*) => {
        $(
            /// # Safety
            /// As the function of this name in the C library.
            #[no_mangle]
            pub unsafe extern "C" fn $name($($arg: $type),*) -> $ret {
                // SAFETY: the caller's promise.
                unsafe { $of($($arg),*) }
            }
        )*
    };
}

names! {
    fn __read = super::read::read, (fd: c_int, to: *mut c_void, len: size_t) -> ssize_t;
    fn __write = super::write::write, (fd: c_int, from: *const c_void, len: size_t) -> ssize_t;
    fn __send = super::write::send, (fd: c_int, from: *const c_void, len: size_t, flags: c_int) -> ssize_t;
    fn __close = super::close::close, (fd: c_int) -> c_int;
    fn __dup2 = super::dup::dup2, (fd: c_int, to: c_int) -> c_int;
    fn __fcntl = super::fcntl::fcntl, (fd: c_int, command: c_int, arg: usize) -> c_int;
    fn __poll = super::poll::poll, (fds: *mut pollfd, count: nfds_t, timeout: c_int) -> c_int;
    fn __select = super::poll::select, (
        count: c_int, r: *mut fd_set, w: *mut fd_set, e: *mut fd_set, timeout: *mut timeval) -> c_int;
    fn _IO_fdopen = super::dup::fdopen, (fd: c_int, mode: *const c_char) -> *mut libc::FILE;
}
