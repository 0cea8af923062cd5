"""redis-server under `proactor run`, and a client for it."""

from __future__ import annotations

import json
import socket
import subprocess
import time
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


def benchmark(port: int, *options: str) -> subprocess.CompletedProcess[str]:
    command = ["redis-benchmark", "-p", str(port), "-c", "50", "-q", *options]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
