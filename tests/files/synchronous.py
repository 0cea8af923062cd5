"""The standard library's files and temporaries in the shape of ours, for one test body on both."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Generator
from types import SimpleNamespace
from typing import Any

PLAIN = {"fileno", "isatty", "readable", "writable", "seekable", "getvalue"}


class Synchronous:
    """A file object with its methods as coroutines that never suspend."""

    def __init__(self, file: Any) -> None:
        self.file = file

    def __getattr__(self, name: str) -> Any:
        value = getattr(self.file, name)
        if not callable(value) or name in PLAIN:
            return value

        async def call(*arguments: Any) -> Any:
            return value(*arguments)

        return call

    async def __aenter__(self) -> Any:
        entered = self.file.__enter__()
        return entered if isinstance(entered, (str, bytes)) else self

    async def __aexit__(self, *exc_info: Any) -> None:
        self.file.__exit__(*exc_info)

    def __aiter__(self) -> Synchronous:
        return self

    async def __anext__(self) -> Any:
        line = self.file.readline()
        if not line:
            raise StopAsyncIteration
        return line


class Making:
    """Awaited, or used in `async with`."""

    def __init__(self, make: Callable[[], Any]) -> None:
        self._make = make
        self._made: Any = None

    def __await__(self) -> Generator[Any, Any, Synchronous]:
        yield from ()
        return Synchronous(self._make())

    async def __aenter__(self) -> Any:
        self._made = await self
        return await self._made.__aenter__()

    async def __aexit__(self, *exc_info: Any) -> None:
        await self._made.__aexit__(*exc_info)


def _making(function: Callable[..., Any]) -> Callable[..., Making]:
    return lambda *arguments, **options: Making(lambda: function(*arguments, **options))


def _coroutine(function: Callable[..., Any]) -> Callable[..., Any]:
    async def call(*arguments: Any, **options: Any) -> Any:
        return function(*arguments, **options)

    return call


TEMPFILE = SimpleNamespace(
    **{
        name: _making(getattr(tempfile, name))
        for name in ("TemporaryFile", "NamedTemporaryFile", "SpooledTemporaryFile", "TemporaryDirectory")
    },
    **{name: _coroutine(getattr(tempfile, name)) for name in ("mkstemp", "mkdtemp")},
)
