"""What the tests of `proactor.aio` share: contexts, files and pipes, on each engine."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from aio_helpers import CONTENT
from proactor import aio


@pytest.fixture
def context(engine: str) -> Iterator[aio.Context]:
    with aio.Context(64, engine=engine) as context:
        yield context


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "file"
    path.write_bytes(CONTENT)
    return path


@pytest.fixture
def fd(path: Path) -> Iterator[int]:
    fd = os.open(path, os.O_RDWR)
    yield fd
    os.close(fd)


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    ends = os.pipe()
    yield ends
    for end in ends:
        os.close(end)
