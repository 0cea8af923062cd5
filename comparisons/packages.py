"""The packages that are compared: installed, imported before the time begins, and how each opens a file.

A row is of the package that its name begins with: `aiofiles`, `aiofile, 64 workers`, `proactor.open, read`.
"""

from __future__ import annotations

import re
import sys
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from importlib import import_module
from typing import Any

import lib

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


def installed(rows: Iterable[str]) -> list[str]:
    """Without those whose package is missing, which is said; the result's environment has it too."""
    rows = list(rows)
    missing = {rival for rival in RIVALS if not lib.is_installed(rival)} & set(map(package_of, rows))
    for rival in sorted(missing):
        print(
            f"{rival} is missing, and left out: pip install -r requirements/comparisons.txt", file=sys.stderr
        )
    return [row for row in rows if package_of(row) not in missing]


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
