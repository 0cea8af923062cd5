"""Operations by Linux AIO; what would block there goes to threads."""

from __future__ import annotations

from typing import ClassVar

from proactor.compat.caio.context import QueueContext as _Base
from proactor.compat.caio.operation import Operation

__all__ = ["Context", "Operation"]


class Context(_Base):
    """A kernel AIO context."""

    ENGINE: ClassVar[str | None] = "linux_aio"
