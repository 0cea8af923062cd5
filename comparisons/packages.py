"""The packages that are compared, as far as they are installed."""

from __future__ import annotations

import sys
from collections.abc import Iterable

import lib
from proactor._bench.packages import (
    COMPARED,
    MODULES,
    RIVALS,
    Opener,
    import_for,
    module,
    opener,
    package_of,
)

__all__ = [
    "COMPARED",
    "MODULES",
    "RIVALS",
    "Opener",
    "import_for",
    "installed",
    "module",
    "opener",
    "package_of",
]


def installed(rows: Iterable[str]) -> list[str]:
    """Without those whose package is missing, which is said; the result's environment has it too."""
    rows = list(rows)
    missing = {rival for rival in RIVALS if not lib.is_installed(rival)} & set(map(package_of, rows))
    for rival in sorted(missing):
        print(
            f"{rival} is missing, and left out: pip install -r requirements/comparisons.txt", file=sys.stderr
        )
    return [row for row in rows if package_of(row) not in missing]
