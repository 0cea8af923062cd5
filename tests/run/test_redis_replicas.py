"""redis-server on a ring while it does more than answer: replicas, threads, redis-py, saving under load."""

from __future__ import annotations

import os
import random
import signal
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from pathlib import Path
from types import TracebackType

import pytest
from capabilities import needs, require
from redis_helpers import Client, benchmark, redis, stats
from run_helpers import at_once, free_port, server

pytestmark = needs("io_uring", "redis-server")

WRITERS = 8
KEYS = 20


class Load:
    """Clients that write values into keys of their own, several at once, until the block ends."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.is_over = threading.Event()
        self.values: list[dict[str, bytes]] = [{} for _ in range(WRITERS)]
        self.counts = [0] * WRITERS
        self.failures: list[BaseException] = []
        self.threads = [threading.Thread(target=self.write, args=(number,)) for number in range(WRITERS)]

    def write(self, number: int) -> None:
        rng = random.Random(number)
        mine = self.values[number]
        try:
            with Client(self.port) as client:
                while not self.is_over.is_set():
                    for _ in range(rng.choice([1, 10])):
                        key = f"{number}-{rng.randrange(KEYS)}"
                        mine[key] = rng.randbytes(rng.choice([1, 100, 5000]))
                        client.send("SET", key, mine[key])
                        client.send("INCR", f"count-{number}")
                        self.counts[number] += 1
                        assert client.reply() == b"OK"
                        assert client.reply() == self.counts[number]
        except BaseException as error:
            self.failures.append(error)

    def wait_for_more(self) -> None:
        before = list(self.counts)
        wait_until(lambda: all(now > then for now, then in zip(self.counts, before, strict=True)))
        assert not self.failures, self.failures

    def check(self, client: Client) -> None:
        """All that was written is there, and nothing else of it."""
        for number, values in enumerate(self.values):
            assert client("GET", f"count-{number}") == b"%d" % self.counts[number]
            for key, value in values.items():
                assert client("GET", key) == value

    def __enter__(self) -> Load:
        for thread in self.threads:
            thread.start()
        self.wait_for_more()
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        self.is_over.set()
        for thread in self.threads:
            thread.join(30)
        assert not self.failures, self.failures


def wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.005)


def info(client: Client, section: str) -> dict[str, str]:
    text = client("INFO", section)
    assert isinstance(text, bytes)
    return dict(line.split(":", 1) for line in text.decode().split("\r\n") if ":" in line)


@pytest.mark.parametrize("diskless", ["yes", "no"])
def test_a_replica_that_joins_under_load(tmp_path: Path, diskless: str) -> None:
    ports = [free_port() for _ in range(3)]
    directories = [tmp_path / name for name in ("first", "second", "third")]
    with ExitStack() as stack:
        for port, directory in zip(ports, directories, strict=True):
            directory.mkdir()
            options = [
                "--repl-diskless-sync",
                diskless,
                "--repl-diskless-sync-delay",
                "0",
                "--repl-backlog-size",
                "64mb",
            ]
            stack.enter_context(server(redis(port, directory, *options), port))
        first, second, third = (stack.enter_context(Client(port)) for port in ports)
        for number in range(500):
            assert first("SET", f"early {number}", b"v" * 5000) == b"OK"
        with Load(ports[0]) as load:
            assert second("REPLICAOF", "127.0.0.1", str(ports[0])) == b"OK"
            # A replica of the replica, whose link to the first goes on.
            assert third("REPLICAOF", "127.0.0.1", str(ports[1])) == b"OK"
            for client in (second, third):
                wait_until(lambda client=client: info(client, "replication")["master_link_status"] == "up")  # type: ignore[misc]
                load.wait_for_more()
            # The link breaks, and the replica gets what it has missed.
            assert first("CLIENT", "KILL", "TYPE", "replica") == 1
            load.wait_for_more()
        assert first("WAIT", "1", "20000") == 1
        end = info(first, "replication")["master_repl_offset"]
        for client in (second, third):
            wait_until(lambda client=client: info(client, "replication")["master_repl_offset"] == end)  # type: ignore[misc]
            load.check(client)
            assert client("DBSIZE") == first("DBSIZE")
        assert int(info(first, "stats")["sync_full"]) == 1
        assert int(info(first, "stats")["sync_partial_ok"]) >= 1
    for directory in directories:
        found = stats(directory)
        assert isinstance(found["sockets"], int)
        assert found["sockets"] >= 1
        assert isinstance(found["handed_back"], dict)
        assert found["handed_back"].keys() <= {"the process forks"}


def test_appending_and_saving_under_load(tmp_path: Path) -> None:
    port = free_port()
    options = ("--appendonly", "yes", "--appendfsync", "always")
    with server(redis(port, tmp_path, *options), port), Client(port) as client:
        with Load(port) as load:
            for _ in range(3):
                assert client("BGSAVE") == b"Background saving started"
                load.wait_for_more()
                wait_until(lambda: info(client, "persistence")["rdb_bgsave_in_progress"] == "0")
                assert info(client, "persistence")["rdb_last_bgsave_status"] == "ok"
                assert client("BGREWRITEAOF") == b"Background append only file rewriting started"
                load.wait_for_more()
                wait_until(lambda: info(client, "persistence")["aof_rewrite_in_progress"] == "0")
                assert info(client, "persistence")["aof_last_bgrewrite_status"] == "ok"
        load.check(client)
    # From the append-only file, then from the dump.
    with server(redis(port, tmp_path, *options), port), Client(port) as client:
        client.wait_until_loaded()
        load.check(client)
        assert client("SAVE") == b"OK"
    with server(redis(port, tmp_path), port), Client(port) as client:
        client.wait_until_loaded()
        load.check(client)


def in_the_kernels_set(process: int) -> set[int]:
    """The descriptors in the epoll sets of a process."""
    found = set()
    for entry in Path(f"/proc/{process}/fdinfo").iterdir():
        with suppress(FileNotFoundError):
            found |= {int(line.split()[1]) for line in entry.read_text().splitlines() if line[:4] == "tfd:"}
    return found


def test_connections_return_to_the_ring_after_a_save(tmp_path: Path) -> None:
    port = free_port()
    with server(redis(port, tmp_path), port) as process, Client(port) as client, Load(port) as load:
        others = in_the_kernels_set(process.pid)
        # A child lives until it is ended: each key takes it a second.
        assert client("CONFIG", "SET", "rdb-key-save-delay", "1000000") == b"OK"
        for _ in range(3):
            assert client("BGSAVE") == b"Background saving started"
            load.wait_for_more()
            assert len(in_the_kernels_set(process.pid) - others) == WRITERS + 1
            # A connection that the child does not have.
            with Client(port) as other:
                assert other("PING") == b"PONG"
                assert len(in_the_kernels_set(process.pid) - others) == WRITERS + 1
            child = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text()
            os.kill(int(child), signal.SIGUSR1)
            wait_until(lambda: info(client, "persistence")["rdb_bgsave_in_progress"] == "0")
            wait_until(lambda: in_the_kernels_set(process.pid) == others)
            load.wait_for_more()
        load.is_over.set()
        for thread in load.threads:
            thread.join()
        load.check(client)
    found = stats(tmp_path)
    assert found["returned"] == 3 * (WRITERS + 1)
    assert found["handed_back"] == {"the process forks": 3}


@needs("redis-tools")
def test_io_threads(tmp_path: Path) -> None:
    port = free_port()
    command = redis(port, tmp_path, "--io-threads", "2", "--io-threads-do-reads", "yes")
    with server(command, port) as process, Client(port) as client:
        # It listens before it starts them. Whether one is active changes with the load, without us too.
        tasks = Path(f"/proc/{process.pid}/task")
        wait_until(lambda: any(file.read_text() == "io_thd_1\n" for file in tasks.glob("*/comm")))
        with Load(port) as load:
            done = benchmark(port, "-n", "5000", "-t", "get,set")
            assert done.stdout.count("requests per second") == 2
            load.wait_for_more()
        load.check(client)


def test_redis_py(tmp_path: Path) -> None:
    require("redis-py")
    import redis as redis_py

    port = free_port()
    with server(redis(port, tmp_path), port):
        pool = redis_py.ConnectionPool(port=port, max_connections=32)
        shared = redis_py.Redis(connection_pool=pool)

        def client(number: int) -> None:
            rng = random.Random(number)
            values = {f"{number}-{at}": rng.randbytes(at * 100) for at in range(50)}
            assert shared.mset(values)
            assert shared.mget(list(values)) == list(values.values())
            with shared.pipeline(transaction=number % 2 == 0) as pipeline:
                for at in range(200):
                    pipeline.rpush(f"list-{number}", at)
                assert pipeline.execute() == list(range(1, 201))
            assert shared.lrange(f"list-{number}", 0, -1) == [b"%d" % at for at in range(200)]
            add = shared.register_script("return redis.call('INCRBY', KEYS[1], ARGV[1])")
            assert add(keys=[f"sum-{number}"], args=[5]) == 5
            assert shared.blpop(f"list-{number}") == (f"list-{number}".encode(), b"0")
            with shared.pubsub() as channel:  # type: ignore[no-untyped-call]
                channel.subscribe(f"news-{number}")
                assert channel.get_message(timeout=20)
                assert shared.publish(f"news-{number}", b"item") == 1
                message = channel.get_message(timeout=20)
                assert message is not None
                assert message["data"] == b"item"

        at_once(client, 10)
        pool.disconnect()
    assert stats(tmp_path)["handed_back"] == {}
