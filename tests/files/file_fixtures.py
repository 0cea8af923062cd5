"""Files for the tests of whole files."""

from __future__ import annotations

from pathlib import Path

import pytest
from file_helpers import LARGE_BYTES, content


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
