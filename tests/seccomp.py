"""A filter that answers one system call with an errno, for processes of their own: it cannot be taken off."""

from __future__ import annotations

import platform

# seccomp(2), for a filter that is not for this thread alone; -1 where its number is not known.
_SECCOMP = {"x86_64": 317, "aarch64": 277}.get(platform.machine(), -1)

# Defines `deny(errno, number)`: for this thread and those that it starts, or `everywhere` in the process.
FILTER = (
    """
import ctypes, struct

def _instruction(code, to, unless, value):
    return struct.pack("=HBBI", code, to, unless, value)

def deny(errno, number, everywhere=False):
    program = b"".join([
        _instruction(0x20, 0, 0, 0),  # load the system call's number
        _instruction(0x15, 0, 1, number),  # this one?
        _instruction(0x06, 0, 0, 0x00050000 | errno),  # SECCOMP_RET_ERRNO
        _instruction(0x06, 0, 0, 0x7FFF0000),  # SECCOMP_RET_ALLOW
    ])
    memory = ctypes.create_string_buffer(program, len(program))
    filter = struct.pack("HxxxxxxP", 4, ctypes.addressof(memory))
    libc = ctypes.CDLL(None, use_errno=True)
    assert libc.prctl(38, 1, 0, 0, 0) == 0  # PR_SET_NO_NEW_PRIVS
    if everywhere:
        # SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC
        assert libc.syscall(SECCOMP, 1, 1, filter) == 0, ctypes.get_errno()
    else:
        assert libc.prctl(22, 2, filter, 0, 0) == 0, ctypes.get_errno()  # PR_SET_SECCOMP
"""
    f"SECCOMP = {_SECCOMP}\n"
)

# io_uring's numbers are the same on every architecture.
IO_URING_SETUP, IO_URING_ENTER = 425, 426
# Where it is not known, neither is whether there is Linux AIO (capabilities.py).
IO_SUBMIT = {"x86_64": 209, "aarch64": 2}.get(platform.machine(), -1)
