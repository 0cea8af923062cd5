"""Signals, grace, and the port after the end."""

from __future__ import annotations

import contextlib
import signal
import socket
from pathlib import Path

import pytest
from serve_helpers import DEADLINE_S, Server, receive, receive_all, serving, wait_until

pytest_plugins = ["serve_fixtures"]


def is_listening(server: Server) -> bool:
    with contextlib.suppress(OSError):
        server.connect().close()
        return True
    return False


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_open_connections_go_on_until_they_end(on: str, number: signal.Signals) -> None:
    heard = {"preexec_fn": lambda: signal.signal(number, signal.SIG_DFL)}
    with serving("echo", on, "--grace=1h", "--workers=2", **heard) as server:
        with server.connect() as stream:
            stream.sendall(b"a")
            assert receive(stream, 1) == b"a"
            server.process.send_signal(number)
            wait_until(lambda: not is_listening(server))
            stream.sendall(b"bc")
            assert receive(stream, 2) == b"bc"
            assert server.process.poll() is None
        assert server.process.wait(DEADLINE_S) == 0


def test_grace_is_over(on: str) -> None:
    with serving("echo", on, "--grace=50ms") as server, server.connect() as stream:
        stream.sendall(b"a")
        assert receive(stream, 1) == b"a"
        status, _, complained = server.end()
        assert status == 0
        assert "1 connection was still open after --grace 50ms" in complained
        assert receive_all(stream) == b""


def test_a_second_signal_ends_at_once(on: str) -> None:
    with serving("echo", on, "--grace=1h") as server, server.connect() as stream:
        stream.sendall(b"a")
        assert receive(stream, 1) == b"a"
        server.process.send_signal(signal.SIGTERM)
        wait_until(lambda: not is_listening(server))
        assert server.end()[0] == 128 + signal.SIGTERM


def test_the_port_is_free_after_the_end(on: str) -> None:
    port = 0
    for _ in range(3):
        with serving("echo", on, f"--port={port}", "--grace=0") as server:
            assert port in (0, server.port)
            port = server.port
            with server.connect() as stream:
                stream.sendall(b"a")
                assert receive(stream, 1) == b"a"
                assert server.end()[0] == 0
            with socket.socket() as listener:
                listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                listener.bind(("127.0.0.1", port))
                listener.listen()


def test_a_killed_server_is_followed_at_once(on: str) -> None:
    port = 0
    for _ in range(3):
        with serving("echo", on, f"--port={port}", "--workers=2") as server:
            port = server.port
            with server.connect() as stream:
                stream.sendall(b"a")
                assert receive(stream, 1) == b"a"
                server.process.kill()
                server.process.wait(DEADLINE_S)


def test_a_server_whose_lines_nobody_reads_goes_on(on: str) -> None:
    with serving("echo", on, "--stats=json", "--stats-interval=10ms") as server:
        assert server.process.stdout is not None
        server.process.stdout.close()
        with server.connect() as stream:
            for _ in range(10):
                stream.sendall(b"a")
                assert receive(stream, 1) == b"a"
        server.process.send_signal(signal.SIGTERM)
        assert server.process.wait(DEADLINE_S) in (0, 1)
        server.process.stdout = open("/dev/null")  # noqa: SIM115


def test_descriptors_end_as_they_began(on: str) -> None:
    with serving("resp", on) as server:
        folder = Path(f"/proc/{server.process.pid}/fd")
        before = len(list(folder.iterdir()))
        for _ in range(3):
            streams = [server.connect() for _ in range(20)]
            for stream in streams:
                stream.sendall(b"PING\r\n")
                assert receive(stream, 7) == b"+PONG\r\n"
                stream.close()
        wait_until(lambda: len(list(folder.iterdir())) == before)
