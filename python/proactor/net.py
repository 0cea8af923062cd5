"""Streams and servers on the running asyncio loop.

    async def echo(stream):
        while data := await stream.read(65536):
            stream.write(data)
            await stream.drain()

    async with await proactor.net.serve(echo, "127.0.0.1", 8888) as server:
        await server.serve_forever()

A loop's sockets share one ring: what came for all of them is received in one system call, and what
was written to any of them in one turn of the loop is sent in one. Where io_uring cannot receive
that way (before Linux 6.0, in many containers), the same calls work on epoll; `chosen_engine()`
says why.
"""

from __future__ import annotations

import asyncio
import socket
import warnings
from typing import TYPE_CHECKING, Any

from proactor import _native

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Sequence
    from types import TracebackType

    from _typeshed import ReadableBuffer, StrOrBytesPath
    from typing_extensions import Self

    _Handler = Callable[["Stream"], Awaitable[object]]

__all__ = ["Server", "Stream", "chosen_engine", "connect", "connect_unix", "serve", "serve_unix"]

_LIMIT = 1 << 16


def chosen_engine(engine: str = "auto") -> tuple[str, str]:
    """Return what the running loop's sockets are on, and why: `("io_uring", "")`, or `("epoll",
    reason)`.

    Errors: RuntimeError without a running loop, ValueError for an unknown `engine`.
    """
    return _native.network(engine).chosen()


class Stream:
    """A connection: bytes in both directions.

    Made by `connect`, `connect_unix` and for the handlers of `serve`. The methods are those of
    asyncio's StreamReader and StreamWriter in one object. `async with` closes it at the end, `async
    for` gives its lines.
    """

    __slots__ = ("__weakref__", "_closing", "_ends", "_limit", "_native", "_searched")

    _searched: bytes | None

    def __init__(self, native: _native.NetStream, limit: int) -> None:
        """For `serve` and `connect` only."""
        self._native = native
        self._limit = limit
        self._closing = self._ends = False
        self._searched = None
        native.set_most_unread(2 * limit)

    async def read(self, n: int = -1) -> bytes:
        """Return at most `n` bytes, as soon as there are any; all up to the end if `n` is negative.
        `b""` is the end.

        Errors: the connection's (ConnectionResetError ...) when its unread bytes are read.
        """
        native = self._native
        if n < 0:
            parts = []
            while part := await self.read(self._limit):
                parts.append(part)
            return b"".join(parts)
        data = native.take(n)
        while data is None:
            await native.wait_readable(1)
            data = native.take(n)
        return data

    async def readexactly(self, n: int) -> bytes:
        """Return exactly `n` bytes.

        Errors: asyncio.IncompleteReadError with what there was, if the peer ends before; ValueError
        if `n` is negative.
        """
        if n < 0:
            raise ValueError("readexactly size can not be less than zero")
        native = self._native
        data = native.take_exactly(n)
        while data is None:
            if native.ended():
                native.check()
                raise asyncio.IncompleteReadError(native.take(-1) or b"", n)
            await native.wait_readable(n)
            data = native.take_exactly(n)
        return data

    async def readuntil(self, separator: bytes = b"\n") -> bytes:
        """Return the bytes up to and including `separator`, of at least one byte.

        Errors: asyncio.IncompleteReadError with what there was, if the peer ends before;
        asyncio.LimitOverrunError if there are more than the stream's `limit` (they stay unread);
        ValueError for an empty separator.
        """
        native = self._native
        while True:
            end = native.find(separator, separator != self._searched)
            self._searched = separator
            if end >= 0:
                if end - len(separator) > self._limit:
                    raise asyncio.LimitOverrunError(
                        "Separator is found, but chunk is longer than limit", end - len(separator)
                    )
                return native.take(end) or b""
            unread = native.unread()
            if unread > self._limit:
                raise asyncio.LimitOverrunError(
                    "Separator is not found, and chunk exceed the limit", unread + 1 - len(separator)
                )
            if native.ended():
                native.check()
                raise asyncio.IncompleteReadError(native.take(-1) or b"", None)
            await native.wait_readable(unread + 1)

    async def readline(self) -> bytes:
        r"""Return a line with its `\n`; at the end what is left, `b""` if that is nothing.

        Errors: ValueError if the line is longer than the stream's `limit`; what was received of it
        is thrown away.
        """
        try:
            return await self.readuntil(b"\n")
        except asyncio.IncompleteReadError as e:
            return e.partial
        except asyncio.LimitOverrunError as e:
            native = self._native
            end = native.find(b"\n", True)
            native.take(end if end >= 0 else -1)
            raise ValueError(e.args[0]) from None

    def at_eof(self) -> bool:
        """Whether the peer has ended and nothing is left to be read."""
        return self._native.ended() and not self._native.unread()

    def write(self, data: ReadableBuffer) -> None:
        """Send bytes. What the kernel does not take at once is copied and sent in order; await
        `drain()` after it.

        Errors: ConnectionResetError and others if the connection has ended; RuntimeError after
        `close()` and `write_eof()`; TypeError for what is not bytes-like.
        """
        if self._closing or self._ends:
            raise RuntimeError("Cannot write after close() or write_eof()")
        self._native.send(data)

    def writelines(self, data: Iterable[ReadableBuffer]) -> None:
        """Send several bytes-like objects, as one `write()` of all."""
        self.write(b"".join(data))

    async def drain(self) -> None:
        """Wait until there is room for more, if there is too much unsent.

        Errors: the connection's, if it has ended by an error.
        """
        future = self._native.wait_writable()
        if future is not None:
            await future
            self._native.check()

    def can_write_eof(self) -> bool:
        """Whether `write_eof()` works: always."""
        return True

    def write_eof(self) -> None:
        """End the sending side when everything is sent. Reading goes on."""
        self._ends = True
        self._native.shutdown()

    def close(self) -> None:
        """Close the connection when everything is sent. What the peer still sends is thrown
        away."""
        self._closing = True
        self._native.close()

    def abort(self) -> None:
        """Close the connection at once. What is not sent is thrown away, and the peer gets a
        reset."""
        self._closing = True
        self._native.abort()

    def is_closing(self) -> bool:
        """Whether the connection is closed or being closed."""
        return self._closing or self._native.closed()

    async def wait_closed(self) -> None:
        """Wait until the connection is closed.

        Errors: the error by which it ended, unless it was closed here.
        """
        future = self._native.wait_closed()
        if future is not None:
            await future
        if not self._closing:
            self._native.check()

    def unsent(self) -> int:
        """Return the number of bytes that were written and that the kernel has not taken yet."""
        return self._native.unsent()

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        """Return the "peername" or "sockname", as the `socket` module has them; `default` for
        anything else."""
        address = None
        if name == "peername":
            address = self._native.peer()
        elif name == "sockname":
            address = self._native.local()
        return default if address is None else address

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> bytes:
        line = await self.readline()
        if not line:
            raise StopAsyncIteration
        return line

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()
        await self.wait_closed()

    def __repr__(self) -> str:
        state = "closed" if self._native.closed() else "closing" if self._closing else "open"
        return f"<{type(self).__name__} {state}>"

    def __del__(self) -> None:
        native = getattr(self, "_native", None)
        if native is None or self._closing:
            return
        try:
            if native.closed():
                return
            warnings.warn(f"unclosed {self!r}", ResourceWarning, stacklevel=2, source=self)
            native.abort()
        except RuntimeError:
            # Another thread collects it, or the loop is closed: the sockets went with the loop.
            pass


class Server:
    """What `serve` returns: it accepts connections until it is closed.

    `async with` closes it at the end and waits for its handlers; if its body raises, they are cancelled.
    """

    def __init__(self, network: _native.Network, handler: _Handler, limit: int) -> None:
        """For `serve` only."""
        self._network = network
        self._handler = handler
        self._limit = limit
        self._listeners: list[int] = []
        self._tasks: set[asyncio.Task[None]] = set()
        self._loop = asyncio.get_running_loop()
        self._closed: asyncio.Future[None] = self._loop.create_future()
        #: Where it listens, as the `socket` module has addresses.
        self.addresses: list[Any] = []

    def _listen(self, address: Any, backlog: int, reuse_port: bool) -> None:
        number, local = self._network.listen(
            address, backlog, reuse_port, self._accepted, self._accept_failed
        )
        self._listeners.append(number)
        self.addresses.append(local)

    def _accepted(self, native: _native.NetStream) -> None:
        stream = Stream(native, self._limit)
        task = self._loop.create_task(self._run(stream))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _run(self, stream: Stream) -> None:
        try:
            running = self._handler(stream)
            if not hasattr(running, "__await__"):
                raise TypeError(
                    f"a handler must be an async function; {self._handler!r} returned {running!r}"
                )
            await running
        except asyncio.CancelledError:
            stream.abort()
            raise
        except Exception as e:
            stream.abort()
            context = {"message": "Unhandled exception in a handler of proactor.net", "exception": e}
            self._loop.call_exception_handler({**context, "stream": stream})
        else:
            stream.close()

    def _accept_failed(self, error: OSError) -> None:
        message = "No connection can be accepted for now; it is tried again"
        self._loop.call_exception_handler({"message": message, "exception": error, "server": self})

    def is_serving(self) -> bool:
        """Whether connections are accepted."""
        return bool(self._listeners)

    def close(self) -> None:
        """Stop accepting. Connections that are open go on; `wait_closed()` waits for their
        handlers."""
        listeners, self._listeners = self._listeners, []
        for number in listeners:
            self._network.close_listener(number)
        if not self._closed.done():
            self._closed.set_result(None)

    def cancel(self) -> None:
        """Stop accepting and cancel all handlers; their connections are reset."""
        self.close()
        for task in list(self._tasks):
            task.cancel()

    async def wait_closed(self) -> None:
        """Wait until the server is closed and all its handlers have ended."""
        await asyncio.shield(self._closed)
        while self._tasks:
            await asyncio.wait(list(self._tasks))

    async def serve_forever(self) -> None:
        """Wait until the server is closed. If this is cancelled, the server is closed."""
        try:
            await asyncio.shield(self._closed)
        finally:
            self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if kind is None:
            self.close()
        else:
            self.cancel()
        await self.wait_closed()

    def __repr__(self) -> str:
        return f"<Server {'on' if self._listeners else 'closed,'} {self.addresses}>"


def _check_port(port: int | str) -> None:
    if isinstance(port, int) and not 0 <= port <= 65535:
        raise OverflowError(f"port must be 0-65535, not {port}")


def _check_limit(limit: int) -> None:
    if not isinstance(limit, int):
        raise TypeError(f"limit must be an int, not {type(limit).__name__}")
    if limit <= 0:
        raise ValueError("limit cannot be <= 0")


def _server(handler: _Handler, limit: int, engine: str) -> Server:
    if not callable(handler):
        raise TypeError(f"the handler must be an async function, not {handler!r}")
    _check_limit(limit)
    return Server(_native.network(engine), handler, limit)


async def serve(
    handler: _Handler,
    host: str | Sequence[str] | None = None,
    port: int | str = 0,
    *,
    family: int = socket.AF_UNSPEC,
    backlog: int = 4096,
    reuse_port: bool = False,
    limit: int = _LIMIT,
    engine: str = "auto",
) -> Server:
    """Listen on TCP and call `await handler(stream)` in a task for each connection. Return the
    `Server`.

    `host` is a name, an address, a sequence of them, or None for all interfaces; `port` 0 lets the
    kernel choose one (`Server.addresses`). The connection is closed when the handler returns, and
    reset when it raises; the loop's exception handler hears of that. `limit` bounds a line of
    `readline` and `readuntil`, and twice as much is received before it is read. `engine` "epoll"
    does without io_uring.

    Errors: OSError if an address cannot be had (then none is), ValueError for an unknown `engine`.
    """
    _check_port(port)
    server = _server(handler, limit, engine)
    loop = asyncio.get_running_loop()
    hosts = [host] if host is None or isinstance(host, str) else list(host)
    if not hosts:
        raise ValueError("host: an empty sequence names no address; None is for all interfaces")
    kind, flags = socket.SOCK_STREAM, socket.AI_PASSIVE
    infos = await asyncio.gather(
        *(loop.getaddrinfo(one or None, port, family=family, type=kind, flags=flags) for one in hosts)
    )
    addresses = dict.fromkeys(info[4] for some in infos for info in some)
    try:
        for address in addresses:
            server._listen(address, backlog, reuse_port)
    except BaseException:
        server.close()
        raise
    return server


async def serve_unix(
    handler: _Handler,
    path: StrOrBytesPath,
    *,
    backlog: int = 4096,
    limit: int = _LIMIT,
    engine: str = "auto",
) -> Server:
    """Listen on a Unix socket, as `serve` does on TCP.

    `path` must not exist yet; it is not removed at the end. One that begins with a NUL is a name in
    the abstract namespace.

    Errors: OSError if it cannot be had.
    """
    server = _server(handler, limit, engine)
    server._listen(path, backlog, False)
    return server


async def _connect(network: _native.Network, address: Any, limit: int) -> Stream:
    native, future = network.connect(address)
    stream = Stream(native, limit)
    try:
        await future
        native.check()
    except BaseException:
        stream.abort()
        raise
    return stream


async def connect(
    host: str,
    port: int | str,
    *,
    family: int = socket.AF_UNSPEC,
    limit: int = _LIMIT,
    engine: str = "auto",
) -> Stream:
    """Connect to a TCP server and return the `Stream`.

    A name's addresses are tried one after the other. `limit` and `engine` are those of `serve`.

    Errors: OSError (ConnectionRefusedError ...), that of the last address.
    """
    _check_limit(limit)
    _check_port(port)
    network = _native.network(engine)
    loop = asyncio.get_running_loop()
    infos = await loop.getaddrinfo(host, port, family=family, type=socket.SOCK_STREAM)
    error: OSError | None = None
    for info in infos:
        try:
            return await _connect(network, info[4], limit)
        except OSError as e:
            error = e
    try:
        raise error or OSError(f"{host} has no address")
    finally:
        del error


async def connect_unix(path: StrOrBytesPath, *, limit: int = _LIMIT, engine: str = "auto") -> Stream:
    """Connect to a Unix socket and return the `Stream`.

    Errors: OSError (FileNotFoundError, ConnectionRefusedError ...).
    """
    _check_limit(limit)
    return await _connect(_native.network(engine), path, limit)
