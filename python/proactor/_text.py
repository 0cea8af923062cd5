"""Text files: `io.TextIOWrapper`'s rules over an asynchronous binary file."""

from __future__ import annotations

import asyncio
import codecs
import io
import operator
import sys
from collections.abc import AsyncIterable, Iterable
from typing import TYPE_CHECKING, Any

from proactor._cookie import Chunk
from proactor._encoding import PIECE, QUICK_ENCODINGS, encode_long, in_pieces, is_idle, resolve
from proactor._steps import ended
from proactor._text_base import Turn, line_end, lines_of, split, write_lines
from proactor._text_positions import Positioned

if TYPE_CHECKING:
    from types import TracebackType

    from proactor._native import BinaryFile

# Bytes decoded at a time, as TextIOWrapper does: so errors and `newlines` come at the same moment.
CHUNK_BYTES = 8192


class TextFile(Positioned):
    """What `proactor.open` gives for a text mode: `io.TextIOWrapper`'s methods as coroutines.

    Calls that use the position run one after the other, in the order in which they were awaited. A cancelled
    read consumes nothing. Errors are `BinaryFile`'s, and UnicodeError for what the encoding has not.
    """

    def __new__(cls, buffer: BinaryFile, *args: Any, **kwargs: Any) -> TextFile:
        return super().__new__(cls, buffer, Turn(buffer._check_loop))

    def __init__(
        self,
        buffer: BinaryFile,
        encoding: str,
        errors: str,
        newline: str | None,
        *,
        mode: str,
        line_buffering: bool = False,
        write_through: bool = False,
        buffering: int = -1,
    ) -> None:
        self.mode = mode
        self._buffering = buffering
        self._io_buffer = None
        self._undecoded = None
        self._configure(encoding, errors, newline, line_buffering, write_through)

    def _configure(
        self, encoding: str, errors: str, newline: str | None, line_buffering: bool, write_through: bool
    ) -> None:
        self._encoding, self._errors, self._newline = encoding, errors, newline
        self._write_newline = "\n" if newline is None else newline
        self._end_lines_with(newline)
        self._quick = QUICK_ENCODINGS.get(codecs.lookup(encoding).name)
        self._buffer_lines(line_buffering, write_through)
        self._encoder: codecs.IncrementalEncoder | None = None
        self._decoder: Any = None
        self._ratio = 0.0
        self._forget()

    def _buffer_lines(self, line_buffering: bool, write_through: bool) -> None:
        self._line_buffering, self._write_through = line_buffering, write_through
        plain_writes = self._write_newline in ("", "\n") and not (line_buffering or write_through)
        self._encode_as(self._quick if plain_writes else None)

    async def _begin(self) -> None:
        """A file that is appended to has its byte order mark. In UTF-16 and 32 `io` gives a pipe none."""
        buffer = self._open_buffer()
        if not buffer.writable():
            return
        if buffer.seekable():
            has_mark = await buffer.tell() != 0
        else:
            has_mark = codecs.lookup(self._encoding).name in ("utf-16", "utf-32")
        if has_mark:
            self._make_encoder().setstate(0)

    # Reading

    async def _decode_more(
        self, buffer: BinaryFile, wanted: int = 0, stops: str = "", *, sized: bool = False
    ) -> bool:
        """A chunk behind what is decoded; more until `wanted` characters are unread or one of `stops` came.

        False at the end of the file.
        """
        if self._at_end:
            return False
        hint = wanted - len(self._decoded) + self._used if sized else 0
        if hint <= CHUNK_BYTES:
            while not isinstance(decoded := self._decode_as_is(), bool):
                await decoded
                self._go_on()
            if decoded:
                return True
        self._drop_used()
        # Joined once: a line may be long.
        parts = [self._decoded]
        total = len(self._decoded)
        try:
            while total - self._used < wanted or len(parts) == 1:
                hint = wanted - total + self._used if sized else 0
                text = await self._decode_chunk(buffer, total, hint)
                parts.append(text)
                total += len(text)
                if self._at_end or any(stop in text for stop in stops):
                    break
        finally:
            self._decoded = "".join(parts)
            if self._undecoded is not None:
                self._pass_over(self._undecoded, takes_all=sized)
        return not self._at_end

    async def _decode_chunk(self, buffer: BinaryFile, start: int, hint: int) -> str:
        """The text of the next chunk, behind `start` characters. It has about `hint` characters, or more."""
        decoder = self._make_decoder()
        kept, flags = decoder.getstate()
        place = await buffer.tell() if buffer.seekable() else 0
        size = max(CHUNK_BYTES, min(int(max(self._ratio, 1.0) * hint), PIECE))
        if self._io_buffer is not None:
            begin, end = self._io_buffer
            if begin <= place < end:
                size = min(size, end - place)
            else:
                self._io_buffer = None
        data = await buffer._read_chunk(size)
        # No await from here on: a cancellation finds all or nothing done.
        self._undecoded = place + len(data)
        text: str = decoder.decode(data, not data)
        self._undecoded = None
        self._chunks.append(Chunk(start, place - len(kept), flags, kept + data))
        self._ratio = len(data) / len(text) if text else 0.0
        self._snapshot = self._snapshot or not self._iterating
        # What the decoder had kept comes first.
        self._at_end = not data and not text
        self._ascii_as_is = self._quick is not None and self._io_buffer is None and is_idle(decoder)
        return text

    def _drop_used(self) -> None:
        used = self._used
        while len(self._chunks) > 1 and self._chunks[1].start <= used:
            del self._chunks[0]
        first = self._chunks[0].start if self._chunks else used
        # The chunk that is partly used stays whole, since `tell` decodes it again.
        cut = min(first, used)
        if not cut:
            return
        self._decoded = self._decoded[cut:]
        self._used -= cut
        self._chunks = [chunk._replace(start=chunk.start - cut) for chunk in self._chunks]

    def _take(self, count: int) -> str:
        text = self._decoded[self._used : self._used + count]
        self._used += len(text)
        if self._used == len(self._decoded) and self._chunks and not self._chunks[-1].data:
            # The end was seen; the file may grow.
            self._at_end = False
        return text

    async def read(self, size: int | None = -1, /) -> str:
        """Reads `size` characters, fewer only at the end; all that is left if it is None or negative."""
        size = -1 if size is None else operator.index(size)
        async with self._turn:
            buffer = self._readable()
            self._at_end = False
            if size < 0:
                text: str = await self._read_all(buffer, in_lines=False)
                return text
            while len(self._decoded) - self._used < size:
                if not await self._decode_more(buffer, size, sized=True):
                    break
            return self._take(size)

    async def _read_all(self, buffer: BinaryFile, *, in_lines: bool) -> Any:
        data = await buffer.read()
        decoder = self._make_decoder()
        before = decoder.getstate()
        try:
            if len(data) > PIECE and buffer.seekable():
                return await self._decode_long(buffer, decoder, data, in_lines)
            # Decoded at once, as io does.
            text: str = self._decoded[self._used :] + decoder.decode(data, True)
        except UnicodeError as error:
            failed = error
        else:
            self._has_read_all()
            return lines_of(text, self._newline, 0, final=True)[0] if in_lines else text
        if buffer.seekable():
            await self._fail_to_read_all(buffer, len(data), before, in_lines)
        raise failed

    async def _decode_long(self, buffer: BinaryFile, decoder: Any, data: bytes, in_lines: bool) -> Any:
        """What `_read_all` gives, with turns of the loop. Cancelled, it gives the bytes back by a seek."""
        before = decoder.getstate()
        try:
            text: str = self._decoded[self._used :] + await in_pieces(decoder, decoder.decode, data)
            found = await split(text, self._newline) if in_lines else text
        except UnicodeError:
            raise
        except (Exception, asyncio.CancelledError):
            decoder.setstate(before)
            await ended(asyncio.ensure_future(buffer.seek(-len(data), 1)))
            raise
        self._has_read_all()
        return found

    async def _fail_to_read_all(self, buffer: BinaryFile, count: int, before: Any, in_lines: bool) -> None:
        """The last `count` bytes could not be decoded. `readlines` fails in a chunk, as an iteration does."""
        if in_lines:
            await buffer.seek(-count, 1)
            self._make_decoder().setstate(before)
            await self._some_lines(buffer, sys.maxsize)
        else:
            self._count_from(await buffer.tell())

    def _has_read_all(self) -> None:
        """The position is the binary file's."""
        self._forget()
        self._iterating = self._snapshot = False
        self._io_buffer = None

    async def _read_line(self, buffer: BinaryFile, limit: int) -> str:
        self._at_end = False
        searched = self._used
        wanted = sys.maxsize if limit < 0 else limit
        while True:
            stop = None if limit < 0 else self._used + limit
            end = line_end(self._decoded, self._newline, searched, stop)
            # (Even of no characters `io` reads a chunk, if it has none.)
            wants = limit < 0 or len(self._decoded) - self._used < limit or not self._decoded
            if end is None and wants:
                # What is searched moves when what is used is dropped.
                behind = max(len(self._decoded) - 1 - self._used, 0)
                if await self._decode_more(buffer, wanted, self._stops()):
                    searched = self._used + behind
                    continue
                return self._take_last()
            length = (len(self._decoded) if end is None else end) - self._used
            return self._take(length if limit < 0 else min(length, limit))

    def _take_last(self) -> str:
        """What is left, at the end of the file. The position is the binary file's."""
        text = self._decoded[self._used :]
        self._forget()
        self._iterating = self._snapshot = False
        return text

    def _stops(self) -> str:
        """Characters of which one is in every line end."""
        return "\r\n" if self._newline == "" else (self._newline or "\n")[-1]

    async def _readline(self, size: int, has_turn: bool) -> str:
        if not has_turn:
            await self._turn.__aenter__()
        try:
            return await self._read_line(self._readable(), size)
        finally:
            self._turn.leave()

    async def _next(self, has_turn: bool) -> str:
        line = await self._readline(-1, has_turn)
        if not line:
            raise StopAsyncIteration
        return line

    async def readlines(self, hint: int | None = -1, /) -> list[str]:
        """Reads all lines that are left, or lines until they have more than `hint` characters."""
        hint = -1 if hint is None else operator.index(hint)
        async with self._turn:
            buffer = self._readable()
            self._at_end = False
            if hint <= 0:
                lines: list[str] = await self._read_all(buffer, in_lines=True)
                return lines
            return await self._some_lines(buffer, hint)

    async def _some_lines(self, buffer: BinaryFile, hint: int) -> list[str]:
        """Lines until they have more than `hint` characters. A cancelled call takes none of them."""
        self._iterating = True
        lines: list[str] = []
        # Counted from what is used, which moves when that is dropped.
        total = searched = 0
        more = True
        while total <= hint:
            end = line_end(self._decoded, self._newline, self._used + searched)
            if end is None:
                if not more:
                    break
                searched = max(len(self._decoded) - 1 - self._used, total)
                # About as much as is wanted, then the rest of the last line: each is joined once.
                enough = len(self._decoded) - self._used >= hint
                more = await self._decode_more(
                    buffer, sys.maxsize if enough else hint, self._stops() if enough else ""
                )
                continue
            lines.append(self._decoded[self._used + total : end])
            total = searched = end - self._used
        self._take(total)
        if total <= hint and (last := self._take_last()):
            lines.append(last)
        return lines

    def __aiter__(self) -> TextFile:
        self._readable()
        return self

    # Writing

    async def _write_in_turn(self, text: str) -> int:
        if not isinstance(text, str):
            raise TypeError(f"write() argument must be str, not {type(text).__name__}")
        async with self._turn:
            return await self._write(self._writable(), text)

    async def _write(self, buffer: BinaryFile, text: str) -> int:
        has_end = "\n" in text
        newline = self._write_newline or "\n"
        encoder = self._make_encoder()
        before = encoder.getstate()
        if len(text) <= PIECE:
            data = encoder.encode(text.replace("\n", newline) if has_end and newline != "\n" else text)
        else:
            data = await encode_long(encoder, text, newline)
        call: Any = buffer.write(data)
        try:
            await call
        except BaseException as error:
            if call.begun and not isinstance(error, Exception):
                # It goes on without us.
                self._written()
            else:
                encoder.setstate(before)
            raise
        self._written()
        if self._write_through or (self._line_buffering and (has_end or "\r" in text)):
            await buffer.flush()
        return len(text)

    def _written(self) -> None:
        """What was read ahead is behind what was written now; as in `io`, an iteration keeps it."""
        self._io_buffer = None
        if self._snapshot:
            self._forget()
            self._snapshot = False
        if self._decoder is not None and not self._iterating:
            self._decoder.reset()

    async def writelines(self, lines: Iterable[str] | AsyncIterable[str], /) -> None:
        """Writes strings one after the other, from an iterable of either kind. No line ends are added."""
        await write_lines(self, lines)

    async def flush(self) -> None:
        """Brings what was written to the kernel (not to the device)."""
        async with self._turn:
            await self._flush(self._open_buffer())
            self._iterating = False

    async def fsync(self) -> None:
        """Flushes, and brings data and metadata to the device: fsync(2)."""
        async with self._turn:
            await self._open_buffer().fsync()

    async def fdatasync(self) -> None:
        """Flushes, and brings the data to the device, with the metadata needed to read it: fdatasync(2)."""
        async with self._turn:
            await self._open_buffer().fdatasync()

    async def close(self) -> None:
        """Flushes and closes; does nothing the second time. A cancelled close goes on by itself."""
        if self._buffer is None:
            return
        if not self._turn.users:
            await self._buffer.close()
        else:
            # Behind the calls that were awaited before, whatever becomes of this one.
            await asyncio.shield(asyncio.ensure_future(self._close_in_turn()))

    async def _close_in_turn(self) -> None:
        async with self._turn:
            if self._buffer is not None:
                await self._buffer.close()

    async def detach(self) -> BinaryFile:
        """Flushes and gives the binary file away; this one can be used no more."""
        async with self._turn:
            buffer = self._open_buffer()
            await buffer.flush()
            self._buffer = None
            return buffer

    async def reconfigure(
        self,
        *,
        encoding: str | None = None,
        errors: str | None = None,
        newline: Any = ...,
        line_buffering: bool | None = None,
        write_through: bool | None = None,
    ) -> None:
        """Changes settings. After a read, the encoding and `newline` are fixed."""
        async with self._turn:
            buffer = self._open_buffer()
            changes = encoding is not None or errors is not None or newline is not ...
            if changes and self._has_more():
                raise io.UnsupportedOperation(
                    "It is not possible to set the encoding or newline of stream after the first read"
                )
            line_buffering = self._line_buffering if line_buffering is None else line_buffering
            write_through = self._write_through if write_through is None else write_through
            if not changes:
                await buffer.flush()
                self._buffer_lines(line_buffering, write_through)
                return
            if errors is None:
                errors = self._errors if encoding is None else "strict"
            newline = self._newline if newline is ... else newline
            resolved = resolve(self._encoding if encoding is None else encoding, errors, newline)
            await buffer.flush()
            self._configure(*resolved, newline, line_buffering, write_through)
            await self._begin()

    def _has_more(self) -> bool:
        """Whether reading has begun, and has not come to the end of the file."""
        if not self._chunks:
            return False
        at_end = self._at_end or not self._chunks[-1].data
        return not at_end or self._used < len(self._decoded)

    async def truncate(self, size: int | None = None, /) -> int:
        """Sets the file's length to `size` bytes, by default the binary file's position. Returns it."""
        async with self._turn:
            buffer = self._writable()
            await buffer.flush()
            return await buffer.truncate(size)

    async def __aenter__(self) -> TextFile:
        self._open_buffer()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()

    def __repr__(self) -> str:
        name = f" name={self._buffer.name!r}" if self._buffer is not None else ""
        return f"<proactor.TextFile{name} mode={self.mode!r} encoding={self._encoding!r}>"
