"""What the comparisons say: statistics, tables, charts, and docs/speed.md, which is what the results make."""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import bench
import charts
import pytest
import report
import tables

ROOT = Path(__file__).parent.parent


def test_summary() -> None:
    summary = tables.Summary.of([5.0, 1.0, 3.0, 100.0, 4.0])
    assert summary == tables.Summary(median=4.0, lowest=1.0, highest=100.0, mad=1.0, rounds=5)
    assert f"{summary:.0f}" == "4 (1-100, MAD 1)"
    assert f"{tables.Summary.of([2.5]):.1f}" == "2.5"
    assert tables.summarise([{"x": 1.0}, {"x": None}], "x") is None


def test_table() -> None:
    assert tables.table(["name", "n"], [["long name", 1], ["x", 1000]]).splitlines() == [
        "| name      |    n |",
        "| --------- | ---: |",
        "| long name |    1 |",
        "| x         | 1000 |",
    ]


def group(*rows: tuple[str, float], more_is_better: bool = False) -> tables.Group:
    made = [tables.Row(name, tables.Summary(value, value / 2, value * 2, 0.5, 3)) for name, value in rows]
    return tables.Group("a < b", "ms", made, more_is_better=more_is_better)


def test_who_is_faster_is_named() -> None:
    rows = ("open()", 10.0), ("threads", 8.0), ("proactor.open", 12.0), ("proactor, quick", 8.0)
    less = group(*rows)
    assert [less.behind(row) for row in less.rows] == ["", "", "threads (1.50); open() (1.20)", ""]
    more = group(*rows, more_is_better=True)
    assert [more.behind(row) for row in more.rows] == ["", "", "", "open() (1.25)"]
    assert less.ratio(less.rows[2]) == 1.2
    # Alone it is behind nobody.
    assert group(rows[2]).behind(less.rows[2]) == ""


def test_tables_of_groups() -> None:
    text = tables.tables([group(("open()", 10.0), ("proactor", 12.0)), group(("open()", 1.0))], "###")
    assert text.splitlines() == [
        "### a < b",
        "",
        "3 rounds.",
        "",
        "| by       | ms, less is better | of open() |   slower than |",
        "| -------- | -----------------: | --------: | ------------: |",
        "| open()   |   10 (5-20, MAD 0) |      1.00 |               |",
        "| proactor |   12 (6-24, MAD 0) |      1.20 | open() (1.20) |",
        "",
        "### a < b",
        "",
        "3 rounds.",
        "",
        "| by     | ms, less is better | of open() |",
        "| ------ | -----------------: | --------: |",
        "| open() |     1 (0-2, MAD 0) |      1.00 |",
    ]


def test_a_chart_has_a_bar_for_each_row() -> None:
    groups = [group(("open()", 10.0), ("proactor", 12.0), ("proactor, quick", 5.0)), group(("x", 1.0))]
    picture = charts.chart("A & B", groups)
    root = ElementTree.fromstring(picture)
    space = "{http://www.w3.org/2000/svg}"
    assert root.findtext(f"{space}title") == "A & B"
    bars = [bar.get("class") for bar in root.iter(f"{space}rect")][len(charts.LEGENDS) :]
    assert bars == ["other", "behind", "ours", "other"]
    widths = [float(bar.get("width", "")) for bar in root.iter(f"{space}rect")][len(charts.LEGENDS) :]
    assert widths[1] / widths[0] == pytest.approx(1.2, abs=0.01)
    assert "12 (1.20)" in [text.text for text in root.iter(f"{space}text")]
    # Everything is inside.
    width, height = float(root.get("width", "")), float(root.get("height", ""))
    assert all(float(line.get("x2", "")) <= width for line in root.iter(f"{space}line"))
    assert all(float(text.get("y", "")) <= height for text in root.iter(f"{space}text"))
    assert picture == charts.chart("A & B", groups)


def test_the_page_is_what_the_results_make(tmp_path: Path) -> None:
    report.write(tables.RESULTS, tmp_path)
    made = {str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*") if path.is_file()}
    docs = ROOT / "docs"
    kept = {"speed.md", *(str(path.relative_to(docs)) for path in (docs / "speed").iterdir())}
    assert made == kept, "run: python comparisons/report.py"
    for name in sorted(kept):
        assert (tmp_path / name).read_text() == (docs / name).read_text(), "run: python comparisons/report.py"


def test_every_comparison_is_in_the_page_and_the_bench() -> None:
    assert set(report.COMPARISONS) - set(report.MODULES) == set(bench.RUNS)
    scripts = {
        path.stem for path in (ROOT / "comparisons").glob("*.py") if "summaries.finish(" in path.read_text()
    }
    # What is measured beside fio is in docs/bench-fio.md.
    assert scripts - {"bench_fio"} == set(bench.RUNS)
    for name in scripts:
        assert callable(importlib.import_module(name).groups)


def test_shares_of_the_time() -> None:
    whole = bench.shares(list(bench.RUNS), None)
    assert sum(whole.values()) == pytest.approx(bench.MINUTES * (1 - bench.OVERHEAD))
    assert bench.shares(["calls"], None)["calls"] == pytest.approx(whole["calls"])
    assert bench.shares(["calls"], 10.0)["calls"] == pytest.approx(9.0)


def test_bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # The callers that need no other package, and one call.
    command = bench.command
    more = ["--only", "proactor", "--call", "stat"]
    monkeypatch.setattr(bench, "command", lambda *args, **options: [*command(*args, **options), *more])
    assert bench.bench(["calls"], None, tmp_path / "results", tmp_path / "docs", smoke=True) == 0
    (kept,) = (tmp_path / "results").glob("*.json")
    data = json.loads(kept.read_text())
    assert kept.name.endswith("-calls.json")
    text = (tmp_path / "docs" / "speed.md").read_text()
    assert f"Repeat it: `{data['command']}`" in text
    assert "Not measured yet: lines," in text
    assert (tmp_path / "docs" / "speed" / "calls.svg").exists()


def test_bench_says_what_there_is() -> None:
    command = [sys.executable, str(ROOT / "comparisons" / "bench.py")]
    listed = subprocess.run([*command, "--list"], capture_output=True, text=True, check=True).stdout
    assert [line.split()[0] for line in listed.splitlines()] == list(bench.RUNS)
    done = subprocess.run([*command, "nonsense"], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "there is no nonsense" in done.stderr
