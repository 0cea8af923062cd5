"""Job files of fio's that `proactor bench io` measured in another way than fio.

Users saw sections that fio runs at once measured one after the other, and `rw=rw`, `bs=a,b`, sizes in %,
`io_size`, `loops` and `rate_iops` refused.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from capabilities import needs

ONE = ("--rounds=1", "--counters=none")


def bench(place: Path, text: str, *arguments: str, status: int = 0) -> subprocess.CompletedProcess[str]:
    (place / "job").write_text(text)
    words = [sys.executable, "-m", "proactor", "bench", "io", "job", *arguments]
    done = subprocess.run(words, cwd=place, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == status, f"{text}{arguments}: {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done


def rounds(place: Path, text: str, *arguments: str) -> list[dict[str, Any]]:
    report = json.loads(bench(place, text, *ONE, "--json", *arguments).stdout)
    assert all(cell["failed"] is None for cell in report["cells"])
    return [cell["rounds"][0] for cell in report["cells"]]


def test_sections_run_at_once(tmp_path: Path) -> None:
    text = "[global]\nsize=256k\n[r]\nrw=randread\n[w]\nrw=write\nnumjobs=2\n[alone]\nstonewall\nrw=read\n"
    first, second, alone = rounds(tmp_path, text, "--verify")
    assert (first["read"]["ios"], second["write"]["ios"], alone["read"]["ios"]) == (64, 128, 64)
    # What was used is told of both together, and they know it.
    assert first["together"] == second["together"] == {"ios": 192, "read_bytes": 256 << 10}
    assert first["used"] == second["used"]
    assert "together" not in alone
    said = bench(tmp_path, text, *ONE).stdout
    assert "at once with [w] write 4k of 256k" in said
    assert "at once with [r] randread 4k of 256k" in said


@needs("io_uring")
def test_sections_at_once_on_each_engine(tmp_path: Path) -> None:
    text = "[global]\nsize=64k\n[r]\nrw=randread\n[w]\nrw=randwrite\niodepth=4\n"
    said = bench(tmp_path, text, "--engine=psync-threads,io_uring", "--bs=4k,8k", "--dry-run").stdout
    assert len([line for line in said.splitlines() if "at once with" in line]) == 2 * 2 * 2
    assert len(rounds(tmp_path, text, "--engine=psync-threads,io_uring", "--verify")) == 4


@needs("io_uring")
@pytest.mark.parametrize("engine", ["sync", "psync-threads", "io_uring", "io_uring:raw", "posix-aio:raw"])
@pytest.mark.parametrize(
    ("keys", "reads", "writes"),
    [
        ("rw=rw\nrwmixread=25", 16, 48),
        ("rw=readwrite", 32, 32),
        ("rw=read\nbs=4k,8k", 64, 0),
        ("rw=write\nbs=4k,8k", 0, 32),
        ("rw=randwrite\nbs=,16k", 0, 16),
        ("rw=randread\nio_size=64k", 16, 0),
        ("rw=read\nio_size=512k", 128, 0),
        ("rw=read\nio_size=50%", 32, 0),
        ("rw=read\nio_size=1k", 1, 0),
        ("rw=randread\nloops=3", 192, 0),
        ("rw=write\nloops=2\nio_size=128k", 0, 64),
    ],
)
def test_what_is_done(tmp_path: Path, engine: str, keys: str, reads: int, writes: int) -> None:
    text = f"[a]\nsize=256k\niodepth=4\n{keys}\n"
    (found,) = rounds(tmp_path, text, "--engine", engine, "--verify")
    assert (found["read"]["ios"], found["write"]["ios"]) == (reads, writes)


@needs("io_uring")
@pytest.mark.parametrize("engine", ["sync", "psync-threads", "io_uring", "io_uring:raw"])
def test_a_rate_is_a_bound(tmp_path: Path, engine: str) -> None:
    text = "[a]\nsize=256k\nrw=randread\niodepth=4\nrate_iops=200\nio_size=160k\n"
    (found,) = rounds(tmp_path, text, "--engine", engine)
    assert found["read"]["ios"] == 40
    # The last of them is due 39 / 200 s after the start; a thread that wakes late begins its time later.
    assert found["elapsed_s"] >= 0.1


def test_sizes_in_percent(tmp_path: Path) -> None:
    text = "[a]\nsize=50%\nrw=read\nfilename=data\n"
    (tmp_path / "data").write_bytes(bytes(64 << 10))
    (found,) = rounds(tmp_path, text, "--use-existing")
    assert found["read"]["bytes"] == 32 << 10
    assert "data" in bench(tmp_path, text.replace("data", "no-data"), "--use-existing", status=2).stderr
    assert "size in %" in bench(tmp_path, "[a]\nsize=50%\n", status=2).stderr


@pytest.mark.parametrize(
    ("keys", "why"),
    [
        ("rate_iops=1,2,3,4", "line 3"),
        ("io_size=101%", "line 3"),
        ("bs=1k,2k,3k,4k", "line 3"),
        ("size=0%", "line 3"),
    ],
)
def test_what_is_refused(tmp_path: Path, keys: str, why: str) -> None:
    assert why in bench(tmp_path, f"[a]\nsize=1m\n{keys}\n", status=2).stderr


@pytest.mark.parametrize(
    ("arguments", "ios"),
    [
        (("--io_size=64k",), 16),
        (("--loops=3",), 6),
        (("--io_size=64k", "--loops=2"), 32),
        (("--io_size=0",), 64),
    ],
)
def test_options_over_the_keys(tmp_path: Path, arguments: tuple[str, ...], ios: int) -> None:
    (found,) = rounds(tmp_path, "[a]\nsize=256k\nrw=randread\nio_size=8k\n", *arguments)
    assert found["read"]["ios"] == ios


def test_a_rate_on_the_command_line(tmp_path: Path) -> None:
    text = "[a]\nsize=256k\nrw=randread\n"
    assert "200 ops a second at most" in bench(tmp_path, text, "--rate_iops=200", "--dry-run").stdout
    bounded = text + "rate_iops=5\n"
    assert "a second" not in bench(tmp_path, bounded, "--rate_iops=0", "--dry-run").stdout


@pytest.mark.parametrize("key", ["loops=3", "io_size=8k"])
def test_time_goes_over_bytes(tmp_path: Path, key: str) -> None:
    text = "[a]\nsize=16k\nrw=read\ntime_based\nruntime=100ms\n"
    (found,) = rounds(tmp_path, f"{text}{key}\n")
    assert found["read"]["ios"] > 12
    said = bench(tmp_path, text, f"--{key}", status=2).stderr
    assert "--time_based=0" in said
