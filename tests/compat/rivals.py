"""The package a compat module follows, for tests that run on both: it skips where that is not installed."""

from __future__ import annotations

import importlib
import warnings
from typing import Any

import pytest
from capabilities import require

# What the original leaves behind is not ours to find.
THEIRS = pytest.param("theirs", marks=pytest.mark.leaks("the original's own descriptors and threads"))


def rival(module: str, capability: str) -> Any:
    """Import the original, where it is installed."""
    require(capability)
    with warnings.catch_warnings():
        # Its source makes the compiler warn, which fails a test where warnings are errors.
        warnings.simplefilter("ignore", SyntaxWarning)
        return importlib.import_module(module)
