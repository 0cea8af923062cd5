//! Names of io_uring's opcodes by number, as in the kernel's `io_uring.h`.

const NAMES: &[&str] = &[
    "nop",
    "readv",
    "writev",
    "fsync",
    "read_fixed",
    "write_fixed",
    "poll_add",
    "poll_remove",
    "sync_file_range",
    "sendmsg",
    "recvmsg",
    "timeout",
    "timeout_remove",
    "accept",
    "async_cancel",
    "link_timeout",
    "connect",
    "fallocate",
    "openat",
    "close",
    "files_update",
    "statx",
    "read",
    "write",
    "fadvise",
    "madvise",
    "send",
    "recv",
    "openat2",
    "epoll_ctl",
    "splice",
    "provide_buffers",
    "remove_buffers",
    "tee",
    "shutdown",
    "renameat",
    "unlinkat",
    "mkdirat",
    "symlinkat",
    "linkat",
    "msg_ring",
    "fsetxattr",
    "setxattr",
    "fgetxattr",
    "getxattr",
    "socket",
    "uring_cmd",
    "send_zc",
    "sendmsg_zc",
    "read_multishot",
    "waitid",
    "futex_wait",
    "futex_wake",
    "futex_waitv",
    "fixed_fd_install",
    "ftruncate",
    "bind",
    "listen",
];

pub(super) fn name(number: usize) -> String {
    match NAMES.get(number) {
        Some(name) => (*name).to_owned(),
        None => format!("opcode {number}"),
    }
}

#[cfg(test)]
mod tests {
    use super::NAMES;

    #[test]
    fn at_their_numbers() {
        for (number, name) in [
            (0, "nop"),
            (4, "read_fixed"),
            (22, "read"),
            (30, "splice"),
            (46, "uring_cmd"),
        ] {
            assert_eq!(NAMES[number], name);
        }
    }
}
