"""haproxy on rings, before our echo and an HTTP server on a ring: no byte is lost, doubled or crossed."""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from capabilities import needs
from echo_clients import echo_client, http_client, run_clients
from run_helpers import HERE, RUN, counts, free_port, program, server, settle, wrk

pytestmark = needs("io_uring", "haproxy")

CONFIGURATION = """
global
    maxconn 500
    nbthread {threads}
defaults
    mode {mode}
    timeout connect 10s
    timeout client 60s
    timeout server 60s
frontend here
    bind 127.0.0.1:{port}
    default_backend there
backend there
    server one 127.0.0.1:{backend}
"""


@contextmanager
def haproxy(place: Path, mode: str, backend: int, threads: int) -> Iterator[int]:
    port = free_port()
    configuration, stats = place / "haproxy.cfg", place / "stats"
    configuration.write_text(CONFIGURATION.format(mode=mode, port=port, backend=backend, threads=threads))
    command = [*RUN, "--strict", f"--stats={stats}", "--", program("haproxy"), "-f", str(configuration)]
    with server(command, port) as child:
        yield port
        # haproxy 2.6 crashes if it ends in the same turn as many connections: it then reads its list of
        # changed descriptors, which it has freed.
        settle(child.pid)
        # It ends when the last connection has.
        child.send_signal(signal.SIGUSR1)
        assert child.wait(30) == 0
    found = counts(stats)[-1]
    assert isinstance(found["sockets"], int)
    assert found["sockets"] > 100
    # One thread takes over idle connections to the backend from another.
    causes = {"another thread uses a socket of the set"} if (mode, threads) == ("http", 2) else set()
    assert isinstance(found["handed_back"], dict)
    assert found["handed_back"].keys() <= causes


@pytest.mark.parametrize("threads", [1, 2])
def test_tcp_mode(tmp_path: Path, threads: int) -> None:
    backend = free_port()
    echo = [sys.executable, "-m", "proactor", "serve", "echo", "--port", str(backend)]
    with server(echo, backend), haproxy(tmp_path, "tcp", backend, threads) as port:
        run_clients(echo_client, port, 120)


@needs("uvicorn", "wrk")
@pytest.mark.parametrize("threads", [1, 2])
def test_http_mode(tmp_path: Path, threads: int) -> None:
    backend = free_port()
    options = ["--port", str(backend), "--app-dir", str(HERE), "--log-level", "error"]
    echo = [*RUN, "--strict", "--", sys.executable, "-m", "uvicorn", "http_echo:app", *options]
    with server(echo, backend), haproxy(tmp_path, "http", backend, threads) as port:
        run_clients(http_client, port, 120)
        wrk(f"http://127.0.0.1:{port}/whole")
