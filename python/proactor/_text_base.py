"""What a text file is made of, besides reading, writing and positions."""

from __future__ import annotations

import asyncio
import re
from collections import deque
from collections.abc import AsyncIterable, Callable, Iterable
from typing import TYPE_CHECKING, Any

from proactor._native import Users

if TYPE_CHECKING:
    from proactor._native import BinaryFile


# Characters that are cut into lines before the loop has its turn: mostly less than a millisecond's work.
LINES_PIECE = 1 << 15

# Two searches, for each kind of end, would go to the end of the text where there is only one kind.
ANY_END = re.compile("\r\n?|\n")


async def write_lines(file: Any, lines: Iterable[Any] | AsyncIterable[Any]) -> None:
    """`writelines` of every kind of file."""
    if isinstance(lines, AsyncIterable):
        async for line in lines:
            await file.write(line)
    else:
        for line in lines:
            await file.write(line)


def line_end(text: str, newline: str | None, start: int, stop: int | None = None) -> int | None:
    """Behind the next line end at or after `start`, before `stop`; None if there is none yet."""
    if newline is None or newline == "\n":
        at = text.find("\n", start, stop)
        return at + 1 if at >= 0 else None
    if newline == "":
        # The decoder never leaves a lone "\r" at the end unless it is one.
        found = ANY_END.search(text, start, len(text) if stop is None else stop)
        return found.end() if found else None
    at = text.find(newline, start, stop)
    return at + len(newline) if at >= 0 else None


def lines_of(
    text: str, newline: str | None, hint: int, *, final: bool, start: int = 0
) -> tuple[list[str], int]:
    """The lines from `start` on, until one ends behind `hint`, and where. `final`: the file ends there."""
    lines: list[str] = []
    at = start
    while at < len(text) and not 0 < hint < at:
        end = line_end(text, newline, at)
        if end is None and not final:
            break
        lines.append(text[at:end])
        at = len(text) if end is None else end
    return lines, at


async def split(text: str, newline: str | None) -> list[str]:
    """All lines of a long text; the loop has its turns."""
    lines: list[str] = []
    at = 0
    while at < len(text):
        some, at = lines_of(text, newline, at + LINES_PIECE, final=True, start=at)
        lines += some
        await asyncio.sleep(0)
    return lines


class Turn(Users):
    """A lock that is granted in the order of requests, and knows whether it is held or wanted.

    Each release hands it to the next request, so that none overtakes. It keeps no ended loop alive.
    """

    def __new__(cls, check: Callable[[], None] = lambda: None) -> Turn:
        return super().__new__(cls)

    def __init__(self, check: Callable[[], None] = lambda: None) -> None:
        """`check` refuses loops other than the one that will hear of the turn."""
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._check = check

    async def __aenter__(self) -> None:
        self._check()
        self.users += 1
        if not self._taken:
            self._taken = True
            return
        place = asyncio.get_running_loop().create_future()
        self._waiting.append(place)
        try:
            await place
        except BaseException:
            # Whoever was given the turn and is cancelled before using it passes it on.
            if not place.cancel() and not place.cancelled():
                self.leave()
            else:
                self.users -= 1
            raise

    async def __aexit__(self, *exc_info: object) -> None:
        self.leave()

    def leave(self) -> None:
        """The turn goes to the next who still wants it."""
        self.users -= 1
        while self._waiting:
            place = self._waiting.popleft()
            if not place.done():
                place.set_result(None)
                return
        self._taken = False


class Attributes:
    """What a text file says of itself without waiting."""

    _buffer: BinaryFile | None
    _decoder: Any
    _encoding: str
    _errors: str
    _line_buffering: bool
    _write_through: bool

    @property
    def buffer(self) -> BinaryFile:
        """The binary file underneath."""
        if self._buffer is None:
            raise ValueError("underlying buffer has been detached")
        return self._buffer

    @property
    def name(self) -> Any:
        """The file's name as it was given to `open`: a path, or a descriptor."""
        return self.buffer.name

    @property
    def closed(self) -> bool:
        """Whether it is closed."""
        return self.buffer.closed

    @property
    def encoding(self) -> str:
        """The name of the encoding."""
        return self._encoding

    @property
    def errors(self) -> str:
        """The name of the error handler."""
        return self._errors

    @property
    def newlines(self) -> str | tuple[str, ...] | None:
        """The kinds of line ends seen so far, where they are looked for."""
        return getattr(self._decoder, "newlines", None)

    @property
    def line_buffering(self) -> bool:
        """Whether a line end brings what was written to the kernel."""
        return self._line_buffering

    @property
    def write_through(self) -> bool:
        """Whether each write goes to the kernel at once."""
        return self._write_through

    def fileno(self) -> int:
        """The descriptor."""
        return self.buffer.fileno()

    def isatty(self) -> bool:
        """Whether it is a terminal."""
        return self.buffer.isatty()

    def readable(self) -> bool:
        """Whether it can be read."""
        return self.buffer.readable()

    def writable(self) -> bool:
        """Whether it can be written."""
        return self.buffer.writable()

    def seekable(self) -> bool:
        """Whether it has positions."""
        return self.buffer.seekable()
