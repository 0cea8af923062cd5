"""What is asked: presets, lists, dry runs, and what is refused with a reason before anything happens."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from bench_helpers import ENGINES, SMALL, bench, measured
from capabilities import needs, require


def test_list(tmp_path: Path) -> None:
    said = bench(tmp_path, "io", "--list").stdout
    for name in (*ENGINES, "io_uring:fixed", "io_uring:iopoll", "pressure", "throughput", "iops", "idle-gap"):
        assert f"\n  {name} " in said


@pytest.mark.parametrize(
    ("preset", "cells", "line"),
    [
        ("pressure", 5, "linux-aio: copy 32k of 512m, depth 64, direct"),
        ("iops", 18, "io_uring: randwrite 4k of 512m, depth 128, direct, for 10 s"),
        ("throughput", 88, "posix-aio: randwrite 1m of 32m, depth 512, direct"),
        ("idle-gap", 20, "psync-threads: randread 32k of 512m, depth 64, direct, sleeping 1000 us, for 2 s"),
    ],
)
def test_presets(tmp_path: Path, preset: str, cells: int, line: str) -> None:
    require("io_uring")
    require("linux_aio")
    said = bench(tmp_path, "io", "--preset", preset, "--dry-run").stdout.splitlines()
    assert line in said
    assert any(text.startswith(f"{cells} cells, 5 rounds, ") for text in said)
    assert not list(tmp_path.iterdir())


def test_what_is_said_is_put_over_the_preset(tmp_path: Path) -> None:
    changed = ("--preset", "throughput", "--rw", "read", "--size", "8m", "--engine", "sync", "--rounds", "2")
    said = bench(tmp_path, "io", *changed, "--dry-run").stdout.splitlines()
    assert said[:2] == ["sync: read 32k of 8m, depth 1, direct", "sync: read 1m of 8m, depth 1, direct"]
    assert said[2].startswith("2 cells, 2 rounds")


@pytest.mark.parametrize(
    ("options", "why"),
    [
        (("--bs", "1000"), "--bs 1000: a multiple of 512"),
        (("--size", "4k", "--bs", "8k"), "--size 4k is less than --bs 8k"),
        (("--engine", "psync-threads", "--iodepth", "0"), "--iodepth 0"),
        (("--numjobs", "100000"), "--numjobs 100000"),
        (("--time_based", "0", "--ramp_time", "1"), "--ramp_time needs --time_based"),
        (("--engine", "aio"), "no engine is called"),
        (("--engine", "sync:fixed"), "only io_uring, linux-aio and posix-aio have variants"),
        (("--preset", "nonsense"), "choose from pressure"),
        (("--engine", "io_uring:iopoll", "--direct", "0"), "--direct 1"),
        (("--engine", "io_uring:fixed", "--bs", "512"), "whole pages"),
        (("--size", "1000t"), "MiB are free"),
        (("--directory", "nowhere"), "nowhere"),
        (("--json", "--csv"), "only one report"),
        (("--json=nowhere/report",), "nowhere/report"),
        (("--json=twice", "--csv=twice"), "twice: for one report only"),
        (("--engine", "io_uring:"), "the variants are"),
        (("--fsync", "4"), "--fsync: nothing is written"),
        (("--bs_of_writes", "8k"), "--bs_of_writes: nothing is written"),
        (("--rw", "randrw", "--bs_of_writes", "1000"), "--bs_of_writes 1000: a multiple of 512"),
        (("--rw", "write", "--rate_iops", "300,"), "--rate_iops: bounds reads"),
        (("--rate_iops", "x"), "a whole number of ops a second"),
        (("--end_fsync",), "--end_fsync: nothing is written"),
        (("--rwmixread", "30"), "--rwmixread: is of --rw randrw"),
        (("--rw", "read", "--norandommap"), "--norandommap: no offset is random"),
        (("--use-existing",), "--use-existing: no file is named"),
        (("--rounds", "4294967295"), "--rounds 4294967295: at most 10000"),
        (("--size", "8388608t", "--numjobs", "2"), "MiB are free"),
        (("--ramp_time", "500us"), "500us"),
        (("--json=same", "--csv=./same"), "./same: for one report only"),
        (("--pre_read",), "--pre_read: all is around the page cache"),
        (("--invalidate", "0"), "--invalidate: all is around the page cache"),
    ],
)
def test_refused(tmp_path: Path, options: tuple[str, ...], why: str) -> None:
    if any("io_uring:" in option for option in options):
        require("io_uring")
    status = 1 if options == ("--json=nowhere/report",) else 2
    engine = () if "--engine" in options or "--preset" in options else ("--engine", "sync")
    done = bench(tmp_path, "io", *options, *engine, status=status)
    assert why in done.stderr
    assert not done.stdout
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("place", ["nowhere", "."])
def test_a_link_to_the_report(tmp_path: Path, place: str) -> None:
    """Which leads to nothing yet: it stays, whatever comes of it."""
    link = tmp_path / "link"
    link.symlink_to(f"{place}/report")
    work = (*SMALL, "--engine", "sync", "--json=link")
    done = bench(tmp_path, "io", *work, status=0 if place == "." else 1)
    assert link.is_symlink()
    if place == ".":
        assert json.loads(link.read_text())["cells"]
    else:
        assert "link: No such file" in done.stderr


def test_a_job_file(tmp_path: Path) -> None:
    require("linux_aio")
    (tmp_path / "job").write_text(
        "[global]\nsize=1m\n[a]\nrw=randread\niodepth=4\n[b]\nstonewall\nrw=write\nbs=64k\n"
    )
    said = bench(tmp_path, "io", "job", "--engine", "libaio,sync", "--bs", "8k", "--dry-run").stdout
    assert said.splitlines()[:3] == [
        "linux-aio: randread 8k of 1m, depth 4, buffered, cache dropped, one by one",
        "sync: randread 8k of 1m, depth 1, buffered, cache dropped, one by one",
        "linux-aio: write 8k of 1m, depth 1, buffered, cache dropped, one by one",
    ]
    bench(tmp_path, "io", "job", "--rounds", "1", "--counters", "none")
    (tmp_path / "job").write_text("[a]\nsize=1m\nzonemode=zbd\n")
    assert "job: line 3: zonemode" in bench(tmp_path, "io", "job", status=2).stderr
    assert "missing" in bench(tmp_path, "io", "missing", status=2).stderr


def test_a_matrix_of_what_matters_to_some(tmp_path: Path) -> None:
    """An option may be for some cells only, and the others do not claim it."""
    some = ("--engine", "sync", "--size", "1m", "--rw", "read,write", "--fsync", "4", "--dry-run")
    said = bench(tmp_path, "io", *some).stdout.splitlines()
    assert said[:2] == [
        "sync: read 4k of 1m, depth 1, direct, for 2 s",
        "sync: write 4k of 1m, depth 1, direct, fsync every 4, for 2 s",
    ]


def test_a_job_file_as_people_write_them(tmp_path: Path) -> None:
    """Comments behind what they explain, options that only change fio's report, variables."""
    (tmp_path / "job").write_text(
        "; like a database\n[global]   ; for all\nioengine=psync\nsize=1m  # small\ngroup_reporting\n"
        "log_avg_msec=500\n[reads]\nrw=randrw\nrwmixwrite=30\nbs=${BLOCK}\nnrfiles=1\n"
        "[log]\nwait_for_previous\nrw=write\nfsync=1\n"
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("BLOCK", "8k")
        said = bench(tmp_path, "io", "job", "--dry-run").stdout.splitlines()
    assert said[:2] == [
        "sync: randrw 8k of 1m (70 % reads), depth 1, buffered, cache dropped, one by one",
        "sync: write 4k of 1m, depth 1, buffered, cache dropped, one by one, fsync every 1",
    ]
    assert "${BLOCK} is not in the environment" in bench(tmp_path, "io", "job", status=2).stderr


@pytest.mark.parametrize("rw", ["read", "write", "copy"])
def test_an_existing_file_is_refused(tmp_path: Path, rw: str) -> None:
    file = tmp_path / "precious"
    file.write_bytes(b"x" * (1 << 20))
    done = bench(tmp_path, "io", *SMALL, "--engine", "sync", "--filename", "precious", "--rw", rw, status=2)
    assert "precious: it exists" in done.stderr
    assert ("OVERWRITTEN" in done.stderr) == (rw == "write")
    assert file.read_bytes() == b"x" * (1 << 20)
    large = ("--filename", "precious", "--use-existing", "--size", "2m")
    assert "fewer than --size 2m" in bench(tmp_path, "io", *SMALL, *large, status=2).stderr


@needs("block device")
def test_a_block_device_is_refused(tmp_path: Path) -> None:
    name = str(next(path for path in sorted(Path("/dev").iterdir()) if path.is_block_device()))
    # A dry run: what is refused by mistake only must not be at risk in a test.
    write = ("--engine", "sync", "--filename", name, "--rw", "write", "--dry-run")
    done = bench(tmp_path, "io", *SMALL, *write, status=2)
    assert f"{name}: a block device: its contents would be OVERWRITTEN" in done.stderr


def test_devices_without_poll_queues(tmp_path: Path) -> None:
    require("io_uring")
    polls = bench(tmp_path, "io", "--engine", "io_uring:iopoll", "--size", "1m", "--dry-run", status=2)
    # What other devices say is not known here; this machine's answer has to be one of two.
    assert "poll queues" in polls.stderr or "no block device to poll" in polls.stderr


def test_a_job_file_and_options_over_it(tmp_path: Path) -> None:
    """What a file's `invalidate` and `pre_read` say is taken back, and its file may be there."""

    def first(text: str, *options: str) -> str:
        (tmp_path / "job").write_text(f"[a]\nrw=read\nsize=1m\n{text}\n")
        return bench(tmp_path, "io", "job", *options, "--dry-run").stdout.splitlines()[0]

    assert "cache as it is" in first("invalidate=0")
    assert "cache dropped" in first("invalidate=0", "--invalidate", "1")
    assert "cache warmed" in first("pre_read=1")
    assert "cache dropped" in first("pre_read=1", "--pre_read", "0")
    assert "cache dropped" in first("pre_read=1", "--invalidate", "1")
    (tmp_path / "there").write_bytes(b"x" * (1 << 20))
    assert first("filename=there", "--use-existing").startswith("sync: read 4k of 1m")


def test_sections_that_differ_in_their_time_only(tmp_path: Path) -> None:
    """They are told apart, so they have a table and a verdict each."""
    (tmp_path / "job").write_text(
        "[global]\nrw=randread\nsize=1m\ntime_based\n[a]\nruntime=50ms\n[b]\nstonewall\nruntime=60ms\n"
    )
    report = measured(
        tmp_path, "job", "--engine", "sync,psync-threads", "--rounds", "1", "--counters", "none"
    )
    assert [verdict["work"].split(", ")[-1] for verdict in report["verdicts"]] == ["for 50 ms", "for 60 ms"]


def test_what_is_said_is_not_shortened(tmp_path: Path) -> None:
    said = bench(tmp_path, "io", "--engine", "sync", "--quick", "--runtime", "3", "--dry-run").stdout
    assert said.startswith("sync: randread 4k of 64m, depth 1, direct, for 3 s\n")
    said = bench(tmp_path, "io", "--engine", "sync", "--quick", "--size", "65m", "--dry-run").stdout
    assert said.startswith("sync: randread 4k of 65m, depth 1, direct, for 500 ms\n")


@pytest.mark.parametrize(
    ("options", "why"),
    [
        (("io", "--list", "--rw", "read"), "--rw has no effect with --list"),
        (("io", "--list", "--ioengine=sync"), "--engine has no effect with --list"),
        (("io", "--list", "--quick"), "--quick has no effect with --list"),
        (("io", "--list", "--json"), "--json has no effect with --list"),
        (("io", "--list", "--dry-run"), "--dry-run has no effect with --list"),
        (("io", "job", "--list"), "job has no effect with --list"),
        (("files", "--list", "--only", "proactor"), "--only has no effect with --list"),
        (("files", "--list", "--seed=2"), "--seed has no effect with --list"),
        (("cp", "--list", "--tree", "small"), "--tree has no effect with --list"),
        (("cp", "--list", "--python", "x"), "unexpected argument"),
        (("io", "--bs", "4k,8k,4096"), "--bs has the same value twice"),
        (("io", "--engine", "sync,sync"), "--engine has the same value twice"),
        (("io", "--rw", "read,write,read"), "--rw has the same value twice"),
        (("io", "--size=1m,1024k"), "--size has the same value twice"),
        (("io", "--iodepth=1,1"), "--iodepth has the same value twice"),
        (("io", "--numjobs=2,2"), "--numjobs has the same value twice"),
        (("io", "--direct=0,0"), "--direct has the same value twice"),
        (("io", "--thinktime=1000,1ms"), "--thinktime has the same value twice"),
        (("cp", "--tree=small,small"), "--tree has the same value twice"),
        (("cp", "--only=cp,cp"), "--only cp has no effect beside cp"),
        (("files", "--task=lines,line"), "--task lines has no effect beside line"),
        (("net", "1", "--connections=1,1"), "--connections has the same value twice"),
        (("net", "1", "--size=1k,1024"), "--size has the same value twice"),
        (("net", "1", "--depth=2,2"), "--depth has the same value twice"),
        (("net", "1", "--rate=5,5"), "--rate has the same value twice"),
        (("io", "--quick", "--size=1m", "--runtime=1", "--rounds=2"), "--quick has no effect"),
        (
            ("io", "--quick", "--size=1m", "--runtime=1", "--rounds=2", "--task=latency"),
            "--quick has no effect",
        ),
        (("cp", "--quick", "--source=.", "--rounds=2"), "--quick has no effect"),
    ],
)
def test_what_has_no_effect(tmp_path: Path, options: tuple[str, ...], why: str) -> None:
    done = bench(tmp_path, *options, status=2)
    assert why in done.stderr
    assert not done.stdout


@pytest.mark.parametrize(
    "options",
    [
        ("io", "--quick", "--rounds=2", "--engine=sync"),
        ("io", "--quick", "--size=1m", "--rounds=2", "--engine=sync"),
        ("io", "--quick", "--size=1m", "--runtime=1", "--engine=sync"),
        ("cp", "--quick", "--source=tree", "--only=cp"),
    ],
)
def test_quick_beside_some_of_what_it_sets(tmp_path: Path, options: tuple[str, ...]) -> None:
    (tmp_path / "tree").mkdir()
    assert bench(tmp_path, *options, "--dry-run").stderr == ""


def test_lists_that_depend_on_an_option(tmp_path: Path) -> None:
    """Of other copiers and of another Python."""
    assert "  /bin/cp -r " in bench(tmp_path, "cp", "--list", "--also", "/bin/cp -r").stdout
    assert "small-files" in bench(tmp_path, "files", "--list", "--python", sys.executable).stdout


def test_options_that_are_given_again(tmp_path: Path) -> None:
    """The last value counts, as with fio, and that is told; of switches there is nothing to tell."""
    again = ("--ioengine=psync-threads", "--rounds", "2", "--rounds=3", "--quick", "--quick")
    done = bench(tmp_path, "io", "--engine", "sync", *again, "--dry-run")
    assert done.stdout.startswith("psync-threads: ")
    assert "1 cells, 3 rounds" in done.stdout
    assert done.stderr.splitlines() == [
        "proactor bench: warning: --engine is given 2 times, and only the last one counts; several values "
        "are one list, as in --engine A,B",
        "proactor bench: warning: --rounds is given 2 times, and only the last one counts",
    ]
    also = ("--also", "/bin/cp -r", "--also", "/bin/cp -R")
    assert bench(tmp_path, "cp", "--only=cp", *also, "--dry-run").stderr == ""
