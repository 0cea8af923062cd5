"""The command `proactor run`, programs for it, and servers that a test starts and ends."""

from __future__ import annotations

import errno
import json
import os
import random
import shutil
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import proactor
from seccomp import FILTER, IO_URING_SETUP

LIBRARY = Path(proactor.__file__).parent / "libproactor_preload.so"
HERE = Path(__file__).parent
RUN_ALONE = [sys.executable, "-m", "proactor", "run"]
# Nearly all tests of this directory can be run with further options, such as `--kernel-workers=1`. A program
# that talks to itself is too quick for a kernel worker: `test_kernel_workers.py` runs it in step with one.
RUN = [*RUN_ALONE, *os.environ.get("PROACTOR_TEST_RUN", "").split()]
# Runs what follows where no ring can be made.
DENIED = [
    sys.executable,
    "-c",
    f"{FILTER}\nimport os, sys\n"
    f"deny({errno.EPERM}, {IO_URING_SETUP}, True)\nos.execv(sys.argv[1], sys.argv[1:])",
]


def compiled(name: str, into: Path, *flags: str, sources: list[str] | None = None) -> Path:
    """The C program whose source files are in the directory `name` beside this file."""
    program = into / name
    files = (
        [str(HERE / source) for source in sources] if sources else sorted(map(str, (HERE / name).glob("*.c")))
    )
    subprocess.run(
        ["cc", "-O1", "-o", str(program), *files, "-lpthread", *flags],
        check=True,
        capture_output=True,
        timeout=60,
    )
    return program


def free_port() -> int:
    """A port below those that the kernel gives to whoever connects meanwhile."""
    while True:
        port = random.randrange(22_000, 32_768)
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port


@contextmanager
def server(command: list[str], port: int, **options: object) -> Iterator[subprocess.Popen[bytes]]:
    """A server that listens before the block begins, and is ended after it."""
    child = subprocess.Popen(command, **{"stdout": subprocess.DEVNULL, **options})  # type: ignore[call-overload]
    try:
        deadline = time.monotonic() + 20
        while True:
            try:
                socket.create_connection(("127.0.0.1", port), timeout=1).close()
                break
            except OSError:
                assert child.poll() is None, f"{command} has ended with {child.returncode}"
                assert time.monotonic() < deadline, f"{command} does not listen"
                time.sleep(0.02)
        yield child
    finally:
        if child.poll() is None:
            child.terminate()
        try:
            child.wait(20)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()
            raise


def settle(process: int) -> None:
    """Waits until all threads of a process sleep, twice in a row: what its peers have done is handled."""

    def threads() -> list[tuple[str, ...]]:
        stats = [
            path.read_text().rpartition(")")[2].split()
            for path in Path(f"/proc/{process}/task").glob("*/stat")
        ]
        # State, and the ticks of the processor in user and kernel mode.
        return [(fields[0], fields[11], fields[12]) for fields in stats]

    deadline = time.monotonic() + 20
    before = None
    while (now := threads()) != before or any(state != "S" for state, *_ in now):
        assert time.monotonic() < deadline, f"process {process} does not come to rest: {now}"
        before = now
        time.sleep(0.02)


def program(name: str) -> str:
    """Debian has some servers where only root looks."""
    path = shutil.which(name, path=os.environ.get("PATH", "") + ":/usr/sbin:/usr/local/sbin")
    assert path is not None
    return path


def at_once(work: Callable[[int], None], clients: int) -> None:
    """Runs it for each client, and fails if any has failed or hangs."""
    failures: list[BaseException] = []

    def one(number: int) -> None:
        try:
            work(number)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=one, args=(number,)) for number in range(clients)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not any(thread.is_alive() for thread in threads)
    assert not failures, failures


def counts(stats: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in stats.read_text().splitlines()]


def certificate(place: Path) -> None:
    """Make a key and a certificate of localhost, as PEM files."""
    files = ["-keyout", str(place / "key.pem"), "-out", str(place / "certificate.pem")]
    name = ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"]
    kind = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2"]
    subprocess.run(["openssl", "req", "-x509", *kind, *name, *files], check=True, capture_output=True)


def wrk(url: str, *options: str) -> None:
    """Load a server for a second; each answer is 200, and no connection fails."""
    command = [program("wrk"), "-t", "2", "-c", "50", "-d", "1s", *options, url]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    assert "Requests/sec" in done.stdout
    assert "Socket errors" not in done.stdout, done.stdout
    assert "Non-2xx" not in done.stdout, done.stdout
