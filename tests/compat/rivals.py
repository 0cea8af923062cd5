"""The package a compat module follows, for tests that run on both: it skips where that is not installed."""

from __future__ import annotations

import importlib
from typing import Any

import pytest

# What the original leaves behind is not ours to find.
THEIRS = pytest.param("theirs", marks=pytest.mark.leaks("the original's own descriptors and threads"))


def rival(module: str, capability: str) -> Any:
    """Import the original. The text of the skip is the one that tests/capabilities.py knows."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        pytest.skip(f"needs {capability}: {error}")
