"""tools/uvloop_suite.py tells tests that end differently with us from those that fail anyway."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import uvloop_suite
from capabilities import needs

# The library is in the environment of a program that runs under `proactor run`.
TESTS = """
import os, signal, socket, select, unittest

WITH_US = "PROACTOR_RUN" in os.environ


class Test(unittest.TestCase):
    def test_passes(self):
        listener = socket.create_server(("127.0.0.1", 0))
        with listener, socket.create_connection(listener.getsockname()) as client, select.epoll() as poll:
            client.setblocking(False)
            poll.register(client, select.EPOLLOUT)
            assert poll.poll(10)

    @unittest.skip("everywhere")
    def test_skipped(self):
        pass

    def test_two(self):
        {two}
"""


def run(place: Path, two: str) -> subprocess.CompletedProcess[str]:
    (place / "tests").mkdir()
    for name in ("test_tcp", "test_unix"):
        (place / "tests" / f"{name}.py").write_text(TESTS.format(two=two if name == "test_unix" else "pass"))
    command = [sys.executable, uvloop_suite.__file__, f"--source={place}", "--verbose", "uvloop"]
    environment = {key: value for key, value in os.environ.items() if key != "PROACTOR_RUN"}
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, check=False)


@needs("io_uring")
@pytest.mark.parametrize(
    ("two", "said", "status"),
    [
        ("pass", "end differently with us: 0", 0),
        ("raise OSError('always')", "end differently with us: 0", 0),
        (
            "assert not WITH_US, 'with us'",
            "uvloop test_unix Test::test_two: {'failure': 4} with us, {'passed': 4}",
            1,
        ),
        ("if not WITH_US: self.skipTest('x')", "{'passed': 4} with us, {'skipped': 4} without", 1),
        ("WITH_US and os.kill(os.getpid(), signal.SIGKILL)", f"pytest ended with {-signal.SIGKILL}", 1),
    ],
    ids=["same", "fails always", "fails with us", "skipped without us", "crashes with us"],
)
def test_what_ends_differently(tmp_path: Path, two: str, said: str, status: int) -> None:
    done = run(tmp_path, two)
    assert said in done.stdout, done.stderr
    assert done.returncode == status
    assert "connections were on a ring" in done.stdout


@pytest.mark.parametrize(
    ("times", "allowed", "sockets", "status"),
    [(0, 0, 1, 0), (1, 0, 1, 1), (1, 1, 1, 0), (2, 1, 1, 1), (0, 0, 0, 1)],
)
def test_what_is_allowed(times: int, allowed: int, sockets: int, status: int) -> None:
    results = {"ours": uvloop_suite.Results(), "plain": uvloop_suite.Results()}
    for run in range(4):
        results["ours"].add("unit", {"test": ("failure", "late") if run < times else ("passed", "")})
        results["plain"].add("unit", {"test": ("passed", "")})
    assert uvloop_suite.report(results, sockets, allowed=allowed, verbose=False) == status
