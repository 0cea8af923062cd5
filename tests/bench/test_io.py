"""Every engine does the work that was asked for, all of it, and leaves nothing."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from bench_helpers import ENGINES, SMALL, bench, cells, measured
from capabilities import needs, require

BLOCKS = 256
EVERY = (*ENGINES, "linux-aio:raw", "io_uring:raw", "io_uring:fixed+raw")
ALL = ",".join(EVERY)


@pytest.fixture(scope="module", autouse=True)
def engines() -> None:
    require("io_uring")
    require("linux_aio")


@pytest.mark.parametrize(
    ("rw", "reads", "writes"),
    [
        ("read", BLOCKS, 0),
        ("write", 0, BLOCKS),
        ("randread", BLOCKS, 0),
        ("randwrite", 0, BLOCKS),
        ("copy", BLOCKS, BLOCKS),
    ],
)
def test_each_block_once_and_right(tmp_path: Path, rw: str, reads: int, writes: int) -> None:
    report = measured(tmp_path, *SMALL, "--engine", ALL, "--rw", rw, "--iodepth", "8", "--verify")
    assert list(cells(report)) == list(EVERY)
    for engine, cell in cells(report).items():
        assert cell["failed"] is None, engine
        (found,) = cell["rounds"]
        assert (found["read"]["ios"], found["write"]["ios"]) == (reads, writes), engine
        assert found["read"]["bytes"] == reads * 4096
        times = [found["all"][name] for name in ("p50_s", "p90_s", "p99_s", "p999_s", "max_s")]
        assert times == sorted(times)
        # They are kept with three digits.
        assert 0 < times[0] <= times[-1] <= found["elapsed_s"] * 1.001
        assert found["used"]["user_s"] + found["used"]["system_s"] > 0
    assert not list(tmp_path.iterdir())


def test_the_same_mixture_on_every_engine(tmp_path: Path) -> None:
    mixture = ("--rw", "randrw", "--rwmixread", "70", "--verify", "--iodepth", "8")
    report = measured(tmp_path, *SMALL, "--engine", ALL, *mixture)
    counts = {(c["rounds"][0]["read"]["ios"], c["rounds"][0]["write"]["ios"]) for c in cells(report).values()}
    assert len(counts) == 1
    ((reads, writes),) = counts
    assert reads + writes == BLOCKS
    assert 150 < reads < 205


@pytest.mark.parametrize("batch", [1, 0])
def test_submissions(tmp_path: Path, batch: int) -> None:
    work = ("--rw", "randread", "--iodepth", "8", "--iodepth_batch", str(batch))
    for engine, cell in cells(measured(tmp_path, *SMALL, "--engine", ALL, *work)).items():
        (found,) = cell["rounds"]
        if batch == 1 or engine.startswith(("sync", "psync-threads", "posix-aio")):
            assert found["submissions"] == BLOCKS, engine
        else:
            # As many as had come back; the first eight together.
            assert BLOCKS / 8 <= found["submissions"] <= BLOCKS - 7, engine


@needs("O_DIRECT")
def test_variants_and_direct(tmp_path: Path) -> None:
    engines = "io_uring:fixed,io_uring:sqpoll,io_uring:fixed+sqpoll"
    direct = ("--direct", "1", "--rw", "randread,randwrite", "--iodepth", "4", "--verify")
    report = measured(tmp_path, *SMALL, "--engine", engines, *direct)
    assert len(report["cells"]) == 6
    for cell in report["cells"]:
        assert cell["failed"] is None
        assert cell["rounds"][0]["all"]["ios"] == BLOCKS
        assert cell["rounds"][0]["resident_after"]["pages"] == 0
    threads = {thread["name"] for cell in report["cells"] for thread in cell["rounds"][0]["used"]["threads"]}
    assert "iou-sqp" in threads, "the kernel's thread is counted, and named"


def test_lists_are_a_matrix(tmp_path: Path) -> None:
    lists = ("--engine", "sync,io_uring", "--bs", "4k,32k", "--iodepth", "1,4", "--numjobs", "1,2")
    report = measured(tmp_path, *SMALL, *lists, "--rw", "randread")
    # sync has no depth.
    assert len(report["cells"]) == 2 * 2 * (2 + 1)
    for cell in report["cells"]:
        wanted = cell["cell"]
        blocks = (1 << 20) // wanted["bs"] * wanted["numjobs"]
        assert cell["rounds"][0]["all"]["ios"] == blocks, wanted


def test_the_page_cache_is_as_it_was_asked_for(tmp_path: Path) -> None:
    def before(*options: str) -> tuple[int, int]:
        report = measured(tmp_path, *SMALL, "--engine", "sync", "--rw", "read", *options)
        found = report["cells"][0]["rounds"][0]["resident_before"]
        return found["pages"], found["of"]

    pages, of = before("--pre_read", "1")
    assert pages == of == (1 << 20) // os.sysconf("SC_PAGESIZE")
    dropped, _ = before()
    report = measured(tmp_path, *SMALL, "--engine", "sync", "--rw", "read")
    # tmpfs keeps its pages: then the report must not say that they were dropped.
    text = bench(tmp_path, "io", *SMALL, "--engine", "sync", "--rw", "read").stdout
    assert ("page cache: dropped" in text) == (dropped == 0)
    kind = report["environment"]["file_system"]["kind"]
    assert dropped == 0 or kind in {"tmpfs", "overlay"}


def test_time_and_syncs(tmp_path: Path) -> None:
    timed = ("--rw", "randwrite", "--time_based", "1", "--runtime", "200ms", "--ramp_time", "50ms")
    report = measured(
        tmp_path,
        *SMALL,
        *timed,
        "--engine",
        "sync,linux-aio:raw,io_uring,io_uring:fixed+raw",
        "--fsync",
        "16",
        "--end_fsync",
        "1",
    )
    for cell in report["cells"]:
        (found,) = cell["rounds"]
        # Never less than was asked for; a slow device may hold up the last op.
        assert found["elapsed_s"] >= 0.2
        assert found["fsyncs"] >= found["write"]["ios"] // 16


def test_every_engine_syncs_as_often(tmp_path: Path) -> None:
    writes = ("--rw", "write", "--iodepth", "64", "--fsync", "100", "--end_fsync", "--numjobs", "2")
    report = measured(tmp_path, *SMALL, *writes, "--engine", ALL)
    # Of each job's 256 writes.
    fsyncs = {name: cell["rounds"][0]["fsyncs"] for name, cell in cells(report).items()}
    assert fsyncs == dict.fromkeys(EVERY, 6)


def test_a_ramp_is_not_counted(tmp_path: Path) -> None:
    ramped = ("--time_based", "1", "--runtime", "100ms", "--ramp_time", "200ms", "--engine", "sync")
    (cell,) = measured(tmp_path, *SMALL, *ramped, "--rw", "write", "--fsync", "1")["cells"]
    (found,) = cell["rounds"]
    # That of the last write of the ramp may come back after it.
    assert found["fsyncs"] <= found["write"]["ios"] + 1


def test_a_named_file_is_ours_only_if_we_made_it(tmp_path: Path) -> None:
    file = tmp_path / "file"
    quick = (*SMALL, "--engine", "sync,io_uring", "--filename", str(file))
    measured(tmp_path, *quick, "--rw", "randread", "--numjobs", "2")
    assert not file.exists()
    file.write_bytes(b"x" * (1 << 20))
    measured(tmp_path, *quick, "--rw", "randread", "--use-existing")
    assert file.read_bytes() == b"x" * (1 << 20)
    measured(tmp_path, *quick, "--rw", "write", "--use-existing")
    assert file.stat().st_size == 1 << 20
    assert file.read_bytes() != b"x" * (1 << 20)


def test_a_seed_is_a_workload(tmp_path: Path) -> None:
    def mixture(*options: str) -> int:
        report = measured(tmp_path, *SMALL, "--engine", "sync", "--rw", "randrw", *options)
        reads: int = report["cells"][0]["rounds"][0]["read"]["ios"]
        return reads

    assert mixture("--seed", "7") == mixture("--seed", "7")
    assert len({mixture("--seed", str(seed)) for seed in range(1, 6)}) > 1
