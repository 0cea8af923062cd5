"""`read_many`: leaving early, and what it refuses."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from pathlib import Path
from typing import Any

import proactor
import pytest
from conftest import Run
from file_helpers import descriptors, in_time, until

SLOW = Path("/proc/self/status")  # Never read at once.


class TestClose:
    def test_left_early(self, run: Run) -> None:
        async def main() -> None:
            await proactor.read_bytes(SLOW)
            before = descriptors()
            async with aclosing(proactor.read_many([SLOW] * 1000, concurrency=8)) as batch:
                async for _, data in batch:
                    assert data
                    break
            with pytest.raises(StopAsyncIteration):
                await anext(batch)
            await batch.aclose()
            # What a worker has open it still closes.
            await until(lambda: not descriptors() - before)

        run(in_time(main()))

    def test_takes_no_more_paths(self, run: Run) -> None:
        taken: list[Path] = []

        def paths() -> Any:
            while True:
                taken.append(SLOW)
                yield SLOW

        async def main() -> None:
            batch = proactor.read_many(paths(), concurrency=4, ordered=False)
            await anext(batch)
            await batch.aclose()
            count = len(taken)
            assert [pair async for pair in batch] == []
            assert len(taken) == count

        run(in_time(main()))

    def test_while_a_task_waits(self, run: Run, tmp_path: Path) -> None:
        async def main() -> None:
            batch = proactor.read_many([SLOW])
            waiting = asyncio.ensure_future(batch.__anext__())
            await asyncio.sleep(0)
            if not waiting.done():
                with pytest.raises(RuntimeError, match="waiting"):
                    await batch.aclose()
            path, data = await waiting
            assert path == SLOW
            assert data
            await batch.aclose()

        run(in_time(main()))

    def test_before_it_has_begun(self, run: Run) -> None:
        async def main() -> list[Any]:
            batch = proactor.read_many([SLOW])
            await batch.aclose()
            return [pair async for pair in batch]

        assert run(in_time(main())) == []


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"concurrency": 0}, "concurrency must be at least 1, not 0"),
        ({"concurrency": -1}, "concurrency must be at least 1, not -1"),
        ({"workers": -1}, "workers must be at least 0, not -1"),
    ],
)
def test_a_number_out_of_its_bounds(options: dict[str, Any], text: str) -> None:
    paths: list[str] = []
    with pytest.raises(ValueError, match=text):
        proactor.read_many(paths, **options)


@pytest.mark.parametrize("path", ["a/b", b"a/b"])
def test_one_path_is_no_list_of_paths(path: Any) -> None:
    with pytest.raises(TypeError, match="iterable of paths"):
        proactor.read_many(path)


@pytest.mark.parametrize("engine", proactor.engines())
def test_a_source_without_an_end_can_be_given_up(run: Run, engine: str) -> None:
    """Nothing in /dev/zero ever waits, so whoever reads it has to look for himself."""

    async def main() -> None:
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(proactor.read_bytes("/dev/zero", engine=engine), 0.01)

    run(in_time(main()))
