"""What the tests of the compat modules share: the package that each follows, and suites that run on both."""

from __future__ import annotations

import importlib
import warnings
from pathlib import Path
from typing import Any, ClassVar

import pytest
from capabilities import require

CONTENT = b"hello world"

# What the original leaves behind is not ours to find.
THEIRS = pytest.param("theirs", marks=pytest.mark.leaks("the original's own descriptors and threads"))


def rival(module: str, capability: str) -> Any:
    """Import the original, where it is installed."""
    require(capability)
    with warnings.catch_warnings():
        # Its source makes the compiler warn, which fails a test where warnings are errors.
        warnings.simplefilter("ignore", SyntaxWarning)
        return importlib.import_module(module)


class WithFile:
    """Tests that have a file."""

    content: ClassVar[bytes] = CONTENT

    @pytest.fixture
    def path(self, tmp_path: Path) -> Path:
        path = tmp_path / "file"
        path.write_bytes(self.content)
        return path


class Parity(WithFile):
    """Tests of what is true of our package and of the original."""

    ours: ClassVar[Any]
    original: ClassVar[str]

    @pytest.fixture(params=["ours", THEIRS])
    def package(self, request: pytest.FixtureRequest) -> Any:
        return self.ours if request.param == "ours" else self.theirs()

    def theirs(self) -> Any:
        return rival(self.original, self.original)
