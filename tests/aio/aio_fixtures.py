"""What the tests of `proactor.aio` share: a context on each engine, and a file."""

from __future__ import annotations

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
