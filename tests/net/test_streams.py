"""What is our streams' and servers' own."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import socket
import subprocess
import sys
import textwrap
import threading
import time
import weakref
from pathlib import Path
from typing import Any

import pytest
from capabilities import needs, require
from conftest import Run
from net_helpers import Side, echo, finish
from proactor import net
from seccomp import FILTER

pytest_plugins = ["net_fixtures"]


def exceptions_of(loop: asyncio.AbstractEventLoop) -> list[dict[str, Any]]:
    heard: list[dict[str, Any]] = []
    loop.set_exception_handler(lambda _, context: heard.append(context))
    return heard


def test_a_handler_that_raises_resets_its_connection(run: Run, ours: Side) -> None:
    async def fail(stream: net.Stream) -> None:
        await stream.readexactly(1)
        raise ZeroDivisionError

    async def main() -> None:
        heard = exceptions_of(asyncio.get_running_loop())
        async with ours.serve(fail) as address:
            stream = await ours.connect(address)
            stream.write(b"xy")
            with pytest.raises(ConnectionResetError):
                await stream.read(1)
            await finish(stream)
        assert [type(context["exception"]) for context in heard] == [ZeroDivisionError]

    run(main())


def test_a_handler_that_is_no_coroutine_function_is_said_so(run: Run, ours: Side) -> None:
    async def main() -> None:
        heard = exceptions_of(asyncio.get_running_loop())
        async with ours.serve(lambda stream: None) as address:  # type: ignore[arg-type, return-value]
            stream = await ours.connect(address)
            with pytest.raises(ConnectionResetError):
                await stream.read(1)
            await finish(stream)
        assert "must be an async function" in str(heard[0]["exception"])

    run(main())


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ({"engine": "threads"}, ValueError),
        ({"limit": 0}, ValueError),
        ({"limit": "1"}, TypeError),
        ({"port": 70_000}, OverflowError),
        ({"host": "256.1.1.1"}, OSError),
    ],
)
def test_wrong_arguments(run: Run, arguments: dict[str, Any], error: type[Exception]) -> None:
    async def main() -> None:
        with pytest.raises(error):
            await net.serve(echo, **{"host": "127.0.0.1", **arguments})

    run(main())


def test_a_handler_that_cannot_be_called(run: Run) -> None:
    async def main() -> None:
        with pytest.raises(TypeError, match="async function"):
            await net.serve("echo", "127.0.0.1")  # type: ignore[arg-type]

    run(main())


def test_a_port_that_is_taken(run: Run, ours: Side) -> None:
    async def main() -> None:
        async with ours.serve(echo) as address:
            with pytest.raises(OSError, match="another program has this port") as raised:
                await net.serve(echo, *address[:2], engine=ours.engine)
            assert raised.value.errno == 98
            shared = await net.serve(echo, "127.0.0.1", 0, reuse_port=True, engine=ours.engine)
            port = shared.addresses[0][1]
            again = await net.serve(echo, "127.0.0.1", port, reuse_port=True, engine=ours.engine)
            for server in (shared, again):
                async with server:
                    pass

    run(main())


def test_several_hosts_and_ipv6(run: Run, ours: Side) -> None:
    require("IPv6")

    async def main() -> None:
        async with await net.serve(echo, ["127.0.0.1", "::1"], 0, engine=ours.engine) as server:
            assert {address[0] for address in server.addresses} == {"127.0.0.1", "::1"}
            assert server.is_serving()
            for host, port, *_ in server.addresses:
                stream = await net.connect(host, port, engine=ours.engine)
                stream.write(b"x")
                assert await stream.read(1) == b"x"
                await finish(stream)
        assert not server.is_serving()

    run(main())


@pytest.mark.parametrize("abstract", [False, True])
def test_unix_sockets(run: Run, ours: Side, tmp_path: Path, abstract: bool) -> None:
    path = f"\0proactor-{os.getpid()}" if abstract else str(tmp_path / "socket")

    async def main() -> None:
        with pytest.raises(OSError, match=r"refused|No such file"):
            await net.connect_unix(path, engine=ours.engine)
        async with await net.serve_unix(echo, path, engine=ours.engine) as server:
            stream = await net.connect_unix(path, engine=ours.engine)
            stream.write(b"hello")
            assert await stream.readexactly(5) == b"hello"
            peer = stream.get_extra_info("peername")
            assert peer == server.addresses[0] == (path.encode() if abstract else path)
            await finish(stream)

    run(main())


def test_nothing_is_sent_after_the_end(run: Run, ours: Side) -> None:
    async def main() -> None:
        async with ours.serve(echo) as address:
            stream = await ours.connect(address)
            with pytest.raises(TypeError):
                stream.write("text")
            stream.write_eof()
            with pytest.raises(RuntimeError):
                stream.write(b"x")
            stream.close()
            with pytest.raises(RuntimeError):
                stream.write(b"x")
            assert stream.is_closing()
            await stream.wait_closed()
            assert "closed" in repr(stream)

    run(main())


def test_a_reader_that_does_not_read_stops_its_peer(run: Run, ours: Side) -> None:
    """Unread bytes are bounded by the limit, and what the kernel holds of them."""

    async def main() -> None:
        streams: list[net.Stream] = []
        held = asyncio.Event()

        async def hold(stream: net.Stream) -> None:
            streams.append(stream)
            await held.wait()
            assert len(await stream.read()) == 64 << 20

        async def give(stream: net.Stream) -> None:
            for _ in range(64):
                stream.write(b"x" * (1 << 20))
                await stream.drain()
            stream.write_eof()

        async with ours.serve(hold) as address:
            stream = await ours.connect(address)
            giving = asyncio.ensure_future(give(stream))
            done, _ = await asyncio.wait([giving], timeout=0.5)
            assert not done
            assert streams[0]._native.unread() < 2 << 20
            held.set()
            await giving
            assert await stream.read() == b""
            await finish(stream)

    run(main())


def test_who_waits_for_room_hears_of_a_reset(run: Run, ours: Side) -> None:
    async def main() -> None:
        resets = asyncio.Event()

        async def refuse(stream: net.Stream) -> None:
            await resets.wait()
            stream.abort()

        async def give(stream: net.Stream) -> None:
            while True:
                stream.write(b"x" * (1 << 20))
                await stream.drain()

        async with ours.serve(refuse) as address:
            stream = await ours.connect(address)
            giving = asyncio.ensure_future(give(stream))
            while stream._native.unsent() == 0:  # noqa: ASYNC110 (nothing tells of it)
                await asyncio.sleep(0.001)
            resets.set()
            with pytest.raises((ConnectionResetError, BrokenPipeError)):
                await asyncio.wait_for(giving, 30)
            stream.close()

    run(main())


def test_a_closed_server_waits_for_its_handlers(run: Run, ours: Side) -> None:
    async def main() -> None:
        server = await net.serve(echo, "127.0.0.1", 0, engine=ours.engine)
        host, port = server.addresses[0]
        stream = await net.connect(host, port, engine=ours.engine)
        stream.write(b"x")
        assert await stream.read(1) == b"x"
        server.close()
        waiting = asyncio.ensure_future(server.wait_closed())
        stream.write(b"y")
        assert await stream.read(1) == b"y"
        assert not waiting.done()
        with pytest.raises(ConnectionRefusedError):
            await net.connect(host, port, engine=ours.engine)
        await finish(stream)
        await waiting

    run(main())


def test_handlers_are_cancelled(run: Run, ours: Side) -> None:
    async def main() -> None:
        server = await net.serve(echo, "127.0.0.1", 0, engine=ours.engine)
        stream = await net.connect(*server.addresses[0], engine=ours.engine)
        stream.write(b"x")
        assert await stream.read(1) == b"x"
        server.cancel()
        await server.wait_closed()
        with pytest.raises(ConnectionResetError):
            await stream.read(1)
        await finish(stream)

    run(main())


def test_a_body_that_raises_cancels_the_handlers(run: Run, ours: Side) -> None:
    async def main() -> None:
        server = await net.serve(echo, "127.0.0.1", 0, engine=ours.engine)
        stream = await net.connect(*server.addresses[0], engine=ours.engine)

        async def body() -> None:
            async with server:
                stream.write(b"x")
                assert await stream.read(1) == b"x"
                raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            await body()
        await finish(stream)

    run(main())


def test_serve_forever_ends_with_its_task(run: Run, ours: Side) -> None:
    async def main() -> None:
        server = await net.serve(echo, "127.0.0.1", 0, engine=ours.engine)
        serving = asyncio.ensure_future(server.serve_forever())
        await asyncio.sleep(0)
        serving.cancel()
        with pytest.raises(asyncio.CancelledError):
            await serving
        assert not server.is_serving()
        await server.wait_closed()

    run(main())


def test_a_stream_that_is_dropped_says_so_and_is_closed(run: Run, ours: Side) -> None:
    async def main() -> None:
        async with ours.serve(echo) as address:
            stream = await ours.connect(address)
            with pytest.warns(ResourceWarning, match="unclosed <Stream open>"):  # noqa: PT031
                del stream
                gc.collect()

    run(main())


def test_another_thread_and_no_loop(run: Run, ours: Side) -> None:
    with pytest.raises(RuntimeError):
        net.chosen_engine()

    async def main() -> None:
        async with ours.serve(echo) as address:
            stream = await ours.connect(address)
            errors: list[BaseException] = []

            def write() -> None:
                try:
                    stream.write(b"x")
                except RuntimeError as e:
                    errors.append(e)

            thread = threading.Thread(target=write)
            thread.start()
            thread.join()
            assert "another thread" in str(errors[0])
            await finish(stream)

    run(main())


def test_loops_that_are_dropped_are_collected(ours: Side) -> None:
    async def begin() -> None:
        server = await net.serve(echo, "127.0.0.1", 0, engine=ours.engine)
        stream = await net.connect(*server.addresses[0], engine=ours.engine)
        reading = asyncio.ensure_future(stream.read(1))
        await asyncio.sleep(0)
        asyncio.get_running_loop().kept = (server, reading)  # type: ignore[attr-defined]

    with contextlib.ExitStack() as stack:
        stack.enter_context(pytest.warns(ResourceWarning))
        loop = asyncio.new_event_loop()
        loop.set_exception_handler(lambda *_: None)
        loop.run_until_complete(begin())
        known = weakref.ref(loop)
        del loop
        # The thread that has looked up the address may hold it for a moment.
        deadline = time.monotonic() + 10
        while known() is not None and time.monotonic() < deadline:
            gc.collect()
    assert known() is None


def test_a_loop_that_is_closed_with_everything_open(run: Run, ours: Side) -> None:
    async def main() -> Any:
        server = await net.serve(echo, "127.0.0.1", 0, engine=ours.engine)
        stream = await net.connect(*server.addresses[0], engine=ours.engine)
        return server, stream

    server, stream = run(main())
    with pytest.raises(RuntimeError):
        stream.write(b"x")
    del server, stream


SCRIPT = """
import asyncio, os, resource, socket, sys
from proactor import net

async def echo(stream):
    while data := await stream.read(1000):
        stream.write(data)
        await stream.drain()
"""


def python(code: str) -> str:
    script = SCRIPT + textwrap.dedent(code)
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", script], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_descriptors_run_out_and_come_back(ours: Side) -> None:
    """Connections that are open go on; accepting goes on when one is closed; it is said once."""
    out = python(
        f"""
        async def main():
            heard = []
            loop = asyncio.get_running_loop()
            loop.set_exception_handler(lambda _, context: heard.append(context))
            # The ring takes a process's limit when an accept begins.
            resource.setrlimit(resource.RLIMIT_NOFILE, (64, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
            async with await net.serve(echo, "127.0.0.1", 0, engine="{ours.engine}") as server:
                one = await net.connect(*server.addresses[0], engine="{ours.engine}")
                one.write(b"x")
                assert await one.read(1) == b"x"
                more = [socket.socket() for _ in range(3)]
                free = []
                try:
                    while True:
                        free.append(os.dup(0))
                except OSError:
                    pass
                for each in more:
                    each.setblocking(False)
                    await loop.sock_connect(each, server.addresses[0])
                while not heard:
                    await asyncio.sleep(0.001)
                one.write(b"y")
                assert await one.read(1) == b"y"
                for fd in free:
                    os.close(fd)
                for each in more:
                    await loop.sock_sendall(each, b"z")
                    assert await loop.sock_recv(each, 1) == b"z"
                    each.close()
                one.close()
                await one.wait_closed()
            print([context["exception"].errno for context in heard])
        asyncio.run(main())
        """
    )
    assert out == "[24]\n"


def test_a_forked_child_has_none_of_it(ours: Side) -> None:
    out = python(
        f"""
        async def main():
            async with await net.serve(echo, "127.0.0.1", 0, engine="{ours.engine}") as server:
                stream = await net.connect(*server.addresses[0], engine="{ours.engine}")
                stream.write(b"x")
                assert await stream.read(1) == b"x"
                child = os.fork()
                if child == 0:
                    try:
                        stream.write(b"stolen")
                    except RuntimeError as e:
                        os._exit(7 if "fork" in str(e) else 1)
                    os._exit(2)
                print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
                stream.write(b"y")
                print(await stream.read(10))
                stream.close()
                await stream.wait_closed()
        asyncio.run(main())
        """
    )
    assert out == "7\nb'y'\n"


@needs("seccomp filter")
def test_without_io_uring_it_is_epoll_and_says_why() -> None:
    out = python(
        FILTER
        + textwrap.dedent(
            """
            import errno
            deny(errno.EPERM, 425)
            async def main():
                print(*net.chosen_engine(), sep=": ")
                async with await net.serve(echo, "127.0.0.1", 0) as server:
                    stream = await net.connect(*server.addresses[0])
                    stream.write(b"x")
                    print(await stream.read(1))
                    stream.close()
                    await stream.wait_closed()
            asyncio.run(main())
            """
        )
    )
    lines = out.splitlines()
    assert lines[0].startswith("epoll: ")
    assert len(lines[0]) > len("epoll: ")
    assert lines[1] == "b'x'"


def test_a_peer_of_the_standard_library(run: Run, ours: Side) -> None:
    async def main() -> None:
        async with ours.serve(echo) as address:
            with socket.create_connection(address[:2]) as plain:
                loop = asyncio.get_running_loop()
                plain.setblocking(False)
                await loop.sock_sendall(plain, b"hello")
                assert await loop.sock_recv(plain, 100) == b"hello"

    run(main())
