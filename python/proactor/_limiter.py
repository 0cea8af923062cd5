"""A limiter's part in the calls of open files. The other part is native (`limited.rs`)."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from typing import Any


def check(limiter: AbstractAsyncContextManager[Any] | None) -> None:
    """Refuses with a TypeError what cannot be used in `async with`."""
    names = ("__aenter__", "__aexit__")
    if limiter is not None and not all(hasattr(type(limiter), name) for name in names):
        raise TypeError(f"limiter must be an asynchronous context manager, not {type(limiter).__name__}")


async def limited(limiter: AbstractAsyncContextManager[Any], call: Any) -> Any:
    """What the call gives, awaited while the limiter is held."""
    try:
        async with limiter:
            return await call
    finally:
        # Given up before it was begun, it has the turn of its file.
        call.close()
