"""Tables of `proactor bench` that misled.

Users saw a depth that no op reached, reads from memory that were ranked as reads from the device, copies
whose GB/s were half of what their IOPS say, mixtures without a split, the longest of 16 ops as the 99th
percentile, and no trace of a failed cell in CSV and in fio's JSON.
"""

from __future__ import annotations

import csv
import io
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from capabilities import needs

ONCE = ("--time_based=0", "--rounds=1", "--counters=none", "--direct=0")
ENGINES = ("sync", "psync-threads", "posix-aio", "linux-aio", "io_uring", "linux-aio:raw", "io_uring:raw")


def bench(place: Path, *arguments: str, status: int = 0) -> subprocess.CompletedProcess[str]:
    words = [sys.executable, "-m", "proactor", "bench", *arguments]
    done = subprocess.run(words, cwd=place, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == status, f"{arguments}: {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done


def measured(place: Path, *arguments: str) -> dict[str, Any]:
    report: dict[str, Any] = json.loads(bench(place, "io", *arguments, "--json").stdout)
    return report


def shown(place: Path, report: dict[str, Any], *form: str) -> str:
    (place / "report").write_text(json.dumps(report))
    return bench(place, "show", "report", *form).stdout


@needs("io_uring", "linux_aio")
@pytest.mark.parametrize("rw", ["read", "randwrite", "copy"])
def test_a_depth_that_cannot_be_reached(tmp_path: Path, rw: str) -> None:
    work = ("--bs=64k", "--size=512k", "--iodepth=512", "--rw", rw, "--engine", ",".join(ENGINES))
    report = measured(tmp_path, *ONCE, *work)
    for cell in report["cells"]:
        (found,) = cell["rounds"]
        assert 1 <= found["depth"]["most"] <= 8
        assert sum(found["depth"]["levels"]) == found["all"]["ios"]
        # No more threads and buffers than ops: 512 blocks would be 32 MiB.
        assert found["used"]["peak_rss_bytes"] is None or found["used"]["peak_rss_bytes"] < 160 << 20
    text = shown(tmp_path, report)
    for engine in ENGINES[1:]:
        assert f"{engine}, depth 512: at most " in text
    jobs = json.loads(shown(tmp_path, report, "--fio-json"))["jobs"]
    for job in jobs:
        assert sum(job["iodepth_level"].values()) == pytest.approx(100)
        assert set(job["iodepth_level"]) == {"1", "2", "4", "8", "16", "32", ">=64"}
        assert job["iodepth_level"]["16"] == 0


@needs("io_uring")
def test_a_depth_that_is_reached(tmp_path: Path) -> None:
    work = ("--bs=4k", "--size=1m", "--iodepth=64", "--numjobs=2", "--rw=randread", "--engine=io_uring")
    report = measured(tmp_path, *ONCE, *work)
    assert report["cells"][0]["rounds"][0]["depth"]["most"] == 128
    assert "at most" not in shown(tmp_path, report)


@pytest.mark.parametrize("rw", ["copy", "randrw", "read"])
def test_ops_bytes_and_rates_agree_in_every_form(tmp_path: Path, rw: str) -> None:
    report = measured(tmp_path, *ONCE, "--engine=sync", "--size=1m", "--bs=4k", "--rw", rw)
    found = report["cells"][0]["rounds"][0]
    (row,) = csv.DictReader(io.StringIO(shown(tmp_path, report, "--csv")))
    for name in ("iops", "bytes_per_s"):
        assert float(row[name]) == found["all"][name]
        assert found["read"][name] + found["write"][name] == pytest.approx(found["all"][name])
    assert float(row["iops"]) * int(row["bs"]) == pytest.approx(float(row["bytes_per_s"]))
    rates = [line.split() for line in shown(tmp_path, report).splitlines() if line.startswith("  sync ")]
    iops, gb_per_s = float(rates[0][4].replace(",", "")), float(rates[0][5])
    assert iops * 4096 / 1e9 == pytest.approx(gb_per_s, rel=0.01, abs=0.001)


@pytest.mark.parametrize("form", [(), ("--markdown",), ("--html", "/dev/stdout")])
@pytest.mark.parametrize("rw", ["randrw", "copy"])
def test_reads_and_writes_apart(tmp_path: Path, rw: str, form: tuple[str, ...]) -> None:
    report = measured(tmp_path, *ONCE, "--engine=sync", "--size=1m", "--rw", rw)
    text = shown(tmp_path, report, *form)
    assert "reads and writes apart" in text
    report["cells"][0]["write_latency"] = None
    assert "reads and writes apart" not in shown(tmp_path, report, *form)


def test_too_few_ops_for_a_percentile(tmp_path: Path) -> None:
    few = shown(tmp_path, measured(tmp_path, *ONCE, "--engine=sync", "--size=16k", "--bs=1k"))
    many = shown(tmp_path, measured(tmp_path, *ONCE, "--engine=sync", "--size=1m", "--bs=1k"))
    assert few.count("(max)") == 3  # of 99 and 99.9, and what it means
    assert "(max)" not in many


@needs("io_uring")
def test_what_came_from_memory_is_not_ranked(tmp_path: Path) -> None:
    report = measured(tmp_path, *ONCE, "--engine=sync,io_uring", "--size=1m", "--rw=randread")
    for cell in report["cells"]:
        cell["rounds"] *= 4
        for found in cell["rounds"]:
            found["used"]["process_read_bytes"] = found["read"]["bytes"] // 50
    text = shown(tmp_path, report)
    assert "NOT cold: dropped before, and 98 % of what was read came from memory" in text
    for cell in report["cells"]:
        cell["cell"]["direct"] = True
    assert "NOT read from a device: 98 %" in shown(tmp_path, report)
    for cell in report["cells"]:
        for found in cell["rounds"]:
            found["used"]["process_read_bytes"] = found["read"]["bytes"]
    assert "98 %" not in shown(tmp_path, report)


@needs("io_uring")
def test_no_verdict_on_what_came_from_memory(tmp_path: Path) -> None:
    # Many times round a file of 64 KiB within the time, whatever the device is.
    work = ("--engine=sync,io_uring", "--size=64k", "--direct=0", "--runtime=30ms", "--rounds=4")
    report = measured(tmp_path, *work, "--counters=none")
    (verdict,) = report["verdicts"]
    assert verdict["best"] == []
    assert verdict["text"].startswith("Not ranked: ")


def test_a_cell_that_failed_is_in_every_form(tmp_path: Path) -> None:
    report = measured(tmp_path, *ONCE, "--engine=sync", "--size=64k")
    failed = json.loads(json.dumps(report["cells"][0]))
    failed.update(rounds=[], read_latency=None, failed='read at offset 0: "broken", all of it')
    report["cells"].append(failed)
    rows = list(csv.DictReader(io.StringIO(shown(tmp_path, report, "--csv"))))
    assert [row["failed"] for row in rows] == ["", failed["failed"]]
    assert (rows[1]["round"], rows[1]["iops"], rows[1]["engine"]) == ("", "", "sync")
    jobs = json.loads(shown(tmp_path, report, "--fio-json"))["jobs"]
    assert [job["error"] != 0 for job in jobs] == [False, True]
    assert jobs[1]["error_text"] == failed["failed"]
    assert jobs[1]["read"]["total_ios"] == 0


def test_block_sizes_and_depths_in_one_table(tmp_path: Path) -> None:
    work = ("--engine=sync,psync-threads", "--size=128k", "--bs=4k,32k", "--iodepth=2,4", "--rw=randread")
    text = shown(tmp_path, measured(tmp_path, *ONCE, *work))
    head, sync, threads, *_ = text.splitlines()[1:]
    assert head.split() == ["engine", "4k", "x", "2", "4k", "x", "4", "32k", "x", "2", "32k", "x", "4"]
    assert (sync.split()[0], threads.split()[0]) == ("sync", "psync-threads")
    assert sync.count("IOPS") == threads.count("IOPS") == 4


@pytest.mark.parametrize("command", ["io", "files", "cp"])
def test_a_file_behind_a_space(tmp_path: Path, command: str) -> None:
    said = bench(tmp_path, command, "--json", "out.json", status=2).stderr
    assert "--json=out.json" in said
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("command", ["files", "cp"])
def test_races_do_not_offer_fio(tmp_path: Path, command: str) -> None:
    assert "--fio-json" not in bench(tmp_path, command, "--help").stdout


@pytest.mark.parametrize(
    ("options", "why"),
    [
        (("io", "--dry-run", "--csv=rows"), "--dry-run measures nothing"),
        (("io", "--list", "--html", "page"), "with --list, which measures nothing"),
        (("cp", "--dry-run", "--svg", "charts"), "--dry-run measures nothing"),
        (("io", "--engine", "sync", "--iodepth", "4"), "--iodepth: sync"),
        (("io", "--engine", "sync,psync-threads", "--iodepth_batch", "4"), "--iodepth_batch:"),
        (("io", "--engine", "sync", "--iodepth_batch_complete_max", "4"), "--iodepth_batch_complete_max:"),
        (("files", "--task", "chunks", "--verify"), "--verify: of these tasks none"),
    ],
)
def test_an_option_without_effect(tmp_path: Path, options: tuple[str, ...], why: str) -> None:
    assert why in bench(tmp_path, *options, status=2).stderr
    assert os.listdir(tmp_path) == []
