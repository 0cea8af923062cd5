"""`linux_aio`, awaited."""

from __future__ import annotations

from typing import ClassVar

from proactor.compat.caio.abstract import AbstractContext
from proactor.compat.caio.asyncio_base import AsyncioContextBase
from proactor.compat.caio.context import QueueContext
from proactor.compat.caio.linux_aio import Context, Operation

__all__ = ["AsyncioContext"]


class _LoopContext(QueueContext):
    ENGINE = Context.ENGINE


class AsyncioContext(AsyncioContextBase):
    """Operations on the linux_aio engine, awaited."""

    OPERATION_CLASS = Operation
    CONTEXT_CLASS: ClassVar[type[AbstractContext]] = Context
    _LOOP_CONTEXT = _LoopContext
