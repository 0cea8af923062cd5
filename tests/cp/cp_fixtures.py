"""Fixtures of the tests of `proactor cp`: run ours, or run both and compare."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from capabilities import require
from cp_helpers import Ours, Runner, Same


@pytest.fixture(scope="session")
def runner(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Runner]:
    runner = Runner(tmp_path_factory.mktemp("zygote"))
    yield runner
    runner.close()


@pytest.fixture
def cp(runner: Runner, tmp_path: Path) -> Ours:
    return Ours(runner, tmp_path)


@pytest.fixture(scope="session")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One for all: pytest's own takes 5 ms to make."""
    return tmp_path_factory.mktemp("same")


@pytest.fixture
def same(runner: Runner, place: Path) -> Same:
    require("GNU cp")
    return Same(runner, place)
