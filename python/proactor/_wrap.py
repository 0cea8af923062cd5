"""`wrap`: any synchronous file object, its methods as coroutines."""

from __future__ import annotations

import asyncio
import io
from functools import partial
from typing import IO, TYPE_CHECKING, Any, AnyStr, overload
from weakref import ref

from proactor import _pool
from proactor._methods import PLAIN, Methods
from proactor._text_base import Turn

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["WrappedFile", "wrap"]


class WrappedFile(Methods[AnyStr]):
    """What `wrap` gives.

    What the object's methods do not take from memory, threads do, one call at a time, in the order in which
    they were awaited. A call that is cancelled while it waits for its turn is never made. Later it runs to
    its end, unheard, and the next waits for that.
    """

    def __init__(self, file: IO[AnyStr]) -> None:
        self._file: Any = file
        self._direct = in_memory(file)
        self._turn = Turn()
        self._loop: Callable[[], object] = lambda: None

    async def _call(self, name: str, *arguments: Any) -> Any:
        method = getattr(self._file, name)
        if self._direct:
            return method(*arguments)
        turn = self._turn_here()
        await turn.__aenter__()
        try:
            done = asyncio.ensure_future(_pool.run(method, *arguments))
        except BaseException:
            turn.leave()
            raise
        done.add_done_callback(lambda _: turn.leave())
        return await _pool.shielded(done)

    def _turn_here(self) -> Turn:
        # A loop that ended during a call has not given back the turn.
        loop = asyncio.get_running_loop()
        if self._loop() is not loop:
            self._loop, self._turn = ref(loop), Turn()
        return self._turn

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._file, name)
        if name in PLAIN or not callable(value):
            return value
        return partial(self._call, name)

    def __repr__(self) -> str:
        return f"<proactor.WrappedFile of {self._file!r}>"


def in_memory(file: object) -> bool:
    """Whether no call of its methods can wait."""
    if isinstance(file, (io.BytesIO, io.StringIO)):
        return True
    if isinstance(file, io.TextIOWrapper):
        return in_memory(file.buffer)
    if isinstance(file, (io.BufferedReader, io.BufferedWriter, io.BufferedRandom)):
        return in_memory(file.raw)
    return False


@overload
def wrap(file: IO[str]) -> WrappedFile[str]: ...
@overload
def wrap(file: IO[bytes]) -> WrappedFile[bytes]: ...
@overload
def wrap(file: Any) -> WrappedFile[Any]: ...
def wrap(file: Any) -> WrappedFile[Any]:
    """Gives any synchronous file object the interface of ours: methods become coroutines.

    `io.BytesIO`, `io.StringIO` and what buffers or decodes them are called in place and never suspend; other
    objects are called in threads, one call at a time, in the order of awaiting. Attributes, and the methods
    `fileno`, `isatty`, `readable`, `writable`, `seekable`, `getvalue` and `getbuffer`, stay as they are.
    `async with` closes it, `async for` gives its lines.

    For files of the system `proactor.open` is much faster: no thread has to be asked for every line. A call
    that hangs, as a read of a pipe whose peer is silent, keeps its thread, and the interpreter waits for it
    when it exits; `proactor.open` waits for a pipe without a thread.

    Raises TypeError for what has neither `read` nor `write`, and for a file that is asynchronous already.
    """
    if not (hasattr(file, "read") or hasattr(file, "write")):
        raise TypeError(f"a file object is needed, not {type(file).__name__}")
    if hasattr(file, "__anext__"):
        raise TypeError(f"{type(file).__name__} is asynchronous already")
    return WrappedFile(file)
