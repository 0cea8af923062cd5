"""`proactor bench files`: the packages that are installed, on the same work."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import proactor
import pytest
from bench_helpers import TIMEOUT_S, bench, cells
from capabilities import require
from proactor._bench import tasks, whole

ALL = ("small-files", "chunks", "random", "lines", "write-lines")
QUICK = ("--quick", "--rounds", "1", "--counters", "none")


def raced(place: Path, *options: str, status: int = 0) -> dict[str, Any]:
    done = bench(place, "files", *QUICK, *options, "--json", status=status)
    report: dict[str, Any] = json.loads(done.stdout)
    return report


@pytest.mark.parametrize("task", ALL)
def test_ours_and_the_synchronous_one(tmp_path: Path, task: str) -> None:
    synchronous = "os.pread" if task == "random" else "open()"
    checked = ["--verify"] if task in {"small-files", "random"} else []
    report = raced(tmp_path, "--task", task, "--only", f"{synchronous},proactor", *checked)
    found = cells(report)
    assert len(found) >= 2
    sizes = tasks.Sizes.of(quick=True)
    ops = {
        "small-files": sizes.small_files,
        "chunks": sizes.file_mib * 16,
        "random": sizes.reads,
        "lines": sizes.text_files * sizes.text_lines,
        "write-lines": sizes.text_files * sizes.text_lines,
    }
    for cell in found.values():
        assert cell["failed"] is None
        (each,) = cell["rounds"]
        assert each["all"]["ios"] == ops[task]
        assert each["elapsed_s"] > 0
        # The kernel may take a page back at any moment.
        assert each["resident_before"]["pages"] > 0.9 * each["resident_before"]["of"] > 0
        loop = "proactor" in cell["cell"]["contender"]
        assert ("late_max_s" in each) == loop
    timed = {name for name, cell in found.items() if cell["read_latency"]}
    assert bool(timed) == (task in {"small-files", "random"})
    assert not list(tmp_path.iterdir())


def test_rivals(tmp_path: Path) -> None:
    for package in ("aiofiles", "anyio", "caio"):
        require(package)
    found = cells(raced(tmp_path, "--task", "random", "--only", "aiofile,anyio,caio,asyncio"))
    assert {"aiofiles", "anyio", "caio", "asyncio.to_thread"} <= set(found)
    assert not [cell["failed"] for cell in found.values() if cell["failed"]]


def test_system_calls(tmp_path: Path) -> None:
    require("system call counters")
    done = bench(
        tmp_path, "files", "--quick", "--rounds", "1", "--task", "random", "--only", "os.pread", "--json"
    )
    (cell,) = json.loads(done.stdout)["cells"]
    reads = tasks.Sizes.of(quick=True).reads
    assert cell["counted"]["calls"]["by_name"]["pread64"] == reads
    # Nothing of the interpreter's start.
    assert cell["counted"]["calls"]["total"] < reads + 20


def test_wrong_bytes_are_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = tasks.Sizes(small_files=3, file_mib=1, reads=10, text_files=2, text_lines=5)
    for name, task in tasks.TASKS.items():
        place = tmp_path / name
        place.mkdir()
        task.make(place, sizes)
        made = [path.stat().st_size for path in place.rglob("*") if path.is_file()]
        assert sum(made) == task.size(sizes), "as was asked of the disk"
        contender = task.contenders[0]
        task.run(contender, place, sizes, True)
    monkeypatch.setitem(
        whole.CONTENDERS, "open()", lambda paths, taken: [taken.add(b"?" * 4096) for _ in paths]
    )
    with pytest.raises(tasks.Wrong, match="other bytes"):
        tasks.TASKS["small-files"].run("open()", tmp_path / "small-files", sizes, True)
    monkeypatch.setitem(whole.CONTENDERS, "open()", lambda paths, taken: None)
    with pytest.raises(tasks.Wrong, match="0 reads"):
        tasks.TASKS["small-files"].run("open()", tmp_path / "small-files", sizes, False)
    with open(tmp_path / "lines" / "1.txt", "a") as file:
        file.write("one more\n")
    with pytest.raises(tasks.Wrong, match="lines and characters"):
        tasks.TASKS["lines"].run("open()", tmp_path / "lines", sizes, False)


def test_asking(tmp_path: Path) -> None:
    said = bench(tmp_path, "files", "--list").stdout
    for task in ALL:
        assert f"{task}: " in said
    for name in ("open()", "aiofiles", "caio", "proactor.read_many"):
        assert f"\n  {name} " in said
    said = bench(tmp_path, "files", "--task", "chunks", "--only", "proactor", "--dry-run").stdout
    assert said.startswith("proactor.open: chunks: a file of 256 MiB, read by 64 KiB\n1 cells, 5 rounds")
    for options, why in (
        (("--task", "nonsense"), "there are chunks"),
        (("--only", "nonsense"), "nothing here is called so"),
        (("--rounds", "0"), "measures nothing"),
        (("--directory", "nowhere"), "nowhere"),
        (("--fio-json=x",), "unexpected argument"),
        (("--python", "/bin/false"), "pip install proactor"),
    ):
        assert why in bench(tmp_path, "files", *options, status=2).stderr
    assert not list(tmp_path.iterdir())


def test_a_native_binary_has_no_python(tmp_path: Path) -> None:
    """As the entry point that is called without an interpreter's name."""
    code = (
        "import sys; from proactor import _native; sys.executable = ''; "
        "sys.exit(_native.cli_main(['proactor', *sys.argv[1:]]))"
    )
    command = [sys.executable, "-c", code, "bench", "files", "--list"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    assert done.returncode == 2
    assert "--python FILE" in done.stderr
    done = subprocess.run(
        [*command, "--python", sys.executable],
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert "small-files" in done.stdout, done.stderr


def test_from_python(tmp_path: Path) -> None:
    report = proactor.bench.run_files(
        task="random", only="os.pread", quick=True, rounds=2, counters="none", directory=tmp_path
    )
    (entry,) = report.entries
    assert not report.cells
    assert (entry.contender, len(entry.rounds)) == ("os.pread", 2)
    assert entry.task.startswith("random: ")
    assert entry.elapsed_s > 0
    assert [row["contender"] for row in report.rows()] == ["os.pread"] * 2
    with pytest.raises(proactor.bench.BenchError, match="nothing here"):
        proactor.bench.run_files(task="nonsense")
