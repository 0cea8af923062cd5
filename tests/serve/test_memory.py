"""Requests for which there is no memory end one connection, or are refused, and never the server."""

from __future__ import annotations

import resource
from contextlib import suppress
from pathlib import Path

from serve_helpers import Server, receive, serving

pytest_plugins = ["serve_fixtures"]

# What the server may have beside what it has when it is started.
SPARE_BYTES = 48 << 20


def bound_memory(pid: int) -> None:
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[0])
    most = pages * resource.getpagesize() + SPARE_BYTES
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
