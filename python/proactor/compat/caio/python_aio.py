"""The same as `thread_aio`, with the defaults of caio's pure Python variant."""

from __future__ import annotations

from typing import ClassVar

from proactor.compat.caio.context import ThreadContext as _Base
from proactor.compat.caio.operation import Operation

__all__ = ["Context", "Operation"]


class Context(_Base):
    """A pool."""

    ENGINE: ClassVar[str | None] = "threads"

    def __init__(self, max_requests: int = 32, pool_size: int = 8) -> None:
        if max_requests < 1:
            raise ValueError(f"max_requests must be a positive integer, got {max_requests}")
        if pool_size < 1:
            raise ValueError(f"pool_size must be between 1 and {self.MAX_POOL_SIZE}, got {pool_size}")
        super().__init__(max_requests, pool_size)
