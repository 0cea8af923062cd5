"""Ctrl-C and the like: what was measured by then is reported, and nothing is left."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
from pathlib import Path

import pytest
from bench_helpers import TIMEOUT_S, command


@pytest.mark.parametrize(
    ("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)]
)
def test_a_partial_report(tmp_path: Path, number: int, status: int) -> None:
    work = ("--engine", "sync", "--rw", "randread", "--size", "1m", "--direct", "0", "--counters", "none")
    forever = (
        "--runtime",
        "100ms",
        "--rounds",
        "10000",
        "--filename",
        "file",
        "--progress",
        "always",
        "--json",
    )
    with subprocess.Popen(
        command("io", *work, *forever),
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        # Below nohup one is ignored, which a child would inherit.
        preexec_fn=lambda: signal.signal(number, signal.SIG_DFL),
    ) as process:
        assert process.stderr is not None
        for line in process.stderr:
            # A busy machine may show some rounds and not others.
            number_of = re.search(r"round (\d+)/", line)
            if number_of and int(number_of[1]) >= 3:
                break
        os.kill(process.pid, number)
        stdout, _ = process.communicate(timeout=TIMEOUT_S)
    assert process.returncode == status
    report = json.loads(stdout)
    assert report["interrupted"]
    (cell,) = report["cells"]
    assert 2 <= len(cell["rounds"]) < 10_000
    assert all(found["all"]["ios"] > 0 for found in cell["rounds"])
    assert not list(tmp_path.iterdir())


def test_before_anything_was_measured(tmp_path: Path) -> None:
    slow = ("--engine", "sync", "--size", "1m", "--direct", "0", "--runtime", "100", "--progress", "always")
    with subprocess.Popen(
        command("io", *slow), cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stderr is not None
        assert b"round 1/" in process.stderr.readline()
        process.send_signal(signal.SIGINT)
        stdout, _ = process.communicate(timeout=TIMEOUT_S)
    assert process.returncode == 130
    assert b"Interrupted" in stdout


@pytest.mark.parametrize("pause", [("--time_based", "--ramp_time", "1000"), ("--thinktime", "1000s")])
def test_in_a_pause(tmp_path: Path, pause: tuple[str, ...]) -> None:
    work = ("--engine", "sync", "--size", "1m", "--direct", "0", "--counters", "none", "--progress", "always")
    with subprocess.Popen(
        command("io", *work, *pause), cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stderr is not None
        assert b"round 1/" in process.stderr.readline()
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=TIMEOUT_S)
    assert process.returncode == 130
