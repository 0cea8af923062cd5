"""The packages that are compared: which there are, what each imports first, and how it opens a file.

A row is of the package that its name begins with: `aiofiles`, `aiofile, 64 workers`, `proactor.open, read`.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from importlib import import_module, metadata
from typing import Any

# With what each imports when it is first used.
MODULES = {
    "aiofiles": ["aiofiles", "aiofiles.os"],
    "aiofile": ["aiofile"],
    "anyio": ["anyio", "anyio._backends._asyncio"],
    "caio": ["caio"],
    "proactor": ["proactor._open", "proactor._files", "proactor.os"],
}
OPENERS = {"aiofiles": "open", "aiofile": "async_open", "proactor": "open"}
RIVALS = tuple(name for name in MODULES if name != "proactor")
# Whose versions a result gives.
COMPARED = ("proactor", *RIVALS)

Opener = Callable[..., AbstractAsyncContextManager[Any]]


def package_of(row: str) -> str:
    return re.split(r"\W", row, maxsplit=1)[0]


def is_installed(package: str) -> bool:
    try:
        metadata.version(package)
    except metadata.PackageNotFoundError:
        return False
    return True


def missing(package: str) -> str | None:
    """Why it cannot take part, or None."""
    if package in RIVALS and not is_installed(package):
        return f"{package} is not installed"
    return None


def module(name: str) -> Any:
    """Untyped: the packages are as different as their stubs."""
    return import_module(name)


def import_for(row: str) -> None:
    """What the row needs, out of its time."""
    for module in MODULES.get(package_of(row), []):
        import_module(module)


def opener(package: str) -> Opener:
    """Its `open`: what it returns is used with `async with`."""
    if package == "anyio":
        return _open_by_anyio
    found: Opener = getattr(module(package), OPENERS[package])
    return found


@asynccontextmanager
async def _open_by_anyio(*args: Any, **options: Any) -> AsyncIterator[Any]:
    async with await module("anyio").open_file(*args, **options) as file:
        yield file
