"""The summaries of comparisons: what is kept of a measurement in the repository."""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path

import bigfile
import pytest
import summaries
import tables

ROOT = Path(__file__).parent.parent


def group(title: str, median: float) -> tables.Group:
    rows = [tables.Row("open()", tables.Summary.of([median])), tables.Row("floor", tables.Summary.of([0.5]))]
    return tables.Group(title, "ms", rows)


def saving(results: Path, *, add: bool) -> argparse.Namespace:
    return argparse.Namespace(name="", json=None, save=True, add=add, results=results)


def test_a_summary_keeps_what_is_not_measured_again(tmp_path: Path) -> None:
    environment = {"date": "2026-01-01 10:00 UTC", "host": "vm"}
    first = [group("cached", 1.0), group("cold", 2.0)]
    summaries.finish("chunks", {"environment": environment, "cases": [1]}, first, saving(tmp_path, add=False))
    later = {"date": "2026-01-02 10:00 UTC", "host": "vm"}
    second = [group("cold", 3.0), group("direct", 4.0)]
    summaries.finish("chunks", {"environment": later, "cases": [2]}, second, saving(tmp_path, add=True))
    kept = summaries.read(summaries.newest(tmp_path, "chunks"))
    assert kept.groups == [first[0], *second]
    assert kept.environment == later
    assert summaries.newest_rounds(tmp_path, "chunks")["cases"] == [2]
    assert len(list((tmp_path / "raw").iterdir())) == 2
    summaries.finish("chunks", {"environment": later}, second[:1], saving(tmp_path, add=False))
    assert summaries.read(summaries.newest(tmp_path, "chunks")).groups == second[:1]


def test_the_newest_result_is_taken(tmp_path: Path) -> None:
    for name in ("2026-01-02-b-lines", "2026-01-10-a-lines", "2026-01-09-c-lines", "2026-02-01-a-calls"):
        (tmp_path / f"{name}.json").touch()
    (found,) = summaries.newest(tmp_path, "lines")
    assert found.name == "2026-01-10-a-lines.json"
    assert summaries.newest(tmp_path, "chunks") == []


def test_a_summary_is_read_as_it_was_written(tmp_path: Path) -> None:
    measured = tables.Summary.of([1.0, 2.5, 1 / 3])
    rows = [
        tables.Row("cp -a", measured, ("1", "a | b")),
        tables.Row("ours", measured, of_ours=True),
        tables.Row("floor", measured, is_floor=True),
    ]
    first = tables.Group("b, cold", "ms", rows, ("lowest",), 2, True, "A note.", "xfs")
    second = tables.Group("a, cold", "MB/s", rows[:1], part="ext4")
    kept = summaries.Kept({"host": "vm"}, "python x.py", [first, second], "| a |\n| - |")
    stem = "2026-01-01-vm-copier"
    written = summaries.write(tmp_path, stem, kept)
    assert [path.name for path in written] == [f"{stem}.xfs.json", f"{stem}.ext4.json"]
    assert summaries.read(summaries.newest(tmp_path, "copier")) == kept
    # A line for each row, so that a diff shows the rows that changed.
    assert written[0].read_text().count('{"name": ') == len(
        [line for line in written[0].read_text().splitlines() if line.startswith('   {"name": ')]
    )
    # A part that is not measured any more goes.
    kept.groups = [second]
    summaries.write(tmp_path, stem, kept)
    assert [path.name for path in tmp_path.iterdir()] == [f"{stem}.ext4.json"]


def test_the_tables_of_a_summary_are_printed() -> None:
    script = str(ROOT / "comparisons" / "report.py")
    printed = subprocess.run([sys.executable, script, "--print", "calls"], capture_output=True, text=True)
    assert printed.stdout.startswith("# calls\n\n- date: ")
    missing = subprocess.run([sys.executable, script, "--print", "nothing"], capture_output=True, text=True)
    assert missing.returncode == 1
    assert "no summary of nothing" in missing.stderr


def test_chunks_are_not_added_to_those_of_another_file(tmp_path: Path) -> None:
    environment = {"host": "vm", "file": "2 MiB"}
    args = argparse.Namespace(add=True, results=tmp_path)
    bigfile.check_kept("chunks", environment, args)
    kept = summaries.Kept(environment, "chunks.py", [group("cached", 1.0)])
    summaries.write(tmp_path, "2026-01-02-vm-chunks", kept)
    bigfile.check_kept("chunks", environment, args)
    other = {**environment, "file": "8 MiB"}
    with pytest.raises(SystemExit, match="another file"):
        bigfile.check_kept("chunks", other, args)
    args.add = False
    bigfile.check_kept("chunks", other, args)
