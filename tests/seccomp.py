"""Filters of one system call, for processes of their own: they cannot be taken off."""

from __future__ import annotations

import platform

# seccomp(2), for a filter that is not for this thread alone; -1 where its number is not known.
_SECCOMP = {"x86_64": 317, "aarch64": 277}.get(platform.machine(), -1)

PRLIMIT64 = {"x86_64": 302, "aarch64": 261}.get(platform.machine(), -1)
TIMER_CREATE = {"x86_64": 222, "aarch64": 107}.get(platform.machine(), -1)

# Defines `deny(errno, number)`, which answers with an error, for this thread and those that it starts, or
# `everywhere` in the process; and `watch(number, second, act)`, which calls `act` before each call of this
# thread, and of the processes that it starts, that has this second argument.
FILTER = (
    """
import ctypes, fcntl, struct, threading

def _instruction(code, to, unless, value):
    return struct.pack("=HBBI", code, to, unless, value)

def deny(errno, number, everywhere=False):
    program = b"".join([
        _instruction(0x20, 0, 0, 0),  # load the system call's number
        _instruction(0x15, 0, 1, number),  # this one?
        _instruction(0x06, 0, 0, 0x00050000 | errno),  # SECCOMP_RET_ERRNO
        _instruction(0x06, 0, 0, 0x7FFF0000),  # SECCOMP_RET_ALLOW
    ])
    if everywhere:
        assert _install(program, 1) == 0, ctypes.get_errno()  # SECCOMP_FILTER_FLAG_TSYNC
    else:
        assert _install(program) == 0, ctypes.get_errno()

def _install(program, flags=None):
    memory = ctypes.create_string_buffer(program, len(program))
    filter = struct.pack("HxxxxxxP", len(program) // 8, ctypes.addressof(memory))
    libc = ctypes.CDLL(None, use_errno=True)
    assert libc.prctl(38, 1, 0, 0, 0) == 0  # PR_SET_NO_NEW_PRIVS
    if flags is None:
        return libc.prctl(22, 2, filter, 0, 0)  # PR_SET_SECCOMP
    return libc.syscall(SECCOMP, 1, flags, filter)  # SECCOMP_SET_MODE_FILTER

def watch(number, second, act):
    program = b"".join([
        _instruction(0x20, 0, 0, 0),  # load the system call's number
        _instruction(0x15, 0, 3, number),  # this one?
        _instruction(0x20, 0, 0, 24),  # load the lower half of its second argument
        _instruction(0x15, 0, 1, second),
        _instruction(0x06, 0, 0, 0x7FC00000),  # SECCOMP_RET_USER_NOTIF
        _instruction(0x06, 0, 0, 0x7FFF0000),  # SECCOMP_RET_ALLOW
    ])
    listener, installed = [], threading.Event()
    def listen():
        installed.wait()
        while True:
            call = bytearray(80)
            fcntl.ioctl(listener[0], 0xC0502100, call)  # SECCOMP_IOCTL_NOTIF_RECV
            act()
            # SECCOMP_IOCTL_NOTIF_SEND, with SECCOMP_USER_NOTIF_FLAG_CONTINUE
            fcntl.ioctl(listener[0], 0xC0182101, call[:8] + struct.pack("qiI", 0, 0, 1))
    # Threads that are there already have no filter.
    threading.Thread(target=listen, daemon=True).start()
    listener.append(_install(program, 8))  # SECCOMP_FILTER_FLAG_NEW_LISTENER
    assert listener[0] >= 0, ctypes.get_errno()
    installed.set()
"""
    f"SECCOMP = {_SECCOMP}\n"
    f"TIMER_CREATE = {TIMER_CREATE}\n"
)

# io_uring's numbers are the same on every architecture.
IO_URING_SETUP, IO_URING_ENTER = 425, 426
EVENTFD2 = {"x86_64": 290, "aarch64": 19}.get(platform.machine(), -1)
IOCTL = {"x86_64": 16, "aarch64": 29}.get(platform.machine(), -1)
# Calls that filters of old container hosts answer with EPERM, for they do not know them.
NEWER = {
    "x86_64": {
        "renameat2": 316,
        "memfd_create": 319,
        "copy_file_range": 326,
        "preadv2": 327,
        "pwritev2": 328,
        "statx": 332,
    },
    "aarch64": {
        "renameat2": 276,
        "memfd_create": 279,
        "copy_file_range": 285,
        "preadv2": 286,
        "pwritev2": 287,
        "statx": 291,
    },
}.get(platform.machine(), {}) | {"openat2": 437, "close_range": 436, "faccessat2": 439, "statmount": 457}
# Where it is not known, neither is whether there is Linux AIO (capabilities.py).
IO_SUBMIT = {"x86_64": 209, "aarch64": 2}.get(platform.machine(), -1)
