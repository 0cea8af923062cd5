"""A process that has imported proactor once and forks for each run of its command, or of any other.

A start of the interpreter costs more than most copies: 0.1 s, for hundreds of runs. And a fork of pytest
costs more than one of this small process.

Reads one JSON object a line from stdin: `command`, `directory`, `umask`, `user`, `environment`, and the names
of the files that are the command's three streams. Answers with its exit status, as `subprocess` counts it.
"""

from __future__ import annotations

import ctypes
import json
import os
import shutil
import sys
from typing import Any

from proactor.__main__ import main

PR_SET_DUMPABLE = 4


def become_command(request: dict[str, Any]) -> int:
    os.chdir(request["directory"])
    os.umask(request["umask"])
    os.environ.update(request["environment"])
    for descriptor, (name, flags) in enumerate(
        ((request["stdin"], os.O_RDONLY), (request["stdout"], os.O_WRONLY), (request["stderr"], os.O_WRONLY))
    ):
        opened = os.open(name, flags)
        os.dup2(opened, descriptor)
        os.close(opened)
    command, *arguments = request["command"]
    # Another user may not even import what a search takes.
    program = shutil.which(command) or command
    if request["user"] is not None:
        become_user(request["user"])
    if command != "proactor":
        os.execv(program, [command, *arguments])
    sys.argv = [command, *arguments]
    return main()


def become_user(user: int) -> None:
    os.setgroups([])
    os.setresgid(user, user, user)
    os.setresuid(user, user, user)
    # Else /proc/self is still root's.
    ctypes.CDLL(None).prctl(PR_SET_DUMPABLE, 1)


def serve() -> None:
    for line in sys.stdin:
        child = os.fork()
        if child == 0:
            status = 125
            try:
                status = become_command(json.loads(line))
            finally:
                os._exit(status)
        _, status = os.waitpid(child, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)


if __name__ == "__main__":
    serve()
