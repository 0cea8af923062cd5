"""redis-server on a ring: what it answers, what it writes, what it hands back."""

from __future__ import annotations

import json
import socket
import subprocess
from pathlib import Path
from typing import BinaryIO

import pytest
from capabilities import needs
from run_helpers import RUN, free_port, program, server

pytestmark = needs("io_uring", "redis-server")


class Client:
    """The RESP protocol, as far as the tests need it."""

    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=20)
        self.file: BinaryIO = self.socket.makefile("rb")

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.file.close()
        self.socket.close()

    def send(self, *words: str | bytes) -> None:
        parts = [word.encode() if isinstance(word, str) else word for word in words]
        command = b"*%d\r\n" % len(parts) + b"".join(b"$%d\r\n%s\r\n" % (len(part), part) for part in parts)
        self.socket.sendall(command)

    def reply(self) -> object:
        line = self.file.readline()
        kind, rest = line[:1], line[1:-2]
        if kind == b"$":
            return None if rest == b"-1" else self.file.read(int(rest) + 2)[:-2]
        if kind == b"*":
            return [self.reply() for _ in range(int(rest))]
        return int(rest) if kind == b":" else rest

    def __call__(self, *words: str | bytes) -> object:
        self.send(*words)
        return self.reply()


def redis(port: int, directory: Path, *options: str) -> list[str]:
    stats = directory / "stats"
    mine = ["--port", str(port), "--save", "", "--dir", str(directory), *options]
    return [*RUN, "--strict", f"--stats={stats}", "--", program("redis-server"), *mine]


def stats(directory: Path) -> dict[str, object]:
    # A child that has saved has written none: it ends without its handlers.
    found: dict[str, object] = json.loads((directory / "stats").read_text().splitlines()[-1])
    return found


def benchmark(port: int, *options: str) -> subprocess.CompletedProcess[str]:
    command = ["redis-benchmark", "-p", str(port), "-c", "50", "-q", *options]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


def test_benchmark(tmp_path: Path) -> None:
    port = free_port()
    with server(redis(port, tmp_path), port):
        kinds = "get,set,incr,lpush,lrange_100,mset"
        for depth in ("1", "16"):
            done = benchmark(port, "-n", "2000", "-P", depth, "-t", kinds)
            assert done.returncode == 0
            assert done.stdout.count("requests per second") == 7
            assert "rror" not in done.stdout + done.stderr
        with Client(port) as client:
            counters = client("KEYS", "counter*")
            assert isinstance(counters, list)
            assert client("GET", *counters) == b"4000"
    found = stats(tmp_path)
    assert isinstance(found["queued_sends"], int)
    assert found["queued_sends"] > 1000
    assert found["handed_back"] == {}


def test_values_of_all_sizes(tmp_path: Path) -> None:
    port = free_port()
    with server(redis(port, tmp_path), port), Client(port) as client:
        for size in (0, 1, 100, 4095, 4096, 4097, 65_536, 1_000_000, 5_000_003):
            value = bytes(index * 7 % 251 for index in range(min(size, 10_000))) * (size // 10_000 + 1)
            value = value[:size]
            assert client("SET", "key", value) == b"OK"
            assert client("GET", "key") == value
        # Many in one write, and the answers in one piece.
        for number in range(5000):
            client.send("INCRBY", "sum", str(number))
        answers = [client.reply() for _ in range(5000)]
        assert answers[-1] == sum(range(5000))


def test_many_clients_at_once(tmp_path: Path) -> None:
    port = free_port()
    with server(redis(port, tmp_path), port):
        clients = [Client(port) for _ in range(60)]
        for turn in range(30):
            for number, client in enumerate(clients):
                client.send("SET", f"key {number}", f"value {number} of turn {turn}")
                client.send("GET", f"key {number}")
                client.send("INCR", "all")
            for number, client in enumerate(clients):
                assert client.reply() == b"OK"
                assert client.reply() == f"value {number} of turn {turn}".encode()
                assert isinstance(client.reply(), int)
        assert clients[0]("GET", "all") == b"1800"
        for client in clients:
            client.__exit__()


def test_publish_and_subscribe(tmp_path: Path) -> None:
    port = free_port()
    with server(redis(port, tmp_path), port), Client(port) as publisher:
        subscribers = [Client(port) for _ in range(10)]
        for client in subscribers:
            assert client("SUBSCRIBE", "news") == [b"subscribe", b"news", 1]
        for number in range(200):
            assert publisher("PUBLISH", "news", f"item {number}") == 10
        for client in subscribers:
            for number in range(200):
                assert client.reply() == [b"message", b"news", f"item {number}".encode()]
            client.__exit__()


def test_append_only_file_and_background_save(tmp_path: Path) -> None:
    port = free_port()
    options = ("--appendonly", "yes", "--appendfsync", "everysec")
    with server(redis(port, tmp_path, *options), port), Client(port) as client:
        for number in range(2000):
            client.send("SET", f"key {number}", f"value {number}")
            if number == 500:
                client.send("BGSAVE")
            if number == 1500:
                client.send("BGREWRITEAOF")
        answers = [client.reply() for _ in range(2002)]
        assert answers.count(b"OK") == 2000
        with Client(port) as other:
            assert other("GET", "key 1999") == b"value 1999"
            while b"aof_rewrite_in_progress:1" in other("INFO", "persistence"):  # type: ignore[operator]
                pass
    found = stats(tmp_path)
    assert "the process forks" in str(found["handed_back"])
    with server(redis(port, tmp_path, *options), port), Client(port) as client:
        while (size := client("DBSIZE")) != 2000:
            assert size == b"LOADING Redis is loading the dataset in memory"
        for number in range(2000):
            client.send("GET", f"key {number}")
        assert [client.reply() for _ in range(2000)] == [f"value {number}".encode() for number in range(2000)]


@pytest.mark.parametrize("only", [True, False])
def test_only_some_ports(tmp_path: Path, only: bool) -> None:
    port = free_port()
    command = redis(port, tmp_path)
    command.insert(command.index("--"), f"--only={port if only else port + 1}")
    with server(command, port), Client(port) as client:
        assert client("PING") == b"PONG"
    assert (stats(tmp_path)["sockets"] == 0) == (not only)


def test_io_threads(tmp_path: Path) -> None:
    port = free_port()
    with server(redis(port, tmp_path, "--io-threads", "2", "--io-threads-do-reads", "yes"), port):
        done = benchmark(port, "-n", "5000", "-t", "get,set")
        assert done.stdout.count("requests per second") == 2
