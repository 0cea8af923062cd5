"""Requests for which there is no memory end one connection, or are refused, and never the server."""

from __future__ import annotations

import os
import resource
from contextlib import suppress
from pathlib import Path

import pytest
from serve_helpers import Server, receive, serving, wait_until

pytest_plugins = ["serve_fixtures"]

# What the server may have beside what it has when it is started.
SPARE_BYTES = 48 << 20


def size_bytes(pid: int) -> int:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[0]) * resource.getpagesize()


def bound_memory(pid: int) -> None:
    most = size_bytes(pid) + SPARE_BYTES
    resource.prlimit(pid, resource.RLIMIT_AS, (most, most))


def answer(server: Server, *words: bytes) -> bytes:
    """The first bytes of the reply; none if the connection was closed instead."""
    request = b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%s\r\n" % (len(word), word) for word in words)
    with server.connect() as stream, suppress(ConnectionError):
        stream.sendall(request)
        return stream.recv(4)
    return b""


def test_values_without_memory(on: str) -> None:
    with serving("resp", on, "--workers=1") as server:
        bound_memory(server.process.pid)
        answers = [answer(server, b"SET", b"key", bytes(mib << 20)) for mib in (1, 20, 40, 60)]
        assert answers[0] == b"+OK\r"
        assert answers[-1] in (b"", b"-OOM")
        assert set(answers) <= {b"+OK\r", b"-OOM", b""}
        assert answer(server, b"PING") == b"+PON"


@pytest.mark.parametrize("pop", [b"LPOP", b"RPOP", b"GETDEL"])
def test_what_is_taken_stays_without_memory_for_the_reply(on: str, pop: bytes) -> None:
    # glibc reserves 64 MiB for each thread's arena, where a refused mapping would be found room for.
    with serving("resp", on, "--workers=1", env={**os.environ, "MALLOC_ARENA_MAX": "1"}) as server:
        pid = server.process.pid
        # There is room for the value, and not for another one.
        most = size_bytes(pid) + (60 << 20)
        put = b"SET" if pop == b"GETDEL" else b"RPUSH"
        assert answer(server, put, b"key", bytes(40 << 20))[:1] in b"+:"
        wait_until(lambda: size_bytes(pid) < most)
        endless = resource.RLIM_INFINITY
        resource.prlimit(pid, resource.RLIMIT_AS, (most, endless))
        assert answer(server, pop, b"key") == b"-OOM"
        resource.prlimit(pid, resource.RLIMIT_AS, (endless, endless))
        assert answer(server, pop, b"key") == b"$419"


def test_lines_without_memory(on: str) -> None:
    with serving("line", on, "--workers=1", "--max-line=1G") as server:
        bound_memory(server.process.pid)
        with server.connect() as stream, suppress(ConnectionError):
            for _ in range(100):
                stream.sendall(bytes(1 << 20))
            assert stream.recv(1) == b""
        with server.connect() as stream:
            stream.sendall(b"line\n")
            assert receive(stream, 5) == b"line\n"
