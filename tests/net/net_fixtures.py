"""The sides of the tests of streams."""

from __future__ import annotations

import pytest
from net_helpers import SIDES, Side


@pytest.fixture(scope="session")
def resolver_started(libuv_started: None) -> None:
    """libuv looks names up in threads that it starts once and keeps for good: no test's leak."""
    try:
        import uvloop
    except ImportError:
        return
    loop = uvloop.new_event_loop()
    loop.run_until_complete(loop.getaddrinfo("127.0.0.1", 1))
    loop.close()


@pytest.fixture(params=SIDES)
def side(request: pytest.FixtureRequest, resolver_started: None) -> Side:
    """asyncio's streams and ours on each engine, in turn."""
    return Side(request.param)


@pytest.fixture(params=SIDES[1:])
def ours(request: pytest.FixtureRequest, resolver_started: None) -> Side:
    """Our streams on each engine, in turn."""
    return Side(request.param)
