"""Positions in a text file, and the state that they are made of."""

from __future__ import annotations

import codecs
import errno
import io
import operator
import os
from typing import TYPE_CHECKING, Any

from proactor._cookie import Chunk, Cookie, after_read, place_of
from proactor._native import TextCore
from proactor._text_base import Attributes

if TYPE_CHECKING:
    from proactor._native import BinaryFile


class Positioned(Attributes, TextCore):
    """What a text file has decoded, and from what bytes: `tell` and `seek`."""

    _newline: str | None
    _encoder: codecs.IncrementalEncoder | None
    _quick: str | None
    _at_end: bool
    # As it was given to `open`.
    _buffering: int
    # The part of the file that the buffer of `io` would have. It ends a chunk, on which positions depend.
    _io_buffer: tuple[int, int] | None
    # Behind the bytes that are being decoded.
    _undecoded: int | None

    def _forget(self) -> None:
        """What was decoded is not what comes next any more."""
        self._decoded = ""
        self._used = 0
        self._chunks = []
        self._ascii_as_is = False
        self._at_end = False

    def _pass_over(self, place: int, *, takes_all: bool) -> None:
        """Reading goes on at `place`, behind what could not be decoded. As in `io`, what was decoded before
        is used up, or forgotten.
        """
        self._undecoded = None
        if takes_all:
            self._used = len(self._decoded)
        else:
            self._decoded = ""
            self._used = 0
            # `reconfigure` finds nothing decoded.
            self._at_end = True
            self._chunks = [chunk._replace(start=0) for chunk in self._chunks[-1:]]
        self._count_from(place)

    def _count_from(self, place: int) -> None:
        """The last chunk counts as what is before `place`: `io` has no other positions then."""
        self._chunks = [chunk._replace(place=place - len(chunk.data)) for chunk in self._chunks[-1:]]

    def _open_buffer(self) -> BinaryFile:
        if self._buffer is None:
            raise ValueError("underlying buffer has been detached")
        if self._buffer.closed:
            raise ValueError("I/O operation on closed file.")
        return self._buffer

    def _readable(self) -> BinaryFile:
        buffer = self._open_buffer()
        if not buffer.readable():
            raise io.UnsupportedOperation("not readable")
        return buffer

    def _writable(self) -> BinaryFile:
        buffer = self._open_buffer()
        if not buffer.writable():
            raise io.UnsupportedOperation("not writable")
        return buffer

    def _make_encoder(self) -> codecs.IncrementalEncoder:
        if self._encoder is None:
            self._encoder = codecs.getincrementalencoder(self._encoding)(self._errors)
        return self._encoder

    def _make_decoder(self) -> Any:
        if self._decoder is None:
            decoder: Any = codecs.getincrementaldecoder(self._encoding)(self._errors)
            if self._newline in (None, ""):
                decoder = io.IncrementalNewlineDecoder(decoder, self._newline is None)
            self._decoder = decoder
        return self._decoder

    async def tell(self) -> int:
        """The position, as a number for `seek` and nothing else."""
        async with self._turn:
            return await self._tell(self._seekable())

    def _seekable(self) -> BinaryFile:
        buffer = self._open_buffer()
        if not buffer.seekable():
            raise io.UnsupportedOperation("underlying stream is not seekable")
        return buffer

    async def _tell(self, buffer: BinaryFile) -> int:
        await self._flush(buffer)
        chunk = next((c for c in reversed(self._chunks) if c.start <= self._used), None)
        if chunk is None or self._decoder is None:
            return await buffer.tell()
        skip = self._used - chunk.start
        return place_of(self._decoder, chunk, skip, self._ratio, self._quick is not None).pack()

    async def _flush(self, buffer: BinaryFile) -> None:
        await buffer.flush()
        if buffer.writable():
            self._io_buffer = None

    async def seek(self, cookie: int, whence: int = 0, /) -> int:
        """Goes to where `tell` was, to the end (0, 2), or nowhere (0, 1). Returns where it is then."""
        whence = operator.index(whence)
        async with self._turn:
            buffer = self._seekable()
            if whence == 1:
                if cookie != 0:
                    raise io.UnsupportedOperation("can't do nonzero cur-relative seeks")
                cookie = await self._tell(buffer)
            elif whence == 2:
                if cookie != 0:
                    raise io.UnsupportedOperation("can't do nonzero end-relative seeks")
                end = await buffer.seek(0, 2)
                self._forget()
                self._iterating = self._snapshot = False
                self._io_buffer = None
                if self._decoder is not None:
                    self._decoder.reset()
                self._reset_encoder(end == 0)
                return end
            elif whence != 0:
                raise ValueError(f"invalid whence ({whence}, should be 0, 1 or 2)")
            if not isinstance(cookie, int):
                raise TypeError(f"{type(cookie).__name__!r} object cannot be interpreted as an integer")
            cookie = int(cookie)
            if cookie < 0:
                raise ValueError(f"negative seek position {cookie}")
            await self._flush(buffer)
            place = Cookie.unpack(cookie)
            await self._go_to(buffer, place)
            self._reset_encoder(place.is_start())
            return cookie

    async def _go_to(self, buffer: BinaryFile, cookie: Cookie) -> None:
        if cookie.place >= 1 << 63:
            raise OSError(errno.EINVAL, os.strerror(errno.EINVAL), self.name)
        await buffer.seek(cookie.place)
        self._forget()
        self._iterating = False
        # A write forgets what is decoded from here.
        self._snapshot = True
        if not buffer.readable():
            return
        decoder = self._make_decoder()
        cookie.restore(decoder)
        if not cookie.skip:
            self._chunks = [Chunk(0, cookie.place, cookie.flags, b"")]
            return
        data = await buffer.read(cookie.feed)
        self._io_buffer = after_read(self._io_buffer, cookie.place, cookie.feed, self._io_block())
        self._decoded = decoder.decode(data, cookie.at_end)
        self._chunks = [Chunk(0, cookie.place, cookie.flags, data)]
        if len(self._decoded) < cookie.skip:
            raise OSError("can't restore logical file position")
        self._used = cookie.skip

    def _io_block(self) -> int:
        """The size of the buffer that `io` would have."""
        if self._buffering > 1:
            return self._buffering
        return os.fstat(self.fileno()).st_blksize

    def _reset_encoder(self, at_start: bool) -> None:
        if self._open_buffer().writable():
            # A new one, too, would begin with a byte order mark.
            encoder = self._make_encoder()
            if at_start:
                encoder.reset()
            else:
                encoder.setstate(0)
