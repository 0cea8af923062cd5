"""epoll as a program sees it: the same on plain epoll, on a ring, and where a ring is denied."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest
from capabilities import needs
from run_helpers import DENIED, LIBRARY, RUN_ALONE, compiled


@pytest.fixture(scope="module")
def cases(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compiled("cases", tmp_path_factory.mktemp("cases"))


def output_of(command: list[str], **options: object) -> list[str]:
    done = subprocess.run(command, capture_output=True, timeout=100, check=False, **options)  # type: ignore[call-overload]
    assert done.returncode == 0, (done.returncode, done.stdout[-2000:], done.stderr[-2000:])
    text: str = done.stdout.decode(errors="replace")
    return text.splitlines()


@pytest.fixture(scope="module")
def plain(cases: Path) -> list[str]:
    lines = output_of([str(cases)])
    assert len({line.split(":")[0] for line in lines}) >= 190
    return lines


@needs("io_uring")
def test_on_a_ring(cases: Path, plain: list[str], tmp_path: Path) -> None:
    stats = tmp_path / "stats"
    assert output_of([*RUN_ALONE, "--strict", f"--stats={stats}", "--", str(cases)]) == plain
    counted = [json.loads(line) for line in stats.read_text().splitlines()]
    assert max(line["sockets"] for line in counted) > 700
    assert max(line["returned"] for line in counted) > 0


@needs("io_uring")
@pytest.mark.parametrize("options", [["--pool=1"], ["--per-socket=4096"]], ids=" ".join)
def test_with_little_memory(cases: Path, plain: list[str], options: list[str]) -> None:
    assert output_of([*RUN_ALONE, "--strict", *options, "--", str(cases)]) == plain


@needs("seccomp filter")
def test_where_rings_are_denied(cases: Path, plain: list[str]) -> None:
    environment = {**os.environ, "LD_PRELOAD": str(LIBRARY), "PROACTOR_RUN": ""}
    # The interpreter, which has the library too, is replaced.
    assert output_of([*DENIED, str(cases)], env=environment) == plain


@needs("io_uring")
def test_sets_that_threads_make_at_once_are_on_rings(cases: Path, tmp_path: Path) -> None:
    stats = tmp_path / "stats"
    for _ in range(10):
        output_of([*RUN_ALONE, "--strict", f"--stats={stats}", "--", str(cases), "sets_made_at_once"])
    for line in stats.read_text().splitlines():
        assert json.loads(line)["sockets"] == 160
