"""Operations by a thread pool, with callbacks from a thread."""

from __future__ import annotations

from typing import ClassVar

from proactor.compat.caio.context import ThreadContext as _Base
from proactor.compat.caio.operation import Operation

__all__ = ["Context", "Operation"]


class Context(_Base):
    """A pool."""

    ENGINE: ClassVar[str | None] = "threads"
