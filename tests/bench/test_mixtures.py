"""Reads and writes together: block sizes, rates and checks of their own, and each preset done for real."""

from __future__ import annotations

from pathlib import Path

import pytest
from bench_helpers import ENGINES, SMALL, bench, cells, measured
from capabilities import require

EVERY = (*ENGINES, "linux-aio:raw", "posix-aio:raw", "io_uring:raw")
SIZE = 1 << 20


@pytest.fixture(scope="module", autouse=True)
def engines() -> None:
    require("io_uring")
    require("linux_aio")


@pytest.mark.parametrize("rw", ["randrw", "rw"])
@pytest.mark.parametrize(("reads", "writes"), [(4096, 65536), (32768, 512)])
def test_a_block_size_for_each_way(tmp_path: Path, rw: str, reads: int, writes: int) -> None:
    (tmp_path / "job").write_text(f"[both]\nrw={rw}\nsize=1m\nbs={reads},{writes}\nrwmixread=70\niodepth=8\n")
    once = ("--rounds", "1", "--counters", "none")
    report = measured(tmp_path, "job", *once, "--engine", ",".join(EVERY), "--verify")
    counts = set()
    for engine, cell in cells(report).items():
        assert cell["failed"] is None, engine
        found = cell["rounds"][0]
        assert found["read"]["bytes"] == found["read"]["ios"] * reads, engine
        assert found["write"]["bytes"] == found["write"]["ios"] * writes, engine
        assert found["all"]["bytes"] >= SIZE
        counts.add((found["read"]["ios"], found["write"]["ios"]))
    ((read, written),) = counts
    assert 0.6 < read / (read + written) < 0.8


def test_registered_buffers_of_two_sizes(tmp_path: Path) -> None:
    mixture = ("--rw", "randrw", "--iodepth", "4", "--verify")
    both = ("--bs", "16k", "--bs_of_writes", "4k")
    report = measured(tmp_path, *SMALL, *mixture, *both, "--engine", "io_uring:fixed,io_uring:fixed+raw")
    assert all(cell["rounds"][0]["write"]["ios"] > 0 for cell in report["cells"])
    longer = ("--bs", "4k", "--bs_of_writes", "16k", "--engine")
    measured(tmp_path, *SMALL, *mixture, *longer, "io_uring:fixed+raw")
    refused = bench(tmp_path, "io", *SMALL, *mixture, *longer, "io_uring:fixed", status=2)
    assert "no shorter than writes" in refused.stderr


def test_a_rate_for_each_way(tmp_path: Path) -> None:
    (tmp_path / "job").write_text(
        "[both]\nrw=randrw\nsize=1m\nbs=4k\nrate_iops=300,900\nruntime=100ms\ntime_based\niodepth=4\n"
    )
    once = ("--rounds", "1", "--counters", "none", "--verify")
    report = measured(tmp_path, "job", *once, "--engine", ",".join(EVERY))
    for engine, cell in cells(report).items():
        found = cell["rounds"][0]
        # However late an op is, no more of them are due before the time is over. The first is due at once.
        assert 1 <= found["read"]["ios"] <= 31, engine
        assert 1 <= found["write"]["ios"] <= 91, engine


def test_a_share_of_the_size(tmp_path: Path) -> None:
    half = ("--rw", "randread", "--io_size", "50%", "--engine", ",".join(EVERY))
    report = measured(tmp_path, *SMALL, *half)
    assert {cell["rounds"][0]["all"]["ios"] for cell in report["cells"]} == {128}


def test_sections_in_one_file_are_checked_as_far_as_can_be(tmp_path: Path) -> None:
    """A read that meets the write of another section may bring half of it, which is no fault."""
    (tmp_path / "job").write_text(
        "[global]\nsize=1m\nfilename=shared\niodepth=8\nioengine=io_uring\nloops=4\n"
        "[reads]\nrw=randread\nbs=64k\n[writes]\nrw=randwrite\nbs=16k\nnumjobs=2\n[after]\nstonewall\nrw=read\n"
    )
    said = bench(tmp_path, "io", "job", "--verify", "--dry-run").stdout.splitlines()
    assert "not verified" in said[0]
    assert ", verified" in said[1]
    assert said[2].endswith(", verified")
    report = measured(tmp_path, "job", "--verify", "--rounds=2", "--counters=none")
    assert [cell["failed"] for cell in report["cells"]] == [None] * 3
    assert not (tmp_path / "shared").exists()


@pytest.mark.parametrize("preset", ["pressure", "iops", "throughput", "idle-gap"])
def test_presets_for_real(tmp_path: Path, preset: str) -> None:
    smoke = ("--size", "2m", "--rounds", "1", "--counters", "none", "--direct", "0")
    # The C library's threads live on for a second after each cell: one preset has it.
    engines = ENGINES if preset == "pressure" else tuple(set(ENGINES) - {"posix-aio"})
    asked = ("--preset", preset, *smoke, "--verify", "--engine", ",".join(engines))
    # On a busy machine a process may not get a processor for longer than the shortest of these.
    for runtime in ("10ms", "200ms", "4s"):
        report = measured(tmp_path, *asked, "--runtime", runtime)
        if all(cell["failed"] or cell["rounds"][0]["all"]["bytes"] for cell in report["cells"]):
            break
    assert {cell["cell"]["engine"] for cell in report["cells"]} == set(engines)
    for cell in report["cells"]:
        assert cell["failed"] is None, cell["cell"]
        found = cell["rounds"][0]
        assert found["all"]["bytes"] >= cell["cell"]["bs"]
        assert (found["read"]["ios"] > 0) == (cell["cell"]["rw"] in {"randread", "copy"})
        assert (found["write"]["ios"] > 0) == (cell["cell"]["rw"] in {"randwrite", "copy"})
