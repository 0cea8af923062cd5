"""redis-server under `proactor run`, and a client for it."""

from __future__ import annotations

import json
import socket
import subprocess
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import BinaryIO

from run_helpers import RUN, program


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

    def wait_until_loaded(self) -> None:
        """A server answers while it loads its data, that it does so."""
        while b"LOADING" in bytes(self("PING")):  # type: ignore[call-overload]
            time.sleep(0.005)

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


def set_and_get(client: Client, sizes: Iterable[int]) -> None:
    """Write and read values of these lengths, and check them."""
    for size in sizes:
        value = (bytes(index * 7 % 251 for index in range(min(size, 10_000))) * (size // 10_000 + 1))[:size]
        assert client("SET", "key", value) == b"OK"
        assert client("GET", "key") == value


def take_turns(clients: Sequence[Client], turns: int) -> None:
    """Have each client send three commands before any of them reads a reply."""
    for turn in range(turns):
        for number, client in enumerate(clients):
            client.send("SET", f"key {number}", f"value {number} of turn {turn}")
            client.send("GET", f"key {number}")
            client.send("INCR", "all")
        for number, client in enumerate(clients):
            assert client.reply() == b"OK"
            assert client.reply() == f"value {number} of turn {turn}".encode()
            assert isinstance(client.reply(), int)


def benchmark(port: int, *options: str) -> subprocess.CompletedProcess[str]:
    command = ["redis-benchmark", "-p", str(port), "-c", "50", "-q", *options]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
