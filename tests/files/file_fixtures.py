"""Files for the tests of whole files."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from file_helpers import COLD_BYTES, LARGE_BYTES, content


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "file"
    path.write_bytes(content(10_000))
    return path


@pytest.fixture
def large(tmp_path: Path) -> Path:
    path = tmp_path / "large"
    path.write_bytes(content(LARGE_BYTES))
    return path


@pytest.fixture
def cold(tmp_path: Path) -> Path:
    """Of which little is cached, and often nothing."""
    path = tmp_path / "cold"
    with path.open("wb") as file:
        file.write(content(COLD_BYTES))
        file.flush()
        os.fsync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    return path
