"""`stdin`, `stdout` and `stderr`: whatever `sys` has under these names at the moment of each call.

A pipe or a terminal is read and written by the engine, on a descriptor of our own for the same open file,
whose modes are never changed: others share them. So nothing that is silent or full holds a thread, and with
it the end of the program. Disk files and objects that have taken a stream's place go through `wrap`.
"""

from __future__ import annotations

import asyncio
import io
import sys
from functools import partial
from typing import TYPE_CHECKING, Any, AnyStr
from weakref import WeakKeyDictionary

from proactor import _pool
from proactor._methods import PLAIN, Methods
from proactor._native import BinaryFile, open_binary
from proactor._open import start_close
from proactor._text import TextFile
from proactor._text_base import Turn
from proactor._wrap import WrappedFile, in_memory, wrap

if TYPE_CHECKING:
    from collections.abc import Coroutine

__all__ = ["StandardStream", "stderr", "stderr_bytes", "stdin", "stdin_bytes", "stdout", "stdout_bytes"]


class Channel:
    """One of the three streams on one loop."""

    def __init__(self) -> None:
        # What it was when its files were opened. They are opened anew when this has changed.
        self._stream: Any = None
        self._encoding: str | None = None
        self._errors: str | None = None
        self.text: Any = None
        self.bytes: Any = None
        # Of those who write.
        self.turn = Turn()

    def is_of(self, stream: Any) -> bool:
        """Whether the files are those of the stream."""
        return (
            stream is self._stream
            and not getattr(stream, "closed", False)
            and getattr(stream, "encoding", None) == self._encoding
            and getattr(stream, "errors", None) == self._errors
        )

    async def open(self, stream: Any, mode: str) -> None:
        """Sees to it that the files are those of the stream. It does not suspend."""
        if getattr(stream, "closed", False):
            raise ValueError("I/O operation on closed file.")
        descriptor = own_descriptor(stream, mode)
        if stream is not self._stream:
            self.close()
        if descriptor is None:
            self.text = wrap(stream)
        else:
            # Nothing is held back: what is written keeps its place among what others print.
            buffering = -1 if mode == "rb" else 0
            self.bytes = self.bytes or await open_binary(descriptor, mode, buffering, closefd=False)
            self.text = TextFile(self.bytes, stream.encoding, stream.errors, None, mode=mode[0])
        self._stream = stream
        self._encoding, self._errors = getattr(stream, "encoding", None), getattr(stream, "errors", None)

    def file(self, kind: str) -> Any:
        if kind == "text":
            return self.text
        self.bytes = self.bytes or wrap(self._stream.buffer)
        return self.bytes

    def close(self) -> None:
        """Lets go of the descriptor. Nothing has been left unwritten."""
        file, self.bytes, self._stream = self.bytes, None, None
        if isinstance(file, BinaryFile):
            start_close(file)

    def __del__(self) -> None:
        self.close()


def own_descriptor(stream: Any, mode: str) -> int | None:
    """The descriptor that the engine may work with; None if calls have to go through the stream itself.

    So they do where somebody has put another object in its place, and when writing to a disk file: only the
    stream itself knows what it will write where.
    """
    if not isinstance(stream, io.TextIOWrapper):
        return None
    raw = getattr(stream.buffer, "raw", stream.buffer)
    if not isinstance(raw, io.FileIO) or (mode != "rb" and raw.seekable()):
        return None
    return raw.fileno()


_channels: WeakKeyDictionary[asyncio.AbstractEventLoop, dict[str, Channel]] = WeakKeyDictionary()


class StandardStream(Methods[AnyStr]):
    """One of the process's streams, in text or in bytes. It is `sys`'s object of the moment that is used.

    What is written has reached the kernel when the call returns, unless it goes to a disk file; `print` and
    these calls keep their order. Calls that write run one after the other, in the order in which they were
    awaited. A cancelled read consumes nothing. `close` only flushes: the streams are the process's.
    """

    def __init__(self, name: str, kind: str) -> None:
        self._name = name
        self._kind = kind

    def _stream(self) -> Any:
        stream = getattr(sys, self._name)
        if stream is None:
            raise RuntimeError(f"lost sys.{self._name}")
        return stream

    def _channel(self) -> Channel:
        loop = asyncio.get_running_loop()
        channels = _channels.get(loop)
        if channels is None:
            channels = _channels[loop] = {name: Channel() for name in ("stdin", "stdout", "stderr")}
        return channels[self._name]

    def _call(self, name: str, *arguments: Any) -> Coroutine[Any, Any, Any]:
        if self._name != "stdin":
            return self._write(name, arguments)
        try:
            channel = self._channel()
        except RuntimeError:
            # The loop that will run it has not begun.
            return self._read(name, arguments)
        if name not in ("close", "flush") and channel.is_of(self._stream()):
            # Nothing in between: this is how lines are read.
            call: Coroutine[Any, Any, Any] = getattr(channel.file(self._kind), name)(*arguments)
            return call
        return self._read(name, arguments)

    async def _read(self, name: str, arguments: tuple[Any, ...]) -> Any:
        stream, channel = self._stream(), self._channel()
        if not channel.is_of(stream):
            await channel.open(stream, "rb")
        if name in ("close", "flush"):
            return None
        return await getattr(channel.file(self._kind), name)(*arguments)

    async def _write(self, name: str, arguments: tuple[Any, ...]) -> Any:
        stream, channel = self._stream(), self._channel()
        async with channel.turn:
            if not channel.is_of(stream):
                await channel.open(stream, "wb")
            if in_memory(stream):
                stream.flush()
            else:
                await _pool.run(stream.flush)
            if name in ("close", "flush"):
                return None
            file = channel.file(self._kind)
            if name == "writelines" and not isinstance(file, WrappedFile):
                # In one piece: there is no buffer that would collect them.
                empty: Any = "" if self._kind == "text" else b""
                return await file.write(empty.join(*arguments))
            return await getattr(file, name)(*arguments)

    def __getattr__(self, name: str) -> Any:
        stream = self._stream() if self._kind == "text" else self._stream().buffer
        value = getattr(stream, name)
        if name in PLAIN or not callable(value):
            return value
        return partial(self._call, name)

    def __repr__(self) -> str:
        return f"<proactor.{self._name}{'' if self._kind == 'text' else '_bytes'}>"


stdin: StandardStream[str] = StandardStream("stdin", "text")
stdout: StandardStream[str] = StandardStream("stdout", "text")
stderr: StandardStream[str] = StandardStream("stderr", "text")
stdin_bytes: StandardStream[bytes] = StandardStream("stdin", "bytes")
stdout_bytes: StandardStream[bytes] = StandardStream("stdout", "bytes")
stderr_bytes: StandardStream[bytes] = StandardStream("stderr", "bytes")
