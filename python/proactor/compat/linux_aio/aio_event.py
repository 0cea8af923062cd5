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
        """The buffer without the NULs at its end: a copy. Of other memory than bytes and bytearray, and
        of several buffers, the part that was moved; None where there is no buffer.
        """
        if not isinstance(self._block, RWBlock):
            return None
        buffer = self._block.buffer
        if isinstance(buffer, (bytes, bytearray)):
            return buffer.rstrip(b"\0")
        return self._block._valid(max(self._response, 0))
