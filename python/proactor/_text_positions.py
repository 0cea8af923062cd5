"""Positions in a text file, and the state that they are made of."""

from __future__ import annotations

import codecs
import errno
import io
import operator
import os
from typing import TYPE_CHECKING, Any

from proactor._cookie import Chunk, Cookie, cookie_of
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

    def _forget(self) -> None:
        """What was decoded is not what comes next any more."""
        self._decoded = ""
        self._used = 0
        self._chunks = []
        self._ascii_as_is = False
        self._at_end = False

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
        await buffer.flush()
        chunk = next((c for c in reversed(self._chunks) if c.start <= self._used), None)
        if chunk is None or self._decoder is None:
            return await buffer.tell()
        return cookie_of(self._decoder, chunk, self._used - chunk.start, self._quick is not None)

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
                place = await buffer.seek(0, 2)
                self._forget()
                if self._decoder is not None:
                    self._decoder.reset()
                self._reset_encoder(place)
                return place
            elif whence != 0:
                raise ValueError(f"invalid whence ({whence}, should be 0, 1 or 2)")
            if not isinstance(cookie, int):
                raise TypeError(f"{type(cookie).__name__!r} object cannot be interpreted as an integer")
            cookie = int(cookie)
            if cookie < 0:
                raise ValueError(f"negative seek position {cookie}")
            await buffer.flush()
            await self._go_to(buffer, Cookie.unpack(cookie))
            self._reset_encoder(cookie)
            return cookie

    async def _go_to(self, buffer: BinaryFile, cookie: Cookie) -> None:
        if cookie.place >= 1 << 63:
            raise OSError(errno.EINVAL, os.strerror(errno.EINVAL), self.name)
        await buffer.seek(cookie.place)
        self._forget()
        data = await buffer.read(cookie.feed) if cookie.feed else b""
        if cookie == Cookie(0):
            if self._decoder is not None:
                # Its first state need not be zero: UTF-16 looks for a byte order mark.
                self._decoder.reset()
            return
        if not buffer.readable():
            return
        # No flags, too, are a state: a new UTF-16 decoder would look for a byte order mark.
        decoder = self._make_decoder()
        decoder.setstate((b"", cookie.flags))
        if not cookie.skip:
            # `tell` is to say the same state.
            self._chunks = [Chunk(0, cookie.place, cookie.flags, b"")] if cookie.flags else []
            return
        self._decoded = decoder.decode(data, cookie.at_end)
        self._chunks = [Chunk(0, cookie.place, cookie.flags, data)]
        if len(self._decoded) < cookie.skip:
            raise OSError("can't restore logical file position")
        self._used = cookie.skip

    def _reset_encoder(self, place: int) -> None:
        if self._open_buffer().writable():
            # A new one, too, would begin with a byte order mark.
            encoder = self._make_encoder()
            if place != 0:
                encoder.setstate(0)
            else:
                encoder.reset()
