"""`stdin`, `stdout` and `stderr`: whatever `sys` has under these names at the moment of each call.

A pipe or a terminal is read and written by the engine, on a descriptor of our own for the same open file,
whose modes are never changed: others share them. So nothing that is silent or full holds a thread, and with
it the end of the program. Disk files and objects that have taken a stream's place go through `wrap`.
"""

from __future__ import annotations

import asyncio
import io
import os
import sys
from functools import partial
from typing import Any, AnyStr, NamedTuple
from weakref import WeakKeyDictionary

from proactor import _pool
from proactor._methods import PLAIN, Methods
from proactor._native import BinaryFile, Opening, open_binary
from proactor._open import start_close
from proactor._text import TextFile
from proactor._text_base import Turn
from proactor._wrap import WrappedFile, in_memory, wrap

__all__ = ["StandardStream", "stderr", "stderr_bytes", "stdin", "stdin_bytes", "stdout", "stdout_bytes"]


class Source(NamedTuple):
    """What a stream was when its file was opened. It is opened anew when this has changed."""

    stream: Any
    descriptor: int | None
    encoding: str | None
    errors: str | None


class Channel:
    """One of the three streams on one loop."""

    def __init__(self) -> None:
        self.source: Source | None = None
        self.text: Any = None
        self.bytes: Any = None
        # Of those who write.
        self.turn = Turn()

    async def open(self, stream: Any, mode: str) -> None:
        """Sees to it that the files are those of the stream."""
        descriptor = own_descriptor(stream, mode)
        source = Source(
            stream, descriptor, getattr(stream, "encoding", None), getattr(stream, "errors", None)
        )
        if source == self.source:
            return
        before, self.source = self.source, None
        if descriptor is None:
            self.close()
            self.text, self.bytes = wrap(stream), None
        else:
            if before is None or before.descriptor != descriptor:
                self.close()
                self.bytes = await open_stream(descriptor, mode)
            self.text = TextFile(self.bytes, stream.encoding, stream.errors, None, mode=mode[0])
        self.source = source

    def close(self) -> None:
        """Lets go of the descriptor. Nothing has been left unwritten."""
        file, self.bytes = self.bytes, None
        if isinstance(file, BinaryFile):
            start_close(file)

    def __del__(self) -> None:
        self.close()


def open_stream(descriptor: int, mode: str) -> Opening:
    if mode == "rb":
        return open_binary(descriptor, mode, -1, closefd=False)
    # Through a ring the kernel (6.18) writes to a terminal at once, and waits in the loop's thread when it is
    # stopped.
    engine = "threads" if os.isatty(descriptor) else None
    return open_binary(descriptor, mode, 0, closefd=False, engine=engine)


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

    def __init__(self, name: str, mode: str) -> None:
        self._name = name
        self._mode = mode
        self._writes = name != "stdin"

    def _stream(self) -> Any:
        stream = getattr(sys, self._name)
        if stream is None:
            raise RuntimeError(f"lost sys.{self._name}")
        return stream

    async def _call(self, name: str, *arguments: Any) -> Any:
        stream = self._stream()
        channels = _channels.setdefault(asyncio.get_running_loop(), {})
        channel = channels.setdefault(self._name, Channel())
        if not self._writes:
            await channel.open(stream, "rb")
            return await self._do(channel, stream, name, arguments)
        async with channel.turn:
            await channel.open(stream, "wb")
            if in_memory(stream):
                stream.flush()
            else:
                await _pool.run(stream.flush)
            return await self._do(channel, stream, name, arguments)

    async def _do(self, channel: Channel, stream: Any, name: str, arguments: tuple[Any, ...]) -> Any:
        if name in ("close", "flush"):
            return None
        if self._mode == "text":
            file = channel.text
        else:
            file = channel.bytes = channel.bytes or wrap(stream.buffer)
        if name == "writelines" and not isinstance(file, WrappedFile):
            # In one piece: there is no buffer that would collect them.
            empty: Any = "" if self._mode == "text" else b""
            return await file.write(empty.join(*arguments))
        return await getattr(file, name)(*arguments)

    def __getattr__(self, name: str) -> Any:
        stream = self._stream() if self._mode == "text" else self._stream().buffer
        value = getattr(stream, name)
        if name in PLAIN or not callable(value):
            return value
        return partial(self._call, name)

    def __repr__(self) -> str:
        return f"<proactor.{self._name}{'' if self._mode == 'text' else '_bytes'}>"


stdin: StandardStream[str] = StandardStream("stdin", "text")
stdout: StandardStream[str] = StandardStream("stdout", "text")
stderr: StandardStream[str] = StandardStream("stderr", "text")
stdin_bytes: StandardStream[bytes] = StandardStream("stdin", "bytes")
stdout_bytes: StandardStream[bytes] = StandardStream("stdout", "bytes")
stderr_bytes: StandardStream[bytes] = StandardStream("stderr", "bytes")
