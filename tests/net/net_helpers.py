"""The same streams by asyncio and by proactor, for tests that run on both."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

from capabilities import require
from proactor import net

Handler = Callable[[Any], Awaitable[object]]

SIDES = ["asyncio", "io_uring", "epoll"]


class AsyncioStream:
    """asyncio's reader and writer in one object."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer

    def __getattr__(self, name: str) -> Any:
        for side in (self._reader, self._writer):
            if hasattr(side, name):
                return getattr(side, name)
        raise AttributeError(name)

    def __aiter__(self) -> asyncio.StreamReader:
        return self._reader

    def abort(self) -> None:
        self._writer.transport.abort()


class Side:
    """How one of the two serves and connects."""

    def __init__(self, name: str) -> None:
        if name == "io_uring":
            require("io_uring for sockets")
        self.name = name
        self.engine = "epoll" if name == "epoll" else "auto"

    @contextlib.asynccontextmanager
    async def serve(self, handler: Handler, limit: int = 1 << 16) -> AsyncIterator[tuple[Any, ...]]:
        """Serve on a port of the kernel's choice: gives the address."""
        if self.name == "asyncio":

            async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
                try:
                    await handler(AsyncioStream(reader, writer))
                finally:
                    writer.close()

            asyncio_server = await asyncio.start_server(handle, "127.0.0.1", 0, limit=limit)
            async with asyncio_server:
                yield asyncio_server.sockets[0].getsockname()
            return
        server = await net.serve(handler, "127.0.0.1", 0, limit=limit, engine=self.engine)
        assert net.chosen_engine(self.engine)[0] == self.name
        async with server:
            yield server.addresses[0]

    async def connect(self, address: tuple[Any, ...], limit: int = 1 << 16) -> Any:
        if self.name == "asyncio":
            return AsyncioStream(*await asyncio.open_connection(*address[:2], limit=limit))
        return await net.connect(*address[:2], limit=limit, engine=self.engine)


async def echo(stream: Any) -> None:
    while data := await stream.read(1 << 16):
        stream.write(data)
        await stream.drain()


async def finish(stream: Any) -> None:
    """Close a stream and wait for that."""
    stream.close()
    with contextlib.suppress(ConnectionError):
        await stream.wait_closed()
