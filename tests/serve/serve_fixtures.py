"""Fixtures of the tests of `proactor serve`: each runs on each engine."""

from __future__ import annotations

import pytest
from capabilities import require


@pytest.fixture(params=["uring", "epoll"])
def on(request: pytest.FixtureRequest) -> str:
    """The option that names an engine."""
    if request.param == "uring":
        require("io_uring")
    return f"--engine={request.param}"
