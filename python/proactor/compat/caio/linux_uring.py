"""Operations by io_uring."""

from __future__ import annotations

from proactor.compat.caio.context import QueueContext as _Base
from proactor.compat.caio.operation import Operation

__all__ = ["Context", "Operation"]


class Context(_Base):
    """A ring."""

    ENGINE = "io_uring"
