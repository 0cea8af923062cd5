"""`proactor.bench`: what the command measures, as typed results."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import proactor
import pytest
from bench_helpers import TIMEOUT_S
from capabilities import needs
from proactor.bench import BenchError


@needs("io_uring")
def test_run(tmp_path: Path) -> None:
    report = proactor.bench.run(
        engine=["sync", "io_uring"],
        rw="copy",
        size="1m",
        bs=4096,
        iodepth=[4],
        direct=False,
        time_based=False,
        rounds=2,
        counters="none",
        verify=True,
        directory=tmp_path,
    )
    assert [cell.engine for cell in report.cells] == ["sync", "io_uring"]
    for cell in report.cells:
        assert (cell.rw, cell.size, cell.bs, cell.direct, cell.failed) == ("copy", 1 << 20, 4096, False, None)
        assert len(cell.rounds) == 2
        assert [(each.ios, each.bytes) for each in cell.rounds] == [(512, 2 << 20)] * 2
        assert cell.iops == (cell.rounds[0].iops + cell.rounds[1].iops) / 2
        assert cell.bytes_per_s > 0
        assert cell.p99_s > 0
        assert cell.calls_per_op is None
    assert not report.interrupted
    (verdict,) = report.verdicts
    assert verdict.best[0] in {"sync", "io_uring"}
    rows = report.rows()
    assert len(rows) == 4
    assert {row["round"] for row in rows} == {1, 2}
    assert all(row["iops"] > 0 and row["bs"] == 4096 for row in rows)
    assert not list(tmp_path.iterdir())


@needs("system call counters")
def test_calls(tmp_path: Path) -> None:
    small = {"size": "1m", "direct": False, "time_based": False, "rounds": 1}
    report = proactor.bench.run(engine="sync", counters="perf", directory=tmp_path, **small)  # type: ignore[arg-type]
    (cell,) = report.cells
    assert cell.calls["pread64"] == 256
    assert cell.calls_per_op == pytest.approx(1, abs=0.2)


def test_refused(tmp_path: Path) -> None:
    with pytest.raises(BenchError, match="--bs 1000: a multiple of 512"):
        proactor.bench.run(engine="sync", bs=1000, directory=tmp_path)
    with pytest.raises(BenchError, match="nowhere"):
        proactor.bench.run(job_file=tmp_path / "nowhere")
    with pytest.raises(TypeError):
        proactor.bench.run(engine=object())  # type: ignore[arg-type]


@pytest.mark.parametrize("how", ["to it alone", "to its group"])
def test_an_interrupt_leaves_nothing(tmp_path: Path, how: str) -> None:
    """A notebook's interrupt reaches Python alone, a terminal's its children too: all is removed."""
    program = (
        "import proactor\n"
        "try:\n"
        "    proactor.bench.run(engine='sync', size='1m', direct=False, runtime=1000, filename='named',"
        " counters='none')\n"
        "except KeyboardInterrupt:\n"
        "    print('ended')\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", program], cwd=tmp_path, stdout=subprocess.PIPE, start_new_session=True
    )
    with process:
        deadline = time.monotonic() + TIMEOUT_S
        while not (tmp_path / "named").exists():
            assert process.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.01)
        send = os.kill if how == "to it alone" else os.killpg
        send(process.pid, signal.SIGINT)
        said, _ = process.communicate(timeout=TIMEOUT_S)
    assert said == b"ended\n"
    assert not list(tmp_path.iterdir())


def test_load(tmp_path: Path) -> None:
    (tmp_path / "other").write_text("{}")
    with pytest.raises(ValueError, match="no report"):
        proactor.bench.load(tmp_path / "other")
    with pytest.raises(FileNotFoundError):
        proactor.bench.load(tmp_path / "missing")
    (tmp_path / "damaged").write_text('{"format": "proactor-bench-1"}')
    with pytest.raises(ValueError, match="damaged"):
        proactor.bench.load(tmp_path / "damaged")


def test_a_path_in_bytes(tmp_path: Path) -> None:
    with pytest.raises(BenchError, match="nowhere: No such file"):
        proactor.bench.run(engine="sync", directory=os.fsencode(tmp_path / "nowhere"))  # type: ignore[arg-type]
