"""A shared object that refuses memory."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest


@pytest.fixture(scope="module")
def shim(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("shim") / "refuse_memory.so"
    source = Path(__file__).with_name("refuse_memory.c")
    subprocess.run(["cc", "-O1", "-shared", "-fPIC", "-o", str(made), str(source)], check=True, timeout=60)
    return made
