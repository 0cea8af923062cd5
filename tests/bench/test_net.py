"""`proactor bench net`: load on servers, faulty ones too."""

from __future__ import annotations

import contextlib
import csv
import json
import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from bench_helpers import bench, command
from capabilities import needs

SERVER = str(Path(__file__).parent / "net_server.py")
QUICK = ("--duration", "200ms", "--rounds", "1", "--counters", "none", "--progress", "never")


def free_port() -> str:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return str(listener.getsockname()[1])


def listens(port: str) -> bool:
    with socket.socket() as client:
        return client.connect_ex(("127.0.0.1", int(port))) == 0


def against(tmp_path: Path, what: str, *arguments: str, status: int = 0) -> dict[str, Any]:
    """The report of a round against the server of net_server.py."""
    port = free_port()
    server = ("--", sys.executable, SERVER, port, what)
    done = bench(tmp_path, "net", port, *QUICK, *arguments, "--json", *server, status=status)
    report: dict[str, Any] = json.loads(done.stdout)
    return report


def failure(report: dict[str, Any]) -> str:
    (cell,) = report["cells"]
    assert not cell["rounds"]
    return str(cell["failed"])


def cpu_s(one_round: dict[str, Any]) -> float:
    return float(one_round["used"]["user_s"] + one_round["used"]["system_s"])


def test_echo_of_every_size_and_depth(tmp_path: Path) -> None:
    lists = ("--connections", "1,3", "--size", "1,100k", "--depth", "1,4")
    report = against(tmp_path, "echo", "--duration", "50ms", *lists)
    assert len(report["cells"]) == 8
    for cell in report["cells"]:
        (one,) = cell["rounds"]
        assert one["all"]["ios"] > 0
        assert one["all"]["bytes"] == one["all"]["ios"] * cell["cell"]["message_bytes"]
        assert 0 < one["all"]["p50_s"] <= one["all"]["p99_s"] <= one["all"]["max_s"]
        assert cpu_s(one) > 0


def test_bytes_are_checked(tmp_path: Path) -> None:
    wrong = failure(against(tmp_path, "flips a byte", "--connections", "1", status=1))
    assert wrong.startswith("connection 1, after 1 responses: byte 488 of a response is wrong")
    assert "more bytes came back" in failure(against(tmp_path, "says more", "--connections", "1", status=1))
    assert "the server closed it" in failure(against(tmp_path, "closes", "--connections", "1", status=1))


def test_an_open_loop_counts_from_when_a_request_was_due(tmp_path: Path) -> None:
    """The server needs 50 ms for each of 100 requests, which are due within half a second."""
    report = against(tmp_path, "slow", "--connections", "1", "--rate", "200", "--duration", "500ms")
    (one,) = report["cells"][0]["rounds"]
    assert one["all"]["ios"] <= 10
    assert one["unanswered"] >= 80
    assert one["all"]["p50_s"] > 0.1


def test_an_open_loop_keeps_its_rate(tmp_path: Path) -> None:
    report = against(tmp_path, "echo", "--rate", "100", "--connections", "5", "--threads", "2")
    (one,) = report["cells"][0]["rounds"]
    assert 1 <= one["all"]["ios"] <= 25
    assert one["all"]["ios"] + one["unanswered"] <= 30


def test_pages(tmp_path: Path) -> None:
    report = against(tmp_path, "pages", "--protocol", "http", "--path", "/x", "--depth", "2")
    (one,) = report["cells"][0]["rounds"]
    assert one["all"]["bytes"] > 1000 * one["all"]["ios"] > 0
    missing = against(tmp_path, "has no page", "--protocol", "http", status=1)
    assert "404 Not Found" in failure(missing)


def test_keys_and_values(tmp_path: Path) -> None:
    port = free_port()
    server = ("--", *command()[:-1], "serve", "resp", "--port", port)
    arguments = ("--protocol", "resp", "--keys", "10", "--sets", "30", "--depth", "4")
    bench(tmp_path, "net", port, *QUICK, *arguments, "--csv=out.csv", "--json=out.json", *server)
    (cell,) = json.loads((tmp_path / "out.json").read_text())["cells"]
    assert cell["rounds"][0]["all"]["ios"] > 10
    (row,) = csv.DictReader((tmp_path / "out.csv").read_text().splitlines())
    assert int(row["read_ios"]) == cell["rounds"][0]["all"]["ios"]
    assert row["work"].startswith("GET of 512 bytes with 30 % SET, 10 keys, 25 connections, depth 4")
    shown = bench(tmp_path, "show", "out.json").stdout
    assert "CPU/request" in shown
    assert "page cache" not in shown


def test_lockstep_puts_the_server_back_as_it_was(tmp_path: Path) -> None:
    port = free_port()
    with subprocess.Popen([sys.executable, SERVER, port, "echo"]) as server:
        try:
            while not listens(port):
                assert server.poll() is None
            cpus = os.sched_getaffinity(server.pid)
            arguments = ("--lockstep", "--connections", "5", "--depth", "2", "--duration", "500ms")
            done = bench(tmp_path, "net", port, *QUICK, *arguments, "--pid", str(server.pid), "--json")
            (cell,) = json.loads(done.stdout)["cells"]
            (one,) = cell["rounds"]
            assert cell["cell"]["lockstep"]
            assert one["all"]["ios"] % 10 == 0
            assert one["all"]["bytes"] == 512 * one["all"]["ios"]
            assert cpu_s(one) > 0
            assert os.sched_getscheduler(server.pid) == os.SCHED_OTHER
            assert os.sched_getaffinity(server.pid) == cpus
        finally:
            server.kill()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--sets", "5"), "--sets is for --protocol resp"),
        (("--path", "/"), "--path is for --protocol http"),
        (("--protocol", "http", "--size", "5"), "--size: the server decides"),
        (("--lockstep",), "name its process with --pid"),
        (("--pid", "999999999"), "there is no such process"),
        (("--size", "0"), "--size 0 asks for nothing"),
        (("--threads", "2", "--connections", "1"), "at most one for each connection"),
        (("--connections", "0"), "an integer of at least 1"),
    ],
)
def test_misuse(tmp_path: Path, arguments: tuple[str, ...], message: str) -> None:
    done = bench(tmp_path, "net", "1", *QUICK, *arguments, status=2)
    assert message in done.stderr
    assert not done.stdout


def processes_with(value: str) -> list[str]:
    """Those with this value in their environment, this one excepted."""
    found = []
    for environ in Path("/proc").glob("[0-9]*/environ"):
        with contextlib.suppress(OSError):
            if value.encode() in environ.read_bytes() and environ.parent.name != str(os.getpid()):
                found.append((environ.parent / "cmdline").read_text())
    return found


@needs("io_uring for sockets")
def test_the_table_of_fastio(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its servers are started, measured beside what was published, and ended."""
    monkeypatch.setenv("STARTED_BY", str(tmp_path))
    arguments = ("--duration", "100ms", "--rounds", "1", "--counters", "none", "--progress", "never")
    outputs = ("--json=it.json", "--csv=it.csv", "--html=it.html")
    bench(tmp_path, "net", "--preset", "fastio", *arguments, *outputs)
    report = json.loads((tmp_path / "it.json").read_text())
    workers = len(report["cells"]) - 1
    assert 0 <= workers < min(len(os.sched_getaffinity(0)), 6)
    rates = [82896, 82802, 161260, 257491, 301168, 393052][: workers + 1]
    for number, (cell, rate) in enumerate(zip(report["cells"], rates, strict=True)):
        assert cell["cell"]["server"].startswith(f"{number} kernel worker" if number else "epoll")
        threads = number + 2 if number else 1
        assert cell["cell"]["published"] == {"requests_per_s": rate, "busy_threads": threads}
        (one,) = cell["rounds"]
        assert one["all"]["ios"] > 0
        kernel = [thread for thread in one["used"]["threads"] if thread["name"].startswith("iou-sqp")]
        assert sum(thread["threads"] for thread in kernel) == number
    missing = any("kernel workers: with the server's thread" in why for why in report["left_out"])
    assert missing == (workers < 5)
    rows = list(csv.DictReader((tmp_path / "it.csv").read_text().splitlines()))
    assert [row["published_requests_per_s"] for row in rows] == [str(rate) for rate in rates]
    assert all(float(row["busy_cores"]) > 0 for row in rows)
    shown = bench(tmp_path, "show", "it.json").stdout
    for text in (shown, (tmp_path / "it.html").read_text()):
        assert "requests/s per busy core" in text
        assert "82,896" in text
    assert not processes_with(str(tmp_path))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "name the server by its address"),
        (("7000", "--preset=fastio"), "leave out the address 127.0.0.1:7000"),
        (("--preset=fastio", "--", "true"), "cannot be used with"),
        (("--preset=fastio", "--connections=1"), "cannot be used with"),
        (("--preset=fastio", "--sets=1"), "--sets is for --protocol resp"),
        (("--preset=slowio",), "[possible values: fastio]"),
    ],
)
def test_a_preset_or_an_address(tmp_path: Path, arguments: tuple[str, ...], message: str) -> None:
    done = bench(tmp_path, "net", *arguments, status=2)
    assert message in done.stderr
    assert not done.stdout


def test_servers_that_do_not_start(tmp_path: Path) -> None:
    port = free_port()
    ended = bench(tmp_path, "net", port, *QUICK, "--", "true", status=1)
    assert "the server ended before it listened" in ended.stdout
    missing = bench(tmp_path, "net", port, *QUICK, "--", "/nowhere/server", status=1)
    assert "/nowhere/server: No such file" in missing.stdout
    with socket.create_server(("127.0.0.1", 0)) as listener:
        taken = bench(tmp_path, "net", str(listener.getsockname()[1]), *QUICK, "--", "true", status=1)
    assert "listens on" in taken.stdout
    nobody = bench(tmp_path, "net", port, *QUICK, status=1)
    assert "Connection refused" in nobody.stdout
