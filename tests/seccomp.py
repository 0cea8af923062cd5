"""A filter that answers one system call with an errno, for processes of their own: it cannot be taken off."""

from __future__ import annotations

import platform

# Defines `deny(errno, number)`.
FILTER = """
import ctypes, struct

def _instruction(code, to, unless, value):
    return struct.pack("=HBBI", code, to, unless, value)

def deny(errno, number):
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
    assert libc.prctl(22, 2, filter, 0, 0) == 0, ctypes.get_errno()  # PR_SET_SECCOMP
"""

# io_uring's numbers are the same on every architecture.
IO_URING_SETUP, IO_URING_ENTER = 425, 426
# Where it is not known, neither is whether there is Linux AIO (capabilities.py).
IO_SUBMIT = {"x86_64": 209, "aarch64": 2}.get(platform.machine(), -1)
