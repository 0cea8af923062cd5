"""The comparisons of servers run, at smoke size, and their arithmetic is right."""

from __future__ import annotations

import json
from pathlib import Path

import servers_lockstep
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
