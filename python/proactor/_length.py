"""The lengths of iterables."""

from __future__ import annotations

from collections.abc import Iterable, Sized


def length_of(items: Iterable[object]) -> int | None:
    """How many items there are, or None for an iterable that does not know it."""
    return len(items) if isinstance(items, Sized) else None
