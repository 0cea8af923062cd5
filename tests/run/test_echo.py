"""Python's event loops on a ring: each byte comes back once and in its place, however clients behave."""

from __future__ import annotations

import json
import signal
import sys
from pathlib import Path

import pytest
from capabilities import needs, require
from echo_clients import echo_client, http_client, run_clients
from run_helpers import HERE, RUN, free_port, server

pytestmark = needs("io_uring")


@pytest.mark.parametrize("loop", ["asyncio", "uvloop"])
@pytest.mark.parametrize("options", [[], ["--pool=1", "--per-socket=4096"]], ids=["", "little memory"])
def test_echo(loop: str, options: list[str], tmp_path: Path) -> None:
    if loop == "uvloop":
        require("uvloop")
    port = free_port()
    stats = tmp_path / "stats"
    said = tmp_path / "said"
    command = [*RUN, "--strict", f"--stats={stats}", *options, "--"]
    with (
        said.open("wb") as out,
        server(
            [*command, sys.executable, str(HERE / "echo_server.py"), str(port), loop],
            port,
            stdout=out,
        ) as child,
    ):
        run_clients(echo_client, port, 180)
    assert child.returncode == 0
    assert said.read_text() == "0\n"
    found = json.loads(stats.read_text().splitlines()[-1])
    # libuv adds descriptors by a ring of its own, where no hook sees them: they stay on epoll.
    assert found["sockets"] >= 180 or loop == "uvloop"
    assert found["handed_back"] == {}


@needs("uvicorn")
@pytest.mark.parametrize("loop", ["asyncio", "uvloop"])
def test_uvicorn(loop: str, tmp_path: Path) -> None:
    if loop == "uvloop":
        require("uvloop")
    port = free_port()
    stats = tmp_path / "stats"
    options = ["--loop", loop, "--port", str(port), "--app-dir", str(HERE), "--log-level", "error"]
    command = [*RUN, "--strict", f"--stats={stats}", "--", sys.executable, "-m", "uvicorn", "http_echo:app"]
    with server([*command, *options], port) as child:
        run_clients(http_client, port, 100)
        # At the end it raises again what has ended it.
        child.send_signal(signal.SIGINT)
        assert child.wait(20) == 0
    found = json.loads(stats.read_text().splitlines()[-1])
    assert found["sockets"] >= 100 or loop == "uvloop"
    assert found["handed_back"] == {}
