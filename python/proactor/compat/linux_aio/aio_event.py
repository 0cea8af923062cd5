"""What a block has come to."""

from __future__ import annotations

from typing import Any

from proactor.compat.linux_aio.block import AIOBlock, RWBlock

__all__ = ["AIOEvent"]


class AIOEvent:
    """`response` is what the system call would have returned, -errno for a failure; `response2` is 0."""

    __slots__ = ("_block", "_response")

    def __init__(self, block: AIOBlock, response: int) -> None:
        self._block = block
        self._response = response

    @property
    def aio_block(self) -> AIOBlock:
        """The block submitted."""
        return self._block

    @property
    def buffer(self) -> Any:
        """The block's buffer, or its buffers as a tuple; None where it has none."""
        return self._block.buffer if isinstance(self._block, RWBlock) else None

    @property
    def response(self) -> int:
        """Bytes moved, events ready, or 0; -errno for a failure."""
        return self._response

    @property
    def response2(self) -> int:
        """The kernel's second result, which no file system uses."""
        return 0

    def stripped_buffer(self) -> Any:
        """The part of the buffer that was moved: a copy, joined for vectors; None for the rest."""
        return self._block._valid(max(self._response, 0)) if isinstance(self._block, RWBlock) else None
