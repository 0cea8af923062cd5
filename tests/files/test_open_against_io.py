"""The fuzzer of `proactor.open` against the built-in `open`, in fuzz: it runs, and it finds things."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

FUZZER = Path(__file__).parents[2] / "fuzz" / "open_against_io.py"


def fuzz(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, FUZZER, *arguments], capture_output=True, text=True, timeout=100, check=False
    )


def test_a_few_cases_of_fixed_seeds() -> None:
    for seed in ("1", "2", "3"):
        done = fuzz("--seconds", "0.5", "--seed", seed)
        assert done.returncode == 0, done.stdout + done.stderr
        assert "cases are equal" in done.stdout


def test_a_difference_is_shrunk_and_has_a_seed() -> None:
    code = f"""
import runpy, sys
import proactor
from proactor._text import TextFile
original = TextFile._written
TextFile._written = lambda self: None if self._snapshot else original(self)
sys.path.insert(0, {str(FUZZER.parent)!r})
sys.argv = ["open_against_io.py", "--seconds", "60", "--seed", "7"]
runpy.run_path({str(FUZZER)!r}, run_name="__main__")
"""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=100, check=False
    )
    assert done.returncode == 1, done.stdout + done.stderr
    shrunk, again = done.stdout.splitlines()[2], done.stdout.splitlines()[-1]
    assert shrunk.startswith("shrunk: ")
    assert "--seed 7 --case " in again
