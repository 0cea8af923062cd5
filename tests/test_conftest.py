"""The rules that conftest.py enforces, tried on small suites in a process of their own."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from conftest import LoopFactory, Run

HERE = Path(__file__).parent


def run_suite(directory: Path, source: str, *, ci: bool) -> subprocess.CompletedProcess[str]:
    (directory / "test_it.py").write_text(source)
    for name in ("conftest.py", "capabilities.py"):
        (directory / name).write_text((HERE / name).read_text())
    config = HERE.parent / "pyproject.toml"
    # Hypothesis takes longer to begin than all else together.
    without = ["-p", "no:cacheprovider", "-p", "no:hypothesispytest"]
    options = ["-c", str(config), "--rootdir", str(directory), *without]
    return subprocess.run(
        [sys.executable, "-m", "pytest", *options, str(directory)],
        env={**os.environ, "PROACTOR_CI": "1" if ci else "0"},
        capture_output=True,
        text=True,
        check=False,
    )


BARE_SKIP = "import pytest\ndef test_it(): pytest.skip('not today')"
BARE_MODULE_SKIP = "import pytest\npytest.importorskip('no_such_module')"
SKIP = """
from capabilities import CAPABILITIES, Capability, skip_text
import pytest
CAPABILITIES["water"] = Capability(lambda: {now!r}, installed_by_us={ours})
def test_it(): pytest.skip(skip_text("water", "dry"))
"""


@pytest.mark.parametrize(
    ("source", "wrong"),
    [
        pytest.param(BARE_SKIP, "not made with needs", id="bare"),
        pytest.param(BARE_MODULE_SKIP, "not made with needs", id="bare module"),
        pytest.param(SKIP.format(now=None, ours=False), "water is available here", id="possible"),
        pytest.param(SKIP.format(now="dry", ours=True), "water is installed by", id="ours"),
    ],
)
def test_ci_fails_on_a_wrong_skip(tmp_path: Path, source: str, wrong: str) -> None:
    done = run_suite(tmp_path, source, ci=True)
    assert "1 skipped" in done.stdout
    assert wrong in done.stdout
    assert done.returncode == pytest.ExitCode.TESTS_FAILED


def test_ci_lets_a_rightful_skip_pass(tmp_path: Path) -> None:
    done = run_suite(tmp_path, SKIP.format(now="dry", ours=False), ci=True)
    assert done.returncode == 0
    assert "test_it.py::test_it: needs water: dry" in done.stdout


def test_outside_ci_a_skip_is_only_told(tmp_path: Path) -> None:
    done = run_suite(tmp_path, BARE_SKIP, ci=False)
    assert done.returncode == 0
    assert "test_it.py::test_it: not today" in done.stdout


def test_missing_need_skips_with_the_reason(tmp_path: Path) -> None:
    source = """
from capabilities import CAPABILITIES, Capability, needs
CAPABILITIES["water"] = Capability(lambda: "the well is dry")
@needs("water")
def test_it(): raise AssertionError("must not run")
"""
    done = run_suite(tmp_path, source, ci=True)
    assert done.returncode == 0
    assert "test_it.py::test_it: needs water: the well is dry" in done.stdout


OPEN_FILE = "os.open('/dev/null', os.O_RDONLY)"
START_THREAD = "threading.Thread(target=time.sleep, args=(60,), daemon=True).start()"


@pytest.mark.parametrize(
    ("leak", "message"),
    [
        pytest.param(OPEN_FILE, "left behind: descriptors {", id="descriptor"),
        pytest.param(START_THREAD, "left behind: descriptors {}, threads {", id="thread"),
    ],
)
def test_a_leak_fails_its_test(tmp_path: Path, leak: str, message: str) -> None:
    source = f"import conftest, os, threading, time\nconftest.LEAK_GRACE_S = 0.1\ndef test_it(): {leak}"
    done = run_suite(tmp_path, source, ci=False)
    assert done.returncode == pytest.ExitCode.TESTS_FAILED
    assert message in done.stdout


CIRCLE = """
class Complains:
    def __del__(self): raise RuntimeError("left in a circle")
def test_it():
    it = Complains()
    it.itself = it
def test_another(): pass
"""


def test_what_is_left_in_a_circle_fails_its_module(tmp_path: Path) -> None:
    done = run_suite(tmp_path, CIRCLE, ci=False)
    assert done.returncode == pytest.ExitCode.TESTS_FAILED
    assert "left in a circle" in done.stdout


def test_run_uses_the_loop_and_cleans_up(run: Run, event_loop_factory: LoopFactory) -> None:
    async def with_executor() -> tuple[str, asyncio.Task[None], int]:
        loop = asyncio.get_running_loop()
        forgotten = asyncio.create_task(asyncio.sleep(3600))
        return type(loop).__module__, forgotten, await loop.run_in_executor(None, threading.get_ident)

    module, forgotten, thread = run(with_executor())
    probe = event_loop_factory()
    probe.close()
    assert module == type(probe).__module__
    assert forgotten.cancelled()
    assert thread != threading.get_ident()
