"""The forms of a report: each says what was measured, and can be read by what reads such files."""

from __future__ import annotations

import csv
import html.parser
import io
import json
import re
import shutil
import statistics
import subprocess
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import pytest
from bench_helpers import SMALL, TIMEOUT_S, bench, command
from capabilities import needs, require

ROUNDS = 4


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A report in every form."""
    require("io_uring")
    place = tmp_path_factory.mktemp("reports")
    work = (
        *SMALL,
        "--engine",
        "sync,io_uring",
        "--rw",
        "randread",
        "--iodepth",
        "1,8",
        "--rounds",
        str(ROUNDS),
    )
    forms = ("--json=json", "--csv=csv", "--markdown=md", "--fio-json=fio", "--html=html")
    (place / "text").write_text(bench(place, "io", *work, *forms).stdout)
    return place


@pytest.fixture
def report(place: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((place / "json").read_text())
    return found


def test_json(report: dict[str, Any]) -> None:
    assert report["format"] == "proactor-bench-1"
    assert report["command"][:2] == ["proactor", "bench"]
    assert not report["interrupted"]
    assert report["environment"]["kernel"]
    assert report["environment"]["file_system"]["kind"]
    assert len(report["cells"]) == 3
    for cell in report["cells"]:
        assert len(cell["rounds"]) == ROUNDS
        assert cell["read_latency"]["ios"] == ROUNDS * 256
        times = [seconds for _, seconds in cell["read_latency"]["percentiles"]]
        assert times == sorted(times)


def test_verdicts(report: dict[str, Any], place: Path) -> None:
    # One for each depth; sync takes part in both.
    assert len(report["verdicts"]) == 2
    for verdict in report["verdicts"]:
        medians = {}
        for cell in report["cells"]:
            if cell["cell"]["engine"] == "sync" or f"depth {cell['cell']['iodepth']}," in verdict["work"]:
                rates = sorted(found["all"]["iops"] for found in cell["rounds"])
                medians[cell["cell"]["engine"]] = (rates[1] + rates[2]) / 2
        assert verdict["best"][0] == max(medians, key=lambda engine: medians[engine])
        assert verdict["text"] in (place / "text").read_text()


def test_text(place: Path) -> None:
    said = (place / "text").read_text()
    assert "randread 4k of 1m, buffered" in said
    assert re.search(r"^  engine +depth +time +IOPS ", said, re.MULTILINE)
    assert re.search(r"^  io_uring +8 ", said, re.MULTILINE)
    assert "System calls were not counted." in said


def test_csv(place: Path, report: dict[str, Any]) -> None:
    rows = list(csv.DictReader(io.StringIO((place / "csv").read_text())))
    assert len(rows) == 3 * ROUNDS
    first = report["cells"][0]["rounds"][0]
    assert float(rows[0]["iops"]) == pytest.approx(first["all"]["iops"])
    assert all(None not in row and None not in row.values() for row in rows)


def test_markdown(place: Path) -> None:
    lines = (place / "md").read_text().splitlines()
    table = [line for line in lines if line.startswith("|")]
    assert len(table) == 2 + 3
    assert len({line.count("|") for line in table}) == 1


def test_fio(place: Path, report: dict[str, Any]) -> None:
    shape = json.loads((place / "fio").read_text())
    assert len(shape["jobs"]) == 3
    for job, cell in zip(shape["jobs"], report["cells"], strict=True):
        read = job["read"]
        assert read["total_ios"] == ROUNDS * 256
        assert read["io_bytes"] == ROUNDS << 20
        elapsed = sum(found["elapsed_s"] for found in cell["rounds"])
        assert read["iops"] == pytest.approx(read["total_ios"] / elapsed)
        assert read["clat_ns"]["percentile"]["50.000000"] <= read["clat_ns"]["percentile"]["99.000000"]
        assert job["write"]["total_ios"] == 0
        for what, unit in (("iops", 1), ("bw", 1024)):
            # Each round is a sample.
            name = {"iops": "iops", "bw": "bytes_per_s"}[what]
            rates = [found["read"][name] / unit for found in cell["rounds"]]
            assert read[f"{what}_samples"] == ROUNDS
            assert read[f"{what}_mean"] == pytest.approx(statistics.mean(rates))
            assert read[f"{what}_min"] <= read[f"{what}_mean"] <= read[f"{what}_max"] + 1
        shares = [share for unit in ("ns", "us", "ms") for share in job[f"latency_{unit}"].values()]
        assert sum(shares) == pytest.approx(100)
        assert job["job options"]["iodepth"] == str(cell["cell"]["iodepth"])


# What was not measured is left out: render/fio.rs.
NOT_MEASURED = frozenset({"iodepth_submit", "iodepth_complete"})


def names(value: dict[str, Any], before: str = "") -> dict[str, type]:
    """Each key with those above it, but for what a command line or a run decides."""
    found: dict[str, type] = {}
    for key, inner in value.items():
        if key in NOT_MEASURED or key in {"job options", "percentile"}:
            continue
        found[before + key] = type(inner)
        if isinstance(inner, dict):
            found |= names(inner, f"{before}{key}.")
    return found


@needs("fio")
def test_fio_itself_has_no_other_names(place: Path, tmp_path: Path) -> None:
    """All that fio writes of a job, in the same types, so that what reads one reads the other."""
    asked = ["--name=job", "--rw=randread", "--bs=4k", "--size=1m", "--output-format=json"]
    fio = shutil.which("fio")
    assert fio
    done = subprocess.run(
        [fio, *asked], cwd=tmp_path, capture_output=True, text=True, timeout=TIMEOUT_S, check=True
    )
    theirs, ours = json.loads(done.stdout), json.loads((place / "fio").read_text())
    assert {key for key in theirs if key not in ours} == set()
    job = names(ours["jobs"][0])
    assert {key: kind for key, kind in names(theirs["jobs"][0]).items() if job.get(key) is not kind} == {}
    # The same second, give or take the run of the one and of the other.
    assert abs(theirs["timestamp"] - ours["timestamp"]) < 24 * 3600


class Page(html.parser.HTMLParser):
    """Every element closed in order; what it names elsewhere."""

    EMPTY = frozenset({"meta", "rect", "path", "circle"})

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: list[str] = []
        self.outside: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append(tag)
        self.outside += [value for name, value in attrs if name in {"src", "href"} and value]
        if tag not in self.EMPTY:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_html(place: Path) -> None:
    text = (place / "html").read_text()
    page = Page()
    page.feed(text)
    assert not page.open
    assert not page.outside
    assert "script" not in page.seen
    assert "http" not in text
    for promise in ("prefers-color-scheme:dark", "@media print", "width=device-width"):
        assert promise in text
    charts = re.findall(r"<svg.*?</svg>", text, re.DOTALL)
    # Bars, latencies, and depth against both.
    assert len(charts) == 4
    for chart in charts:
        root = ET.fromstring(chart)
        width, height = (float(number) for number in root.attrib["viewBox"].split()[2:])
        for element in root.iter():
            for name, bound in (("x", width), ("cx", width), ("y", height), ("cy", height)):
                assert 0 <= float(element.attrib.get(name, 0)) <= bound, ET.tostring(element)
    assert "nan" not in text.lower().replace("nanosleep", "")


def test_show(place: Path) -> None:
    """A report is whole: each form can be made from it again."""
    for form, name in (("--csv", "csv"), ("--markdown", "md"), ("--fio-json", "fio"), ("--json", "json")):
        assert bench(place, "show", "json", form).stdout == (place / name).read_text()
    assert bench(place, "show", "json").stdout == (place / "text").read_text()


def test_show_something_else(place: Path) -> None:
    (place / "other").write_text('{"format": "proactor-bench-99"}')
    assert "proactor-bench-99" in bench(place, "show", "other", status=2).stderr
    assert "no report" in bench(place, "show", "csv", status=2).stderr
    assert "missing" in bench(place, "show", "missing", status=2).stderr


def scaled(report: dict[str, Any], factor: float) -> str:
    changed = json.loads(json.dumps(report))
    for cell in changed["cells"]:
        for number, found in enumerate(cell["rounds"]):
            # Rounds a little apart, so that no two are the same.
            found["all"]["iops"] = factor * (1000 + number)
    return json.dumps(changed)


def test_compare(place: Path, report: dict[str, Any]) -> None:
    (place / "before").write_text(scaled(report, 1))
    (place / "slower").write_text(scaled(report, 0.5))
    same = bench(place, "compare", "before", "before", "--fail-if-worse").stdout
    assert same.count("no difference shown") == 3
    worse = bench(place, "compare", "before", "slower", "--fail-if-worse", status=1).stdout
    assert worse.count("-50.0 %), p = 0.029: WORSE") == 3
    better = json.loads(bench(place, "compare", "slower", "before", "--json").stdout)
    assert {pair["change"] for pair in better["pairs"]} == {"better"}
    assert {pair["ratio"] for pair in better["pairs"]} == {2}
    (place / "another").write_text(json.dumps({**report, "seed": 2}))
    assert "seed: 1; then 2\n" in bench(place, "compare", "json", "another").stdout


def test_compare_with_few_rounds(place: Path, report: dict[str, Any]) -> None:
    few = json.loads(scaled(report, 0.1))
    for cell in few["cells"]:
        del cell["rounds"][3:]
    del few["cells"][2]
    (place / "before").write_text(scaled(report, 1))
    (place / "few").write_text(json.dumps(few))
    said = bench(place, "compare", "before", "few", "--fail-if-worse").stdout
    assert said.count("too few rounds") == 2
    assert said.count("only in the first") == 1


def test_one_form_that_cannot_be_written_loses_no_other(place: Path) -> None:
    said = bench(place, "show", "json", "--csv=/dev/full", "--html", "again", status=1)
    assert "/dev/full: No space left" in said.stderr
    assert "randread 4k of 1m, buffered" in said.stdout
    assert (place / "again").read_text() == (place / "html").read_text()


def test_without_a_stderr(tmp_path: Path) -> None:
    work = ("io", *SMALL, "--engine", "sync", "--progress", "always", "--json")
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            command(*work),
            cwd=tmp_path,
            stdout=subprocess.PIPE,
            stderr=full,
            timeout=TIMEOUT_S,
            check=False,
        )
    assert done.returncode == 0
    assert json.loads(done.stdout)["cells"][0]["rounds"]
