"""The packages that are compared: that they are installed, and imported before the time begins.

A row is of the package that its name begins with: `aiofiles`, `aiofile, 64 workers`, `proactor.open, read`.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable
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
RIVALS = tuple(name for name in MODULES if name != "proactor")


def package_of(row: str) -> str:
    return re.split(r"\W", row, maxsplit=1)[0]


def require(rows: Iterable[str]) -> None:
    """Ends the program if a row's package is missing."""
    packages = {package_of(row) for row in rows}
    for rival in RIVALS:
        if rival in packages and not lib.is_installed(rival):
            sys.exit(f"{rival} is missing: pip install -r requirements/comparisons.txt")


def module(name: str) -> Any:
    """Untyped: the packages are as different as their stubs."""
    return import_module(name)


def import_for(row: str) -> None:
    """What the row needs, out of its time."""
    for module in MODULES.get(package_of(row), []):
        import_module(module)
