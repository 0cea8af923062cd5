"""tools/redis_suite.py tells what fails with us from what fails anyway."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import redis_suite

# Each tree is in a directory named after what its server is.
SUITE = """#!/bin/sh
[ "$1" = --list-tests ] && exec echo unit/one
case $PWD in */{where}/*) fails=1;; *) fails=;; esac
echo '[ready]: 7'
echo '[ok]: First test (3 ms)'
if [ "$fails" ]; then
    printf '[err]: Second test (x) in tests/unit/one.tcl\\nExpected [this]\\n'
else
    printf '[ok]: Second test (x) (12 ms)\\n'
fi
printf '\\n                   The End\\n\\n[err]: told again\\n'
exit ${{fails:-0}}
"""


@pytest.mark.parametrize(
    ("where", "said"),
    [
        ("ring", ["1 tests passed each time, 1 failed", "failed 2 times with us, 0", "with us alone: 1"]),
        ("[rp]*", ["1 tests passed each time, 1 failed", "failed 2 times with us, 2", "with us alone: 0"]),
        ("plain", ["2 tests passed each time, 0 failed", "with us alone: 0"]),
    ],
    ids=["with us", "always", "without us"],
)
def test_who_is_to_blame(tmp_path: Path, where: str, said: list[str]) -> None:
    for directory in ("tests", "utils", "src"):
        (tmp_path / directory).mkdir()
    (tmp_path / "redis.conf").write_text("")
    suite = tmp_path / "runtest"
    suite.write_text(SUITE.format(where=where))
    suite.chmod(0o755)
    command = [sys.executable, redis_suite.__file__, "--source", str(tmp_path), "--runs", "2", "--verbose"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    for part in said:
        assert part in done.stdout, done.stderr
    assert ("Expected [this]" in done.stdout) == (where != "plain")
    # No connection was on a ring.
    assert "; 0 connections" in done.stdout
    assert done.returncode == 1


def test_a_unit_that_cannot_be_run() -> None:
    assert dict(redis_suite.outcomes_of("Can't find a non busy port\n")) == {}


@pytest.mark.parametrize(("times", "allowed", "status"), [(1, 0, 1), (1, 1, 0), (2, 1, 1)])
def test_what_a_smoke_run_allows(times: int, allowed: int, status: int) -> None:
    ours, plain = redis_suite.Results(), redis_suite.Results()
    for run in range(3):
        ours.add("unit/one", {"A test": "it was late" if run < times else None})
        plain.add("unit/one", {"A test": None})
    assert redis_suite.report(ours, plain, 5, allowed=allowed, verbose=False) == status
