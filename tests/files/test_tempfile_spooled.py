"""Spooled temporary files: random programs on the standard library's and ours, and what only ours promise."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Coroutine
from itertools import product
from pathlib import Path
from typing import Any

import proactor
import pytest
from conftest import Run
from file_helpers import descriptors, in_time, until
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from stepping import ENDS, drive, end
from synchronous import TEMPFILE

Step = tuple[Any, ...]

EXAMPLES = settings(
    max_examples=60,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


async def outcome(call: Coroutine[Any, Any, Any]) -> Any:
    try:
        return await call
    except (OSError, ValueError, TypeError) as error:
        return type(error)


async def play(file: Any, script: list[Step]) -> list[Any]:
    """What each step gives, where the file is then, and all of it at the end."""
    results: list[Any] = []
    for name, *arguments in script:
        found = await outcome(getattr(file, name)(*arguments))
        # Before Python 3.11 the standard library's does not say how long it is then.
        results.append((None if name == "truncate" else found, file.name is None))
    await file.flush()
    results.append(await file.tell())
    await file.seek(0)
    results.append(await file.read())
    await file.close()
    results.append(file.closed)
    return results


async def both(script: list[Step], **options: Any) -> None:
    expected = await play(await TEMPFILE.SpooledTemporaryFile(**options), script)
    assert await play(await proactor.tempfile.SpooledTemporaryFile(**options), script) == expected


def steps_of(data: st.SearchStrategy[Any]) -> st.SearchStrategy[list[Step]]:
    return st.lists(
        st.one_of(
            st.tuples(st.just("read"), st.integers(-1, 20)),
            st.tuples(st.just("readline"), st.integers(-1, 20)),
            st.tuples(st.just("readlines"), st.just(-1)),
            st.tuples(st.just("write"), data),
            st.tuples(st.just("writelines"), st.lists(data, min_size=1, max_size=3)),
            st.tuples(st.just("seek"), st.integers(-2, 30), st.sampled_from([0, 2])),
            st.tuples(st.just("truncate"), st.integers(0, 30)),
            st.tuples(st.just("flush")),
            st.tuples(st.just("rollover")),
        ),
        max_size=12,
    )


sizes = st.sampled_from([0, 5, 15, 1000])


@pytest.mark.leaks("the loop and its driver are the module's")
def test_binary(loop: asyncio.AbstractEventLoop) -> None:
    @EXAMPLES
    @given(steps_of(st.binary(max_size=12)), sizes)
    def check(script: list[Step], max_size: int) -> None:
        loop.run_until_complete(both(script, max_size=max_size))

    check()


@pytest.mark.leaks("the loop and its driver are the module's")
@pytest.mark.parametrize("encoding", ["utf-8", "utf-16", "latin-1"])
def test_text(loop: asyncio.AbstractEventLoop, encoding: str) -> None:
    # A text file is written to its end: what io does after a read depends on its buffers.
    steps = st.lists(
        st.one_of(
            st.tuples(st.just("write"), st.text("ab\n\ré", max_size=8)),
            st.tuples(st.just("writelines"), st.lists(st.text("ab\né", max_size=5), min_size=1, max_size=3)),
            st.tuples(st.just("rollover")),
            st.tuples(st.just("flush")),
        ),
        max_size=8,
    )
    newlines = st.sampled_from([None, "", "\n", "\r\n"])

    @EXAMPLES
    @given(steps, sizes, newlines)
    def check(script: list[Step], max_size: int, newline: str | None) -> None:
        options = {"mode": "w+", "encoding": encoding, "newline": newline}
        loop.run_until_complete(both(script, max_size=max_size, **options))

    check()


def test_the_position_moves_with_it(run: Run) -> None:
    async def main() -> None:
        for encoding in ("utf-8", "utf-16", "utf-8-sig"):
            async with proactor.tempfile.SpooledTemporaryFile(
                mode="w+", encoding=encoding, newline=""
            ) as file:
                await file.write("eins\r\nzwei é\ndrei")
                await file.seek(0)
                assert await file.readline() == "eins\r\n"
                assert await file.read(2) == "zw"
                place = await file.tell()
                await file.rollover()
                assert await file.tell() == place
                assert await file.read() == "ei é\ndrei"
                await file.seek(place)
                assert await file.read() == "ei é\ndrei"
                await file.write("!")
                await file.seek(0)
                assert await file.read() == "eins\r\nzwei é\ndrei!"

    run(main())


def test_nothing_suspends_in_memory() -> None:
    """Not even a loop is needed."""

    def now(call: Coroutine[Any, Any, Any]) -> Any:
        try:
            call.send(None)
        except StopIteration as end:
            return end.value
        raise AssertionError("it suspended")

    for mode, line in (("w+b", b"a line\n"), ("w+", "a line\n")):
        file: Any = now(proactor.tempfile.SpooledTemporaryFile(1000, mode))
        assert now(file.write(line)) == 7
        now(file.writelines([line] * 2))
        assert now(file.tell()) == 21
        assert now(file.seek(0)) == 0
        assert now(file.readline()) == line
        assert now(file.readlines()) == [line] * 2
        assert now(file.truncate(7)) == 7
        now(file.seek(0))
        assert now(file.read()) == line
        now(file.flush())
        assert file.name is None
        now(file.close())


def test_the_descriptor(run: Run) -> None:
    async def main() -> None:
        async with proactor.tempfile.SpooledTemporaryFile() as file:
            await file.write(b"data")
            descriptor = await file.fileno()
            assert file.name == descriptor
            assert await file.fileno() == descriptor
            await file.flush()
            assert os.pread(descriptor, 10, 0) == b"data"
            assert file.mode == "rb+"
            into = bytearray(2)
            await file.seek(1)
            assert await file.readinto(into) == 2
            assert into == b"at"

    run(main())


def test_ended_while_it_rolls_over(run: Run, tmp_path: Path) -> None:
    """Everything stays in memory, and the next write tries again."""

    async def check(mode: str, data: Any, ending: type[BaseException], wait: bool) -> None:
        await (await proactor.tempfile.TemporaryFile()).close()
        before = descriptors()
        points = 0
        while True:
            file: Any = await proactor.tempfile.SpooledTemporaryFile(10, mode, dir=tmp_path)
            writing = file.write(data)
            if await drive(writing, points, wait=wait) is not writing:
                break
            end(writing, ending)
            assert file.name is None
            await until(lambda: descriptors() <= before)
            assert await file.write(data) == len(data)
            assert file.name is not None
            await file.seek(0)
            assert await file.read() == data * 2
            await file.close()
            points += 1
        assert points >= 2
        assert file.name is not None
        await file.close()
        assert os.listdir(tmp_path) == []

    async def main() -> None:
        for ending, wait in product(ENDS, (False, True)):
            await check("w+b", b"x" * 100_000, ending, wait)
            await check("w+", "x" * 100_000, ending, wait)

    run(in_time(main()))


def test_calls_wait_for_the_roll_over(run: Run) -> None:
    async def main() -> None:
        async with proactor.tempfile.SpooledTemporaryFile(10) as file:
            done = await asyncio.gather(*(file.write(b"%04d" % at) for at in range(200)))
            assert done == [4] * 200
            await file.seek(0)
            assert await file.read() == b"".join(b"%04d" % at for at in range(200))

    run(in_time(main()))
