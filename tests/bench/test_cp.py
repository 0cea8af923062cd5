"""`proactor bench cp`: the copiers that are there, on the same trees."""

from __future__ import annotations

import json
import signal
import stat
import subprocess
from pathlib import Path
from typing import Any

import proactor
import pytest
from bench_helpers import TIMEOUT_S, bench, cells, command
from capabilities import require

QUICK = ("--quick", "--rounds", "1", "--counters", "none")


def raced(place: Path, *options: str, status: int = 0) -> dict[str, Any]:
    report: dict[str, Any] = json.loads(bench(place, "cp", *options, "--json", status=status).stdout)
    return report


def program(path: Path, text: str) -> Path:
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """For the copies."""
    place = tmp_path / "place"
    place.mkdir()
    return place


@pytest.mark.parametrize(("tree", "files"), [("small", 500), ("large", 4), ("mixed", 205)])
def test_trees(place: Path, tree: str, files: int) -> None:
    found = cells(raced(place, *QUICK, "--tree", tree, "--only", "cp,proactor", "--end_fsync"))
    assert {"cp -r", "cp -a", "proactor cp -r", "proactor cp -a"} <= set(found)
    for cell in found.values():
        assert cell["failed"] is None
        (each,) = cell["rounds"]
        assert each["all"]["ios"] == files
        assert cell["cell"]["task"].endswith("synced")
        # The kernel may take a page back at any moment.
        assert each["resident_before"]["pages"] > 0.9 * each["resident_before"]["of"]
    assert not list(place.iterdir())


def test_left_out_are_those_that_were_asked_for(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    every = bench(place, "cp", "--tree", "small", "--dry-run").stdout
    assert "left out: cp -a: no cp on PATH\n" in every
    assert "left out: cpz: no cpz on PATH\n" in every
    some = bench(place, "cp", "--tree", "small", "--dry-run", "--only", "proactor").stdout
    assert "proactor cp -a: " in some
    assert "left out" not in some


def test_a_tree_of_ones_own(tmp_path: Path, place: Path) -> None:
    source = tmp_path / "source"
    (source / "below").mkdir(parents=True)
    (source / "below" / "file").write_bytes(b"x" * 5000)
    (source / "empty").touch()
    report = raced(place, *QUICK[1:], "--source", str(source), "--only", "cp -a")
    (cell,) = report["cells"]
    assert cell["failed"] is None
    assert cell["rounds"][0]["all"]["bytes"] == 5000
    assert sorted(path.name for path in source.rglob("*")) == ["below", "empty", "file"]
    inside = bench(source, "cp", "--source", ".", status=2).stderr
    assert "--directory is another place" in inside


def test_a_copier_that_is_wrong_is_found_out(tmp_path: Path, place: Path) -> None:
    forgets = program(tmp_path / "forgets", 'cp -r "$1" "$2" && find "$2" -name "0*1.bin" -delete')
    changes = program(tmp_path / "changes", 'cp -r "$1" "$2" && printf x >> "$2/000/00000.bin"')
    fails = program(tmp_path / "fails", "echo no luck >&2; exit 3")
    also = [word for path in (forgets, changes, fails) for word in ("--also", str(path))]
    report = raced(place, *QUICK, "--tree", "small", "--only", "cp -r", *also, status=1)
    found = cells(report)
    assert found["cp -r"]["failed"] is None
    assert "its copy is wrong" in found[str(forgets)]["failed"]
    assert "without" in found[str(forgets)]["failed"]
    assert "00000.bin differs" in found[str(changes)]["failed"]
    assert "no luck" in found[str(fails)]["failed"]
    assert not list(place.iterdir())


def test_system_calls_as_strace_counts(tmp_path: Path, place: Path) -> None:
    require("system call counters", "strace")
    options = ("--quick", "--rounds", "1", "--tree", "small", "--only", "cp -r", "--counters", "perf")
    (cell,) = raced(place, *options)["cells"]
    counted = cell["counted"]["calls"]["by_name"]
    source = tmp_path / "source"
    for number in range(5):
        (source / f"{number}").mkdir(parents=True)
    for number in range(500):
        (source / f"{number % 5}" / f"{number}").write_bytes(b"x" * 4096)
    summary = tmp_path / "strace"
    subprocess.run(["strace", "-f", "-c", "-o", summary, "cp", "-r", source, tmp_path / "copy"], check=True)
    seen = {line.split()[-1]: int(line.split()[3]) for line in summary.read_text().splitlines()[2:-2]}
    # To start the program takes us a few more.
    for name in ("openat", "close", "copy_file_range"):
        assert abs(counted.get(name, 0) - seen.get(name, 0)) <= 40, (name, counted, seen)


def test_asking(place: Path) -> None:
    said = bench(place, "cp", "--list").stdout
    for name in ("proactor cp -a", "cp -r", "small", "large", "mixed"):
        assert f"\n  {name} " in said
    said = bench(place, "cp", "--tree", "large", "--only", "cp -a", "--dry-run").stdout
    assert said.startswith("cp -a: large: 4 files of 16 MiB\n1 cells, 5 rounds, in .\n")
    for options, why in (
        (("--tree", "nonsense"), "choose from small"),
        (("--only", "nonsense"), "nothing here is called so"),
        (("--also", "no-such-copier -x"), "no program no-such-copier"),
        (("--source", "nowhere"), "nowhere: no directory"),
        (("--rounds", "0"), "measures nothing"),
        (("--rounds", "1000000"), "at most 10000"),
        (("--also", "cp -r"), "--also cp -r: it takes part already"),
    ):
        assert why in bench(place, "cp", "--quick", *options, status=2).stderr
    assert not list(place.iterdir())


def test_ctrl_c(tmp_path: Path, place: Path) -> None:
    # Its version, which the report has, included.
    sleeps = program(tmp_path / "sleeps", f"sleep {5 * TIMEOUT_S}")
    options = ("--quick", "--tree", "small", "--only", "cp -r", "--also", str(sleeps), "--progress", "always")
    with subprocess.Popen(
        command("cp", *options, "--json"),
        cwd=place,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stderr is not None
        for line in process.stderr:
            if "sleeps" in line:
                break
        process.send_signal(signal.SIGINT)
        stdout, _ = process.communicate(timeout=TIMEOUT_S)
    assert process.returncode == 130
    report = json.loads(stdout)
    assert report["interrupted"]
    assert not cells(report)[str(sleeps)]["rounds"]
    assert not list(place.iterdir())


def test_a_version_that_never_comes(tmp_path: Path, place: Path) -> None:
    says = program(tmp_path / "says", '[ "$1" = --version ] && echo "says 1.2" || cp -r "$1" "$2"')
    hangs = program(tmp_path / "hangs", f'[ "$1" = --version ] && sleep {5 * TIMEOUT_S} || cp -r "$1" "$2"')
    options = ("--only", "cp -r", "--also", str(says), "--also", str(hangs))
    report = raced(place, *QUICK, "--tree", "small", *options)
    assert all(cell["failed"] is None for cell in report["cells"])
    assert report["environment"]["versions"]["says"] == "says 1.2"
    assert sorted(report["environment"]["versions"]) == ["cp", "says"]


def test_fio_has_no_words_for_it(place: Path) -> None:
    bench(place, "cp", *QUICK, "--tree", "small", "--only", "cp -r", "--json=report")
    assert "of `bench io` only" in bench(place, "show", "report", "--fio-json", status=2).stderr
    (place / "report").unlink()


def test_from_python(place: Path) -> None:
    report = proactor.bench.run_cp(
        tree="small", only="cp -r", quick=True, rounds=2, counters="none", directory=place
    )
    (entry,) = report.entries
    assert (entry.contender, entry.failed, len(entry.rounds)) == ("cp -r", None, 2)
