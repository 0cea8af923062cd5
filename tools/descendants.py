"""End all processes that a program has started, those that have left its process group among them."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
from contextlib import suppress
from pathlib import Path

PR_SET_CHILD_SUBREAPER = 36


def adopt_orphans() -> None:
    """Have processes whose parent has ended become children of this one, so that they can be found."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0):
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_CHILD_SUBREAPER)")


def end_descendants(process: subprocess.Popen[bytes]) -> None:
    """Kill the child `process`, all that it has started and left, and every other descendant.

    Its process group does not have all of them: timeout(1) makes one of its own, and setsid(1) a session.
    """
    while found := descendants(os.getpid()):
        for pid in found:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        process.wait()
        with suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass


def descendants(ancestor: int) -> set[int]:
    """Return the ids of all descendants of a process."""
    parents = {}
    for entry in Path("/proc").glob("[0-9]*"):
        # Others end meanwhile.
        with suppress(OSError):
            # The name before it may have spaces and brackets.
            parents[int(entry.name)] = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
    found: set[int] = set()
    newest = {ancestor}
    while newest:
        newest = {pid for pid, parent in parents.items() if parent in newest}
        found |= newest
    return found
