"""The comparisons run, at smoke size, and their arithmetic is right."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import time
from pathlib import Path

import lib
import pytest
from capabilities import require

COMPARISONS = Path(__file__).parent.parent / "comparisons"


def smoke(tmp_path: Path, script: str, *args: str) -> tuple[str, lib.Measured]:
    kept = tmp_path / "result.json"
    command = [sys.executable, str(COMPARISONS / script), "--smoke", "--json", str(kept), *args]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    data: lib.Measured = json.loads(kept.read_text())
    assert data["environment"]["kernel"] in done.stdout
    return done.stdout, data


def test_read_many(tmp_path: Path) -> None:
    # The readers that need no other package: each in turn would take a minute.
    text, data = smoke(
        tmp_path, "read_many.py", "--dir", str(tmp_path), "--only", "proactor", "--case", "4KB"
    )
    assert set(data["cases"]) == {"4KB warm", "4KB cold"}
    for cases in data["cases"].values():
        assert len(cases["timed"]) == 6
        for rounds in cases["timed"].values():
            assert rounds[0]["bytes"] == 200 * 4096
    assert "proactor.read_bytes, gather" in text


@pytest.mark.parametrize("rival", ["aiofiles", "aiofile", "caio"])
def test_read_many_with_a_rival(tmp_path: Path, rival: str) -> None:
    require(rival)
    text, _ = smoke(
        tmp_path, "read_many.py", "--dir", str(tmp_path), "--only", rival, "--case", "4KB", "--state", "warm"
    )
    assert f"| {rival} " in text


def test_perop(tmp_path: Path) -> None:
    text, data = smoke(tmp_path, "perop.py", "--no-rust", "--no-instructions")
    assert "os.preadv" in text
    assert all(case["ns"] or case["unavailable"] for case in data["cases"])


def test_summary() -> None:
    summary = lib.Summary.of([5.0, 1.0, 3.0, 100.0, 4.0])
    assert summary == lib.Summary(median=4.0, lowest=1.0, highest=100.0, mad=1.0, rounds=5)
    assert f"{summary:.0f}" == "4 (1-100, MAD 1)"
    assert f"{lib.Summary.of([2.5]):.1f}" == "2.5"
    assert lib.summarise([{"x": 1.0}, {"x": None}], "x") is None


def test_rounds_measure_each_cell_once_in_changing_order() -> None:
    order: list[str] = []

    def measure(cell: str) -> lib.Measured:
        order.append(cell)
        return {"n": len(order)}

    found = lib.in_rounds(["a", "b", "c", "d"], 3, measure, quiet=True)
    rounds = [order[i : i + 4] for i in (0, 4, 8)]
    assert all(sorted(each) == ["a", "b", "c", "d"] for each in rounds)
    assert len({tuple(each) for each in rounds}) > 1
    assert all(len(measured) == 3 for measured in found.values())


def test_table() -> None:
    assert lib.table(["name", "n"], [["long name", 1], ["x", 1000]]).splitlines() == [
        "| name      |    n |",
        "| --------- | ---: |",
        "| long name |    1 |",
        "| x         | 1000 |",
    ]


def test_a_pause_of_the_loop_is_many_late_ticks() -> None:
    lateness = lib.Lateness(period_s=0.001)

    async def block() -> None:
        with lateness.watch():
            await asyncio.sleep(0.01)
            time.sleep(0.1)  # noqa: ASYNC251 - blocking is the point
            await asyncio.sleep(0.01)

    asyncio.run(block())
    assert lateness.max_s >= 0.098
    # Ticks due during the pause were late by everything from the whole of it to nothing.
    assert sum(late > 0.05 for late in lateness.late_s) >= 48
    assert 0.09 < lateness.p99_s <= lateness.max_s


def test_costs_add_up() -> None:
    costs = lib.Costs(system_calls=False)
    for _ in range(2):
        with costs.counted():
            deadline = time.process_time() + 0.02
            while time.process_time() < deadline:
                pass
    assert costs.wall_s >= 0.04
    assert costs.user_s + costs.system_s >= 0.03
    assert costs.as_dict()["system_calls"] is None
    assert costs.no_system_calls == "not asked for"


def test_cold_and_warm(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(bytes(10_000))
    assert lib.make_cold([path], gently=True) == "fadvise"
    assert lib.make_warm([path]) == "warm"
