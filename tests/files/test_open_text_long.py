"""Text files longer than a chunk, whose lines are decoded natively, against `io.open`; and their calls."""

from __future__ import annotations

import asyncio
import gc
import random
import sys
from pathlib import Path
from typing import Any

import proactor
import pytest
from conftest import Run
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from test_open_parity import Step, both

EXAMPLES = settings(
    max_examples=40,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
# Bytes decoded at a time.
CHUNK = 8192


def long_text(seed: int) -> str:
    """About five chunks. Most are plain ASCII with one kind of line end, some are not."""
    dice = random.Random(seed)
    end = dice.choice(["\n", "\n", "\n", "\r\n", "\r"])
    odd = dice.choice([0.0, 0.0, 0.005, 0.05])
    lines = []
    length = 0
    while length < 5 * CHUNK:
        line = "x" * dice.choice(
            [0, 1, 30, 80, 200, CHUNK - 1, CHUNK, 2 * CHUNK] if dice.random() < 0.1 else [30]
        )
        if dice.random() < odd:
            line += dice.choice(["é", "☃", "😀", "\r", "\x00", "\r\n"])
        lines.append(line + (dice.choice(["\n", "\r", "\r\n"]) if dice.random() < odd else end))
        length += len(lines[-1])
    return "".join(lines) + dice.choice(["", "no end", "\r"])


steps = st.one_of(
    *[st.tuples(st.just("readline"), st.just(-1))] * 4,
    st.tuples(st.just("readline"), st.integers(0, 2 * CHUNK)),
    st.tuples(st.just("read"), st.integers(0, CHUNK + 100)),
    st.tuples(st.just("mark")),
    st.tuples(st.just("back"), st.integers(0, 5)),
    st.tuples(st.just("stay")),
    st.tuples(st.just("seek"), st.just(0), st.sampled_from([0, 2])),
)


@pytest.mark.leaks("the loop and its driver are the module's")
@pytest.mark.parametrize("encoding", ["utf-8", "latin-1", "utf-16"])
@pytest.mark.parametrize("newline", [None, "", "\n", "\r", "\r\n"])
def test_reading(loop: asyncio.AbstractEventLoop, tmp_path: Path, encoding: str, newline: str | None) -> None:
    @EXAMPLES
    @given(st.lists(st.tuples(steps, st.integers(1, 100)), max_size=25), st.integers(0, 1000))
    def check(plan: list[tuple[Step, int]], seed: int) -> None:
        script = [step for step, times in plan for _ in range(times if step[0] == "readline" else 1)]
        content = long_text(seed).encode(encoding, "replace")
        options: dict[str, Any] = {"encoding": encoding, "newline": newline, "errors": "replace"}
        loop.run_until_complete(both(tmp_path, content, script, "r", **options))

    check()


@pytest.mark.leaks("the loop and its driver are the module's")
def test_a_write_after_lines_goes_where_it_goes_in_io(
    loop: asyncio.AbstractEventLoop, tmp_path: Path
) -> None:
    @EXAMPLES
    @given(st.integers(0, 2000), st.booleans(), st.integers(0, 1000))
    def check(count: int, to_the_end: bool, seed: int) -> None:
        script: list[Step] = [("readline", -1)] * count
        script += [("seek", 0, 2)] if to_the_end else []
        script += [("write", "new\n"), ("write", "é\n"), ("seek", 0, 0), ("read", -1)]
        content = long_text(seed).encode()
        loop.run_until_complete(both(tmp_path, content, script, "r+", encoding="utf-8", newline="\n"))

    check()


class TestCalls:
    def test_one_is_awaited_once(self, run: Run, tmp_path: Path) -> None:
        async def main() -> None:
            async with proactor.open(tmp_path / "f", "w+") as file:
                for call in (file.write("a line\n"), file.buffer.tell()):
                    await call
                    with pytest.raises(RuntimeError, match="already awaited"):
                        await call
                    # As a coroutine that has ended.
                    call.close()
                    assert call.__name__ in repr(call)  # type: ignore[attr-defined]
                    assert call.__name__ in call.__qualname__  # type: ignore[attr-defined]

        run(main())

    def test_one_that_is_not_awaited_does_nothing_and_warns(self, run: Run, tmp_path: Path) -> None:
        path = tmp_path / "f"

        async def main() -> None:
            async with proactor.open(path, "w+") as file:
                await file.write("kept\n")
                with pytest.warns(RuntimeWarning, match=r"'TextFile\.write' was never awaited"):
                    file.write("lost\n")  # type: ignore[unused-coroutine]
                await file.seek(0)
                with pytest.warns(RuntimeWarning, match=r"'TextFile\.readline' was never awaited"):
                    file.readline()  # type: ignore[unused-coroutine]
                assert await file.readline() == "kept\n"

        run(main())

    def test_tasks_share_a_file_in_order(self, run: Run, tmp_path: Path) -> None:
        path = tmp_path / "f"

        async def write(file: proactor.TextFile, at: int) -> None:
            for number in range(200):
                await file.write(f"{at} {number} {'x' * 50}\n")

        async def main() -> None:
            async with proactor.open(path, "w") as file:
                await asyncio.gather(*(write(file, at) for at in range(20)))
            lines = path.read_text().splitlines()
            assert len(lines) == 20 * 200
            for at in range(20):
                mine = [line.split()[1] for line in lines if line.split()[0] == str(at)]
                assert mine == [str(number) for number in range(200)]

            async with proactor.open(path) as file:
                found: list[str] = []

                async def read() -> None:
                    async for line in file:
                        found.append(line.rstrip("\n"))

                await asyncio.gather(*(read() for _ in range(20)))
            assert found == lines

        run(main())

    def test_the_loop_gets_its_turn(self, run: Run, tmp_path: Path) -> None:
        """Readers and writers of what needs no waiting let others in before they are done."""
        path = tmp_path / "f"
        path.write_text("a line of some length, or so\n" * 200_000)

        async def read() -> None:
            async with proactor.open(path) as file:
                async for _ in file:
                    pass

        async def write() -> None:
            async with proactor.open(tmp_path / "g", "w") as file:
                for _ in range(200_000):
                    await file.write("a line of some length, or so\n")

        async def main() -> None:
            for work in (read, write):
                task = asyncio.create_task(work())
                turns = 0
                while not task.done():
                    await asyncio.sleep(0)
                    turns += 1
                await task
                assert turns > 1

        run(main())

    def test_cancelled_while_it_gives_way(self, run: Run, tmp_path: Path) -> None:
        """A write that gives way has written; a read has taken nothing."""
        path = tmp_path / "f"

        async def main() -> None:
            written = 0

            async def write(file: proactor.TextFile) -> None:
                nonlocal written
                while True:
                    written += 1
                    await file.write(f"{written}\n")

            async with proactor.open(path, "w") as file:
                task = asyncio.create_task(write(file))
                await asyncio.sleep(0)
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)
            assert path.read_text() == "".join(f"{at + 1}\n" for at in range(written))

            lines = 0

            async def read(file: proactor.TextFile) -> None:
                nonlocal lines
                async for _ in file:
                    lines += 1

            path.write_text("".join(f"{at}\n" for at in range(300_000)))
            async with proactor.open(path) as file:
                while True:
                    task = asyncio.create_task(read(file))
                    await asyncio.sleep(0)
                    if task.done():
                        break
                    task.cancel()
                    await asyncio.gather(task, return_exceptions=True)
                    if line := await file.readline():
                        assert line == f"{lines}\n"
                        lines += 1
            assert lines == 300_000

        run(main())

    def test_nothing_grows(self, run: Run, tmp_path: Path) -> None:
        path = tmp_path / "f"

        async def work(lines: int) -> None:
            async with proactor.open(path, "w+", encoding="utf-8") as file:
                for at in range(lines):
                    await file.write(f"a line of some length, or so {at}\n")
                await file.seek(0)
                async for line in file:
                    assert line
                await file.buffer.seek(0)
                async for data in file.buffer:
                    assert data

        async def main() -> None:
            await work(2000)
            gc.collect()
            blocks = sys.getallocatedblocks()
            await work(20_000)
            gc.collect()
            assert sys.getallocatedblocks() - blocks < 500

        run(main())

    def test_the_collector_knows_them(self, run: Run, tmp_path: Path) -> None:
        """Those that are used again, too."""

        async def main() -> None:
            async with proactor.open(tmp_path / "f", "w+b") as file:
                for _ in range(10):
                    await file.write(b"so that calls are used again\n")
                call = file.fsync()
                assert gc.is_tracked(call)
                call.send(None)
                assert gc.is_tracked(call)
                with pytest.raises(asyncio.CancelledError):
                    call.throw(asyncio.CancelledError())

        run(main())
