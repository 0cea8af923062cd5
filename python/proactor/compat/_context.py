"""The context below those of the compat modules."""

from __future__ import annotations

from typing import Any

from proactor import aio

__all__ = ["context"]

# What an engine holds at most (`aio.Context`); more wait in user space.
_MAX_JOBS = 32_768


def context(jobs: int, **options: Any) -> aio.Context:
    """One that accepts exactly `jobs` ops, however many that are."""
    held = min(jobs, _MAX_JOBS)
    return aio.Context(held, backlog=jobs - held, **options)
