"""The comparisons of servers run, at smoke size, and their arithmetic is right."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
import servers_live
import servers_lockstep
import servers_model
import servers_programs
import servers_redis
import servers_streams
from capabilities import require
from test_comparisons import smoke


def stand_in(folder: Path, printed: object) -> Path:
    """A program that prints one JSON object, in the place of one of ours that would have to be built."""
    binary = folder / "ours"
    binary.write_text(f"#!/bin/sh\necho '{json.dumps(printed)}'\n")
    binary.chmod(0o755)
    return binary


def test_servers_lockstep(tmp_path: Path) -> None:
    """The servers in C check each byte that comes back."""
    require("io_uring")
    ours = stand_in(tmp_path, {"cpu_p10": 0.001, "calls_per_request": 0.5})
    text, data = smoke(tmp_path, "servers_lockstep.py", "--binary", str(ours))
    assert set(data["setups"]) == set(servers_lockstep.SETUPS)
    for found in data["setups"].values():
        assert set(found) == set(servers_lockstep.CONTENDERS)
        assert all(rounds[0]["cpu_p10"] > 0 for rounds in found.values())
    # Calls are counted: epoll waits once for all, and each request is a read and a write.
    assert data["setups"]["25 x 512 B"][servers_lockstep.EPOLL][0]["calls_per_request"] == 2 + 1 / 25
    assert "## 25 x 512 B, 16 deep\n" in text


def test_servers_streams(tmp_path: Path) -> None:
    """The client checks each byte that comes back."""
    setup = "25 x 512 B"
    arguments = ("--only", "proactor.net, epoll", "--setup", setup)
    _, data = smoke(tmp_path, "servers_streams.py", *arguments)
    found = data["setups"][setup]
    assert set(found) == {servers_streams.STREAMS, "proactor.net, epoll"}
    assert all(rounds[0]["cpu_us"] > 0 for rounds in found.values())


def test_servers_live(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A library that cannot be built says why, and the rest runs."""
    ours = tmp_path / "ours"
    ours.write_text(f'#!/bin/sh\nexec {sys.executable} -m proactor "$@"\n')
    cargo = tmp_path / "cargo"
    cargo.write_text("#!/bin/sh\necho 'error: no network' >&2\nexit 101\n")
    for program in (ours, cargo):
        program.chmod(0o755)
    monkeypatch.setenv("CARGO", str(cargo))
    arguments = ("--binary", str(ours), "--only", "proactor, epoll|two threads|mio")
    text, data = smoke(tmp_path, "servers_live.py", *arguments)
    assert data["missing"] == dict.fromkeys(("mio", "monoio", "compio"), "error: no network")
    assert "mio is not there: error: no network." in text
    two = "25 connections, two processors"
    assert set(data["setups"]) == set(servers_live.SETUPS)
    for setup, found in data["setups"].items():
        own = "C epoll, two threads" if setup == two else "proactor, epoll"
        assert set(found) == {servers_live.EPOLL, own}
        for (one,) in found.values():
            assert one["requests_per_s"] > 0
            assert one["cpu_us"] > 0
            assert 0 < one["p50_us"] <= one["p99_us"]
    assert f"## {two}: CPU\n" in text


@pytest.fixture
def ours(tmp_path: Path) -> Path:
    """The package's command, in the place of one that would have to be built."""
    command = tmp_path / "ours"
    command.write_text(f'#!/bin/sh\nexec {sys.executable} -m proactor "$@"\n')
    command.chmod(0o755)
    return command


def test_servers_redis(tmp_path: Path, ours: Path) -> None:
    """At an exact batch, and under redis-benchmark."""
    setups = ("50 connections", "live, redis-benchmark -c 50")
    chosen = [word for setup in setups for word in ("--setup", setup)]
    text, data = smoke(tmp_path, "servers_redis.py", "--binary", str(ours), "--only", "proactor run", *chosen)
    for setup in setups:
        assert f"## {setup}\n" in text
        for (one,) in data["setups"][setup].values():
            assert one["cpu_us"] > 0
    assert servers_redis.summary(data).splitlines()[2].endswith("| 0.80 |")


def test_servers_programs(tmp_path: Path, ours: Path) -> None:
    """The load checks each byte that comes back."""
    text, data = smoke(tmp_path, "servers_programs.py", "--binary", str(ours))
    assert set(data["setups"]) == set(servers_programs.SETUPS)
    for found in data["setups"].values():
        assert set(found) == set(servers_programs.CONTENDERS)
        assert all(one["cpu_us"] > 0 and one["requests_per_s"] > 0 for (one,) in found.values())
    assert "## nginx, 100 KB\n" in text


def test_client_and_server_have_processors_of_their_own() -> None:
    place = servers_live.Place.of
    assert place([2, 3, 5], 1) == servers_live.Place((2,), (3, 5))
    assert place([2, 3, 5], 2) == servers_live.Place((2, 3), (5,))
    # A machine that is too small: the client shares the last one.
    assert place([2, 3], 2) == servers_live.Place((2, 3), (3,))
    assert place([2], 2) == servers_live.Place((2,), (2,))


def test_the_kernel_worker_is_not_on_the_server_s_processor(tmp_path: Path) -> None:
    programs = servers_live.Programs(tmp_path, ("proactor",), {})
    command = servers_live.with_worker(programs, servers_live.Place((0, 3), (5,)), 7000)
    assert command == [
        *("proactor", "serve", "echo", "--port=7000"),
        *("--kernel-workers=1", "--user-cpus=0", "--kernel-cpus=3"),
    ]


def test_the_summary_of_live_servers_is_of_rounds() -> None:
    epoll = [{"cpu_us": 4.0, "p99_us": 10.0}, {"cpu_us": 8.0, "p99_us": 10.0}]
    ours = [{"cpu_us": 2.0, "p99_us": 11.0}, {"cpu_us": 4.0, "p99_us": 11.0}]
    setups = {"a": {servers_live.EPOLL: epoll, "proactor": ours}, "b": {servers_live.EPOLL: epoll}}
    assert servers_live.summary({"setups": setups}).splitlines() == [
        "| CPU / p99 of C epoll |           a |           b |",
        "| -------------------- | ----------: | ----------: |",
        "| C epoll              | 1.00 / 1.00 | 1.00 / 1.00 |",
        "| proactor             | 0.50 / 1.10 |             |",
    ]


def test_the_summary_of_servers_is_in_ratios() -> None:
    rounds = {
        servers_lockstep.EPOLL: [{"cpu_p10": 4.0}, {"cpu_p10": 8.0}],
        servers_lockstep.RING: [{"cpu_p10": 3.0}, {"cpu_p10": 6.0}],
        servers_lockstep.OURS: [{"cpu_p10": 3.2}, {"cpu_p10": 6.4}],
    }
    assert servers_lockstep.summary({"setups": {"1 x 512 B": rounds}}).splitlines() == [
        "| ratio to C epoll      | 1 x 512 B |",
        "| --------------------- | --------: |",
        "| C epoll, microseconds |      6.00 |",
        "| C ring                |      0.75 |",
        "| proactor              |      0.80 |",
    ]


def test_servers_model(tmp_path: Path, ours: Path) -> None:
    """It is made of what was measured, and says that it is a model."""
    text, data = smoke(tmp_path, "servers_model.py", "--binary", str(ours))
    (one,) = data["rounds"]
    assert all(one[key] > 0 for key in ("ring_kernel_us", "alone_us", "epoll_us"))
    assert "All else in this section is the model." in text
    assert "393,052" in text


def test_the_model_has_the_slower_side_s_rate() -> None:
    costs = servers_model.Costs(user=1.0, kernel=4.0, wake=5.0, epoll=5.0)
    assert costs.rate(1, 1) == 250_000
    # A wake-up for each batch of each worker: 1 + 5 * 5 / 25.
    assert costs.rate(1, 5) == 500_000
    assert costs.rate(1, 4) == pytest.approx(1e6 / 1.8)
    assert costs.workers(0) == 3
    # What computes a lot is its own limit.
    assert costs.workers(20) == 1
    assert costs.of_epoll(2, application=5.0) == 200_000
    assert costs.split(8, 0) == 3
