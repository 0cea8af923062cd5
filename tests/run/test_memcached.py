"""memcached on rings, a set for each of its threads: each client gets its own answers, in both protocols."""

from __future__ import annotations

import os
import random
import socket
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from capabilities import needs, require
from memcached_protocol import Binary, Text, check
from run_helpers import RUN, at_once, counts, free_port, program, server

pytestmark = needs("io_uring", "memcached")

CLIENTS = 24


@contextmanager
def memcached(stats: Path, *options: str) -> Iterator[int]:
    port = free_port()
    command = [*RUN, "--strict", *options, f"--stats={stats}", "--", program("memcached")]
    # It refuses to run as root unless it is told to, and becomes another user after it has bound its port.
    user = ["-u", "nobody"] if os.geteuid() == 0 else []
    mine = ["-p", str(port), "-l", "127.0.0.1", "-U", "0", "-t", "4", *user]
    with server([*command, *mine], port):
        yield port
    (found,) = counts(stats)
    assert isinstance(found["sockets"], int)
    assert found["sockets"] >= CLIENTS
    assert found["handed_back"] == {}


@pytest.mark.parametrize("options", [[], ["--pool=2", "--per-socket=4k"]], ids=["", "little memory"])
def test_protocols(tmp_path: Path, options: list[str]) -> None:
    with memcached(tmp_path / "stats", *options) as port:

        def client(number: int) -> None:
            with socket.create_connection(("127.0.0.1", port), timeout=30) as sock:
                connection = (Text, Binary)[number % 2](sock)
                check(sock, connection, random.Random(number), b"client-%d" % number, 60)
                connection.file.close()

        at_once(client, CLIENTS)


def test_pymemcache(tmp_path: Path) -> None:
    require("pymemcache")
    from pymemcache.client.base import Client, PooledClient

    with memcached(tmp_path / "stats") as port:
        pool = PooledClient(("127.0.0.1", port), max_pool_size=CLIENTS, timeout=30)

        def client(number: int) -> None:
            with closing(Client(("127.0.0.1", port), timeout=30)) as own:
                values = {f"{number}-{at}": random.Random(at).randbytes(at * 97) for at in range(100)}
                assert own.set_many(values, noreply=False) == []
                assert own.get_many(list(values)) == values
                assert pool.get_many(list(values)) == values
                assert pool.add(f"{number}-0", b"again", noreply=False) is False
                value, token = own.gets(f"{number}-1")
                assert value == values[f"{number}-1"]
                assert own.cas(f"{number}-1", b"new", token, noreply=False)
                assert pool.cas(f"{number}-1", b"newer", token, noreply=False) is False
                assert own.get(f"{number}-1") == b"new"
                own.set(f"{number}-count", b"0", noreply=True)
                assert [own.incr(f"{number}-count", 3) for _ in range(5)] == [3, 6, 9, 12, 15]
                assert own.delete(f"{number}-count", noreply=False)
                assert own.get(f"{number}-count") is None

        at_once(client, CLIENTS)
        pool.close()
