"""Servers answer, on each engine, and hold their bounds."""

from __future__ import annotations

import contextlib
import resource
import socket
import time
from pathlib import Path

import pytest
from serve_helpers import DEADLINE_S, Server, receive, receive_all, serving, wait_until

pytest_plugins = ["serve_fixtures"]


def test_echo(on: str, tmp_path: Path) -> None:
    ready = tmp_path / "ready"
    with serving("echo", on, "--port=0", f"--ready-file={ready}") as server:
        assert ready.read_text().splitlines() == server.addresses == [f"127.0.0.1:{server.port}"]
        with server.connect() as stream:
            for message in (b"a", b"bc" * 1000, bytes(range(256)) * 1000):
                stream.sendall(message)
                assert receive(stream, len(message)) == message
            stream.shutdown(socket.SHUT_WR)
            assert receive_all(stream) == b""
        assert server.end() == (0, "", "")


def test_lines_are_sent_back_whole(on: str) -> None:
    with serving("line", on, "--max-line=8") as server:
        with server.connect() as stream:
            stream.sendall(b"abc")
            stream.sendall(b"def\nx")
            assert receive(stream, 7) == b"abcdef\n"
            stream.settimeout(0.05)
            with pytest.raises(TimeoutError):
                stream.recv(1)
            stream.settimeout(DEADLINE_S)
            stream.shutdown(socket.SHUT_WR)
            assert receive_all(stream) == b"x"
        with server.connect() as stream:
            stream.sendall(b"ok\n12345678\n")
            # The first line may have come alone.
            with contextlib.suppress(ConnectionResetError):
                assert receive_all(stream) in (b"", b"ok\n")
        with server.connect() as stream:
            stream.sendall(b"1234567\n")
            assert receive(stream, 8) == b"1234567\n"


@pytest.mark.parametrize("workers", [1, 3])
def test_all_workers_have_the_same_keys(on: str, workers: int) -> None:
    with serving("resp", on, f"--workers={workers}") as server, contextlib.ExitStack() as open_streams:
        streams = [open_streams.enter_context(server.connect()) for _ in range(20)]
        for stream in streams:
            stream.sendall(b"INCR n\r\n")
        counted = set()
        for stream in streams:
            reply = b""
            while not reply.endswith(b"\r\n"):
                reply += stream.recv(100)
            counted.add(reply)
        assert counted == {b":%d\r\n" % number for number in range(1, 21)}
        assert f"{workers} worker" in server.first_line


def test_pipelined_requests_in_any_pieces(on: str) -> None:
    with serving("resp", on) as server, server.connect() as stream:
        requests = b"*3\r\n$3\r\nSET\r\n$1\r\na\r\n$5\r\nh\r\nlo\r\nGET a\r\nPING\r\nNONE\r\n"
        replies = b"+OK\r\n$5\r\nh\r\nlo\r\n+PONG\r\n-ERR unknown command 'NONE'\r\n"
        stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for at in range(len(requests)):
            stream.sendall(requests[at : at + 1])
        stream.sendall(requests * 100 + b"QUIT\r\nPING\r\n")
        assert receive_all(stream) == replies * 101 + b"+OK\r\n"


def test_a_client_that_reads_nothing_is_not_answered_for_ever(on: str) -> None:
    value = 100_000
    count = 500
    bounds = ("--max-buffered-each=64k", "--stats=json", "--stats-interval=50ms")
    with serving("resp", on, *bounds) as server, server.connect() as stream:
        stream.sendall(b"SET a " + b"x" * 1000 + b"\r\n")
        assert receive(stream, 5) == b"+OK\r\n"
        stream.sendall(b"*3\r\n$6\r\nAPPEND\r\n$1\r\na\r\n$%d\r\n%b\r\n" % (value, b"y" * value))
        assert receive(stream, 9) == b":101000\r\n"
        stream.sendall(b"GET a\r\n" * count)
        stream.shutdown(socket.SHUT_WR)
        # The kernel's own buffers take some of the replies.
        assert sum(server.line()["requests"] for _ in range(6)) < count
        whole = b"$101000\r\n" + b"x" * 1000 + b"y" * value + b"\r\n"
        assert receive_all(stream) == whole * count


def test_unix_socket(on: str, tmp_path: Path) -> None:
    path = tmp_path / "socket"
    for is_killed in (True, False):
        with serving("echo", on, f"--unix={path}", "--workers=2") as server:
            assert server.addresses == [f"unix:{path}"]
            with socket.socket(socket.AF_UNIX) as stream:
                stream.connect(str(path))
                stream.sendall(b"abc")
                assert receive(stream, 3) == b"abc"
            # The second time, what a killed server has left is replaced.
            assert path.is_socket()
            if is_killed:
                server.process.kill()
                server.process.wait()
            else:
                assert server.end()[0] == 0
                assert not path.exists()


def test_all_addresses_of_a_name(on: str) -> None:
    with serving("echo", on, "--host=localhost", "--workers=2") as server:
        ports = {address.rpartition(":")[2] for address in server.addresses}
        assert len(ports) == 1
        for address in server.addresses:
            host = address.rpartition(":")[0].strip("[]")
            with server.connect(host) as stream:
                stream.sendall(b"abc")
                assert receive(stream, 3) == b"abc"


def test_most_connections(on: str) -> None:
    with serving("echo", on, "--max-connections=2") as server:
        first, second = server.connect(), server.connect()
        third = server.connect()
        with first, second, third:
            for stream in (first, second):
                stream.sendall(b"a")
                assert receive(stream, 1) == b"a"
            third.sendall(b"b")
            third.settimeout(0.05)
            with pytest.raises(TimeoutError):
                third.recv(1)
            first.close()
            third.settimeout(DEADLINE_S)
            assert receive(third, 1) == b"b"


def test_idle_connections_are_closed(on: str) -> None:
    with serving("echo", on, "--idle-timeout=100ms", "--stats=json") as server:
        with server.connect() as stream:
            stream.sendall(b"a")
            assert receive(stream, 1) == b"a"
            with contextlib.suppress(ConnectionResetError):
                assert stream.recv(1) == b""
        _, said, _ = server.end()
        assert '"event":"end"' in said
        assert '"idle_closed":1' in said


def test_no_descriptors_is_said_once(on: str) -> None:
    def few() -> None:
        resource.setrlimit(resource.RLIMIT_NOFILE, (40, 40))

    with serving("echo", on, preexec_fn=few) as server, contextlib.ExitStack() as open_streams:
        streams = [open_streams.enter_context(server.connect()) for _ in range(50)]
        streams[0].sendall(b"a")
        assert receive(streams[0], 1) == b"a"
        # Those that wait are served when others have ended.
        last = streams.pop()
        last.sendall(b"z")
        for stream in streams:
            stream.close()
        assert receive(last, 1) == b"z"
        last.close()
        status, _, complained = server.end()
        assert status == 0
        assert complained.count("no connection can be accepted for now") == 1
        assert "ulimit -n" in complained


def test_stats(on: str) -> None:
    with serving("echo", on, "--stats=json", "--stats-interval=100ms") as server:
        with server.connect() as stream:
            for _ in range(300):
                stream.sendall(b"abc")
                assert receive(stream, 3) == b"abc"
            wait_until(lambda: server.line()["connections"] == 1)
        status, said, _ = server.end()
        assert status == 0
        end = Server.last_line(said)
        assert end["event"] == "end"
        assert (end["accepted"], end["closed"], end["connections"]) == (1, 1, 0)
        assert (end["requests"], end["received_bytes"], end["sent_bytes"]) == (300, 900, 900)
        assert 1 <= end["calls_per_request"] <= 3.5
        assert 0 < end["p50_us"] <= end["p99_us"]
        assert end["cpu_us_per_request"] > 0
        assert any(thread["name"] == "worker-0" and not thread["kernel"] for thread in end["threads"])


def test_an_idle_server_uses_no_processor(on: str) -> None:
    with serving("echo", on, "--workers=2") as server:
        with server.connect() as stream:
            stream.sendall(b"a")
            assert receive(stream, 1) == b"a"
        used = server.switches()
        time.sleep(0.2)
        # What a thread that wakes up by itself, or polls, does far more often.
        assert server.switches() - used <= 4
