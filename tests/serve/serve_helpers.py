"""`proactor serve` as a user runs it: a process of its own, on a port that the kernel chooses."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

DEADLINE_S = 30


def command(*arguments: str) -> list[str]:
    """$PROACTOR_COMMAND names a native binary to take instead of the package's command."""
    native = os.environ.get("PROACTOR_COMMAND")
    return [*([native] if native else [sys.executable, "-m", "proactor"]), "serve", *arguments]


def wait_until(what: Callable[[], object]) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while not what():
        assert time.monotonic() < deadline
        time.sleep(0.005)


class Server:
    """A server that has said where it listens."""

    def __init__(self, *arguments: str, **more: Any) -> None:
        self.process = subprocess.Popen(
            command(*arguments), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **more
        )
        assert self.process.stdout is not None
        self.first_line = self.process.stdout.readline()
        assert self.first_line, self.process.communicate()

    @property
    def addresses(self) -> list[str]:
        if self.first_line.startswith("{"):
            found: list[str] = json.loads(self.first_line)["addresses"]
            return found
        match = re.match(r"listening on (.*) \(", self.first_line)
        assert match, self.first_line
        return match[1].split(" ")

    @property
    def port(self) -> int:
        return int(self.addresses[0].rpartition(":")[2])

    def connect(self, host: str = "127.0.0.1") -> socket.socket:
        return socket.create_connection((host, self.port), timeout=DEADLINE_S)

    def line(self) -> dict[str, Any]:
        """The next line of JSON."""
        assert self.process.stdout is not None
        found: dict[str, Any] = json.loads(self.process.stdout.readline())
        return found

    @staticmethod
    def last_line(said: str) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(said.splitlines()[-1])
        return found

    def switches(self) -> int:
        """Context switches of all threads, those by the clock's interrupt included."""
        found = 0
        for task in Path(f"/proc/{self.process.pid}/task").iterdir():
            for line in (task / "status").read_text().splitlines():
                if "ctxt_switches" in line:
                    found += int(line.split()[1])
        return found

    def end(self, *signals: signal.Signals) -> tuple[int, str, str]:
        """Its status and what it has said, after SIGTERM or these signals."""
        for number in signals or (signal.SIGTERM,):
            self.process.send_signal(number)
        said, complained = self.process.communicate(timeout=DEADLINE_S)
        return self.process.returncode, said, complained

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.communicate()


@contextmanager
def serving(*arguments: str, **more: Any) -> Iterator[Server]:
    """A server that ends with the block, if it has not before."""
    server = Server(*arguments, **more)
    try:
        yield server
    finally:
        server.close()


def refused(*arguments: str, **more: Any) -> str:
    """What a command says that starts nothing."""
    done: subprocess.CompletedProcess[str] = subprocess.run(
        command(*arguments), capture_output=True, text=True, timeout=DEADLINE_S, check=False, **more
    )
    assert done.returncode == 2, (done.returncode, done.stdout, done.stderr)
    assert done.stdout == ""
    assert "Traceback" not in done.stderr
    assert "panicked" not in done.stderr
    return done.stderr


def receive(stream: socket.socket, count: int) -> bytes:
    received = bytearray()
    while len(received) < count:
        piece = stream.recv(count - len(received))
        assert piece, f"the stream ended after {len(received)} of {count} bytes"
        received += piece
    return bytes(received)


def receive_all(stream: socket.socket) -> bytes:
    return b"".join(iter(lambda: stream.recv(1 << 16), b""))
