"""Reading on from an offset: what was read and is not used up yet, as bytes or decoded."""

from __future__ import annotations

import codecs
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, Generic, TypeVar

if TYPE_CHECKING:
    from proactor.compat.aiofile.aio import AIOFile

Data = TypeVar("Data", str, bytes)


class Ahead(ABC, Generic[Data]):
    """`data[used:]` comes next. One caller at a time may wait for more; what is there may be taken by any."""

    empty: Data

    def __init__(self, file: AIOFile, offset: int) -> None:
        self.file = file
        # Where in the file the next read begins.
        self.end = offset
        self.data: Data = self.empty
        self.used = 0

    @abstractmethod
    def _decode(self, block: bytes) -> Data:
        """What comes behind `data`. An empty block is the end of the file."""

    @abstractmethod
    def _bytes_left(self) -> int:
        """How many bytes before `end` what is left takes."""

    def tell(self) -> int:
        """Where in the file what comes next is."""
        return self.end - self._bytes_left()

    def left(self) -> int:
        """How much is there."""
        return len(self.data) - self.used

    async def more(self, size: int) -> bool:
        """Reads up to `size` bytes. False at the end of the file."""
        block = await self.file.read_bytes(size, self.end)
        decoded = self._decode(block)
        # No error and no await from here on: a failed or cancelled call has changed nothing.
        self.data, self.used = self.data[self.used :] + decoded, 0
        self.end += len(block)
        return bool(block)

    async def rest(self) -> Data:
        """Takes all that is left of the file."""
        while await self.more(-1):
            pass
        return self.take(self.left())

    def take(self, count: int) -> Data:
        """Uses up to `count` of it."""
        taken = self.data[self.used : self.used + count]
        self.used += len(taken)
        return taken

    def line_at_hand(self, end: Data) -> Data:
        """The next line if all of it is there; else empty."""
        at = self.data.find(end, self.used)
        return self.empty if at < 0 else self.take(at + len(end) - self.used)

    def lines_at_hand(self, end: Data) -> list[Data]:
        """Takes all lines of which all is there."""
        lines = self.data[self.used :].split(end)
        self.used = len(self.data) - len(lines.pop())
        return [line + end for line in lines]

    async def line(self, end: Data, block: int, limit: int = -1) -> Data:
        """Takes a line with its end, or `limit` of it. Reads at least `block` bytes at a time."""
        searched = 0
        while True:
            at = self.data.find(end, self.used + searched)
            if at >= 0:
                length = at + len(end) - self.used
                break
            length = self.left()
            if 0 <= limit <= length:
                break
            searched = max(length - len(end) + 1, 0)
            # As much as there is already: a line of any length is copied twice at most.
            if not await self.more(max(block, length)):
                break
        return self.take(length if limit < 0 else min(limit, length))


class BytesAhead(Ahead[bytes]):
    """As bytes."""

    empty = b""

    def _decode(self, block: bytes) -> bytes:
        return block

    def _bytes_left(self) -> int:
        return self.left()


class TextAhead(Ahead[str]):
    """Decoded."""

    empty = ""

    def __init__(self, file: AIOFile, offset: int) -> None:
        super().__init__(file, offset)
        self._decoder: Any = codecs.getincrementaldecoder(file.encoding)()

    def _decode(self, block: bytes) -> str:
        text: str = self._decoder.decode(block, not block)
        return text

    def _bytes_left(self) -> int:
        begun: bytes = self._decoder.getstate()[0]
        left = self.data[self.used :]
        if not left:
            return len(begun)
        encoder: Any = codecs.getincrementalencoder(self.file.encoding)()
        # It is not the start of a file: no byte order mark.
        encoder.setstate(0)
        return len(begun) + len(encoder.encode(left))
