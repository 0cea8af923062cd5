"""Where io_uring is denied, or another engine is named: everything works, and `chosen_engine()` says why.

Each in a process of its own: a filter cannot be taken off, and the choice is made once.
"""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import proactor
import pytest
from capabilities import needs, require
from seccomp import FILTER, IO_SUBMIT, IO_URING_ENTER, IO_URING_SETUP

DENY = FILTER + "import sys; deny(*map(int, sys.argv[1:]))\n"

# Something of everything.
WORK = textwrap.dedent(
    """
    import asyncio, os, sys, tempfile
    import proactor
    from proactor import aio

    name, reason = proactor.chosen_engine()
    print(name, "|", reason)
    print(",".join(proactor.engines()))

    async def main(directory):
        # How long something takes on a busy machine is not what is asked here.
        asyncio.get_running_loop().slow_callback_duration = 60
        paths = [os.path.join(directory, str(at)) for at in range(50)]
        big = bytes(range(256)) * 20_000
        for at, path in enumerate(paths):
            await proactor.write_bytes(path, big if at == 7 else path.encode())
        assert await proactor.read_bytes(paths[7]) == big
        assert await proactor.read_text(paths[3]) == paths[3]
        for ordered in (True, False):
            found = {path: data async for path, data in proactor.read_many(paths, ordered=ordered)}
            assert found == {path: big if at == 7 else path.encode() for at, path in enumerate(paths)}
        async with proactor.open(paths[5], "w+") as file:
            await file.writelines(f"line {at}\\n" for at in range(2_000))
            await file.seek(0)
            assert [line async for line in file][-1] == "line 1999\\n"
            assert await file.buffer.pread(4, 5) == b"0\\nli"
            await file.buffer.fsync()
        assert (await proactor.os.stat(paths[5])).st_size == os.path.getsize(paths[5])
        assert len(await proactor.os.listdir(directory)) == len(paths)
        assert [entry.name for entry in [entry async for entry in proactor.Path(directory).glob("*7")]] != []
        async with proactor.tempfile.TemporaryFile() as file:
            await file.write(big)
            await file.seek(0)
            assert await file.read() == big
        task = asyncio.ensure_future(proactor.read_bytes(paths[7]))
        await asyncio.sleep(0)
        task.cancel()
        try:
            await task
        except asyncio.CancelledError:
            pass
        try:
            await proactor.read_bytes("/missing")
        except FileNotFoundError as error:
            assert error.filename == "/missing"

    with tempfile.TemporaryDirectory() as directory:
        asyncio.run(main(directory))

    reader, writer = os.pipe()
    with aio.Context(8) as context:
        assert context.engine == name, context.engine
        waiting = aio.Read(reader, 3)
        assert context.submit(waiting, aio.Write(writer, b"abc")) == 2
        results = {event.op: event.check() for event in context.wait(2)}
        assert results[waiting] == 3
        waiting = aio.Read(reader, 3)
        context.submit(waiting)
        assert context.cancel(waiting) is aio.CancelOutcome.CANCELLED
        assert len(context.wait()) == 1
    try:
        aio.Context(engine="io_uring").close()
        print("io_uring can be had")
    except OSError as error:
        print("io_uring:", error)
    """
)


def python(program: str, *arguments: str, **environment: str) -> list[str]:
    """The lines that it prints."""
    clean = {name: value for name, value in os.environ.items() if name != "PROACTOR_ENGINE"}
    done = subprocess.run(
        [sys.executable, "-X", "dev", "-W", "error", "-c", program, *arguments],
        env=clean | environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    return done.stdout.splitlines()


@needs("seccomp filter")
@pytest.mark.parametrize("code", ["ENOSYS", "EPERM", "EACCES", "ENOMEM"])
def test_denied(code: str) -> None:
    import errno

    number = getattr(errno, code)
    choice, engines, named = python(DENY + WORK, str(number), str(IO_URING_SETUP))
    name, _, reason = choice.partition(" | ")
    assert name in ("linux_aio", "threads")
    assert "io_uring" in reason
    assert os.strerror(number) in reason or code in reason
    assert "io_uring" not in engines.split(",")
    assert named.startswith("io_uring:")
    assert os.strerror(number) in named


@needs("seccomp filter")
def test_rings_that_can_be_made_and_not_used() -> None:
    choice, engines, named = python(DENY + WORK, "1", str(IO_URING_ENTER))
    assert choice.startswith("threads | ")
    assert "Operation not permitted" in choice
    assert "io_uring" not in engines.split(",")
    assert "Operation not permitted" in named


@needs("seccomp filter", "linux_aio")
def test_linux_aio_that_can_be_set_up_and_not_used() -> None:
    program = DENY + textwrap.dedent(
        """
        import proactor
        from proactor import aio
        print(*proactor.engines())
        try:
            aio.Context(engine="linux_aio")
        except PermissionError as error:
            print(error)
        """
    )
    engines, error = python(program, "1", str(IO_SUBMIT))
    assert "linux_aio" not in engines.split()
    assert "forbids Linux AIO" in error


@needs("seccomp filter", "io_uring")
def test_forbidden_while_in_use() -> None:
    """As by a program that locks itself up: nothing hangs, and each call fails."""
    program = FILTER + textwrap.dedent(
        f"""
        import asyncio, os, tempfile
        import proactor
        from proactor import aio

        async def main():
            # More than is read in place, on a file system that the ring reads.
            large = tempfile.NamedTemporaryFile()
            large.truncate(4 << 20)
            await proactor.read_bytes(large.name)
            reader, _ = os.pipe()
            context = aio.Context(engine="io_uring")
            pending = aio.Read(reader, 100)
            context.submit(pending)
            assert context.wait(0) == []
            first = asyncio.ensure_future(proactor.read_bytes(large.name))
            await asyncio.sleep(0)
            deny(1, {IO_URING_ENTER})
            try:
                context.wait(1, timeout=10)
            except PermissionError as error:
                print(error.errno)
            context.close()
            for call in (first, proactor.read_bytes(large.name)):
                try:
                    await asyncio.wait_for(call, 10)
                    print("read")
                except PermissionError as error:
                    print(error.errno)
            large.close()

        loop = asyncio.new_event_loop()
        loop.set_exception_handler(lambda *_: None)
        # The debug mode would print the steps that a busy machine makes slow.
        loop.slow_callback_duration = 60
        loop.run_until_complete(main())
        loop.close()
        print("ended")
        """
    )
    waited, _first, second, ended = python(program)
    assert (waited, second, ended) == ("1", "1", "ended")


@needs("seccomp filter")
def test_denied_for_the_command() -> None:
    program = DENY + "from proactor.__main__ import main; sys.argv = ['proactor', 'doctor']; main()"
    text = "\n".join(python(program, "1", str(IO_URING_SETUP)))
    assert "io_uring" in text
    assert "Operation not permitted" in text or "EPERM" in text


@pytest.mark.parametrize("name", ["io_uring", "linux_aio", "posix_aio", "threads"])
def test_named_by_the_environment(name: str) -> None:
    if name in ("io_uring", "linux_aio"):
        require(name)
    choice, engines, _ = python(WORK, PROACTOR_ENGINE=name)
    found, _, reason = choice.partition(" | ")
    assert found == name
    assert "PROACTOR_ENGINE" in reason
    assert name in engines.split(",")


@pytest.mark.parametrize("name", ["auto", ""])
def test_the_environment_leaves_the_choice(name: str) -> None:
    choice, _, _ = python(WORK, PROACTOR_ENGINE=name)
    assert choice.partition(" | ")[0] == proactor.chosen_engine()[0]


@pytest.mark.parametrize("name", ["no_such_engine", "uring2"])
def test_an_unknown_name_in_the_environment(name: str, tmp_path: Path) -> None:
    program = textwrap.dedent(
        """
        import asyncio, sys
        import proactor
        from proactor import aio

        def told(call):
            try:
                call()
            except (ValueError, OSError) as error:
                assert sys.argv[1] in str(error) and "PROACTOR_ENGINE" in str(error), error
                assert "io_uring" in str(error), error  # what it could be
                print(type(error).__name__)

        async def read():
            await proactor.read_bytes("/proc/self/comm")

        told(proactor.chosen_engine)
        told(aio.Context)
        told(lambda: asyncio.run(read()))
        aio.Context(engine="threads").close()  # named by the caller, so nobody asks the environment
        print("import works")
        """
    )
    lines = python(program, name, PROACTOR_ENGINE=name)
    assert lines[-1] == "import works"
    assert len(lines) == 4
