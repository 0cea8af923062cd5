"""redis-server on a ring: what it answers, what it writes, what it hands back."""

from __future__ import annotations

from pathlib import Path

import pytest
from capabilities import needs
from redis_helpers import Client, benchmark, redis, set_and_get, stats, take_turns
from run_helpers import free_port, server

pytestmark = needs("io_uring", "redis-server")


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
        set_and_get(client, (0, 1, 100, 4095, 4096, 4097, 65_536, 1_000_000, 5_000_003))
        # Many in one write, and the answers in one piece.
        for number in range(5000):
            client.send("INCRBY", "sum", str(number))
        answers = [client.reply() for _ in range(5000)]
        assert answers[-1] == sum(range(5000))


def test_many_clients_at_once(tmp_path: Path) -> None:
    port = free_port()
    with server(redis(port, tmp_path), port):
        clients = [Client(port) for _ in range(60)]
        take_turns(clients, 30)
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
        client.wait_until_loaded()
        assert client("DBSIZE") == 2000
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
