"""Operations by io_uring."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from proactor import aio
from proactor.compat.caio.context import QueueContext as _Base
from proactor.compat.caio.operation import Operation

__all__ = ["SQPOLL_ALLOWED", "Context", "Operation"]


class Context(_Base):
    """A ring."""

    ENGINE: ClassVar[str | None] = "io_uring"


def _sqpoll_allowed() -> bool:
    try:
        aio.Context(1, engine="io_uring", sqpoll=True).close()
    except OSError:
        return False
    return True


if TYPE_CHECKING:
    SQPOLL_ALLOWED: bool
else:

    def __getattr__(name: str) -> bool:
        # Asking costs a kernel thread: only on demand.
        if name != "SQPOLL_ALLOWED":
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        globals()[name] = _sqpoll_allowed()
        return globals()[name]
