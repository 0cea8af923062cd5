"""Redis's own client and benchmark talk to `proactor serve resp`."""

from __future__ import annotations

import subprocess

import pytest
from capabilities import needs
from serve_helpers import DEADLINE_S, serving

pytest_plugins = ["serve_fixtures"]
pytestmark = needs("redis-tools")


@pytest.mark.parametrize("pipeline", [1, 16])
def test_benchmark(on: str, pipeline: int) -> None:
    tests = "ping,set,get,incr,lpush,rpush,lpop,rpop,lrange_100,mset"
    with serving("resp", on, "--workers=2") as server:
        where = ["-h", "127.0.0.1", "-p", str(server.port)]
        work = ["-n", "500", "-c", "20", "-P", str(pipeline), "-t", tests, "--csv"]
        done = subprocess.run(
            ["redis-benchmark", *where, *work], capture_output=True, text=True, timeout=DEADLINE_S, check=True
        )
        # A line for each, and the names of the columns.
        assert len(done.stdout.splitlines()) == 13, done.stdout
        assert "ERR" not in done.stdout + done.stderr


def test_client(on: str) -> None:
    with serving("resp", on) as server:
        done = subprocess.run(
            ["redis-cli", "-h", "127.0.0.1", "-p", str(server.port)],
            input="SET a 'b c'\nGET a\nRPUSH l 1 2\nLRANGE l 0 -1\nGET l\n",
            capture_output=True,
            text=True,
            timeout=DEADLINE_S,
            check=True,
        )
        assert done.stdout.split("\n")[:5] == ["OK", "b c", "2", "1", "2"]
        assert "WRONGTYPE" in done.stdout
