"""`read_many`: a batch of whole files behind one asynchronous iterator."""

from __future__ import annotations

import asyncio
import gc
import itertools
import os
import random
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import proactor
import pytest
from capabilities import needs
from conftest import Run
from file_helpers import (  # fmt: skip
    LARGE_BYTES,
    content,
    descriptors,
    evict,
    gathered,
    in_time,
    read_many,
    resident_bytes,
    turns,
    until,
)

pytest_plugins = ["file_fixtures"]

COUNT = 40


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Small files, and some that always go to the engine. Nobody changes them."""
    folder = tmp_path_factory.mktemp("tree")
    paths = [folder / f"{at:03}" for at in range(COUNT)]
    for at, path in enumerate(paths):
        path.write_bytes(expected(at))
    return paths


@pytest.fixture(scope="module")
def ten_thousand(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """Files with their names in them."""
    folder = tmp_path_factory.mktemp("ten_thousand")
    paths = [str(folder / str(at)) for at in range(10_000)]
    for at, path in enumerate(paths):
        Path(path).write_bytes(b"%d" % at)
    return paths


def expected(at: int) -> bytes:
    return content(LARGE_BYTES if at % 10 == 3 else at * 101, at)


async def _write(fifo: Path, data: bytes) -> None:
    """Opening waits for the reader, so not on the loop."""

    def work() -> None:
        with fifo.open("wb", buffering=0) as file:
            file.write(data)

    await asyncio.get_running_loop().run_in_executor(None, work)


class TestContent:
    @pytest.mark.parametrize("concurrency", [1, 2, 7, 64, 10_000])
    def test_in_order(self, run: Run, engine: str, tree: list[Path], concurrency: int) -> None:
        pairs = run(in_time(gathered(read_many(tree, concurrency=concurrency, engine=engine))))
        assert [path for path, _ in pairs] == tree
        assert all(data == expected(at) for at, (_, data) in enumerate(pairs))

    @pytest.mark.parametrize("concurrency", [1, 7, 64])
    def test_as_they_come(self, run: Run, engine: str, tree: list[Path], concurrency: int) -> None:
        many = read_many(tree, concurrency=concurrency, ordered=False, engine=engine)
        found = dict(run(in_time(gathered(many))))
        assert found == {path: expected(at) for at, path in enumerate(tree)}

    @needs("root", "drop caches")
    @pytest.mark.parametrize("ordered", [True, False])
    def test_cold(self, run: Run, engine: str, tree: list[Path], ordered: bool) -> None:
        evict(*tree)
        for path in tree[::3]:
            path.read_bytes()
        pairs = run(in_time(gathered(read_many(tree, ordered=ordered, engine=engine))))
        assert dict(pairs) == {path: expected(at) for at, path in enumerate(tree)}
        assert not ordered or [path for path, _ in pairs] == tree

    def test_the_very_objects_come_back(self, run: Run, engine: str, large: Path) -> None:
        paths: list[Any] = [str(large), os.fsencode(large), large, "/proc/self/comm"]
        pairs = run(in_time(gathered(read_many(paths, engine=engine))))
        assert all(found is given for (found, _), given in zip(pairs, paths, strict=True))

    def test_nothing(self, run: Run, engine: str) -> None:
        empty: list[Iterable[str]] = [[], iter([]), ()]
        for paths in empty:
            assert run(gathered(read_many(paths, engine=engine))) == []

    def test_the_same_file_again_and_again(self, run: Run, engine: str, large: Path) -> None:
        pairs = run(in_time(gathered(read_many([large] * 20, concurrency=8, engine=engine))))
        assert [data for _, data in pairs] == [content(LARGE_BYTES)] * 20

    def test_ten_thousand(self, run: Run, engine: str, ten_thousand: list[str]) -> None:
        async def main() -> tuple[int, int]:
            good = 0
            with turns() as count:
                async for path, data in read_many(ten_thousand, engine=engine):
                    good += data == os.path.basename(path).encode()
                return good, count()

        good, count = run(main())
        assert good == 10_000
        # Even when no file ever suspends.
        assert count > 0

    def test_after_the_end(self, run: Run, engine: str, large: Path) -> None:
        async def main() -> None:
            many = read_many([large], engine=engine)
            assert len(await in_time(gathered(many))) == 1
            for _ in range(3):
                with pytest.raises(StopAsyncIteration):
                    await anext(many)

        run(main())


class TestArguments:
    def test_concurrency(self) -> None:
        with pytest.raises(ValueError, match="concurrency"):
            read_many([], concurrency=0)
        with pytest.raises((ValueError, OverflowError)):
            read_many([], concurrency=-1)

    @pytest.mark.parametrize("paths", [None, 5], ids=repr)
    def test_paths(self, paths: Any) -> None:
        with pytest.raises(TypeError):
            read_many(paths)

    def test_an_unknown_engine(self, run: Run) -> None:
        async def main() -> None:
            with pytest.raises(ValueError, match="no_such_engine"):
                await gathered(read_many(["x"], engine="no_such_engine"))

        run(main())


BAD: list[tuple[Any, type[Exception]]] = [
    ("/missing", FileNotFoundError),
    ("/", IsADirectoryError),
    ("nul\0byte", ValueError),
    (None, TypeError),
    (5, TypeError),
]


class TestFailures:
    @pytest.mark.parametrize("ordered", [True, False])
    def test_returned(self, run: Run, engine: str, tree: list[Path], ordered: bool) -> None:
        paths: list[Any] = [*tree[:5], *(bad for bad, _ in BAD), *tree[5:]]
        pairs = run(in_time(gathered(read_many(paths, ordered=ordered, engine=engine))))
        assert not ordered or [path for path, _ in pairs] == paths
        found: dict[Any, Any] = dict(pairs)
        for bad, kind in BAD:
            error = found.pop(bad)
            assert type(error) is kind
            if isinstance(error, OSError):
                assert error.filename == bad
        assert found == {path: expected(at) for at, path in enumerate(tree)}

    @pytest.mark.parametrize("concurrency", [1, 4, 64])
    @pytest.mark.parametrize("ordered", [True, False])
    def test_raised_and_going_on(
        self, run: Run, engine: str, tree: list[Path], ordered: bool, concurrency: int
    ) -> None:
        paths: list[Any] = [*tree[:5], *(bad for bad, _ in BAD), *tree[5:]]

        async def main() -> tuple[dict[Any, Any], list[Any]]:
            many = proactor.read_many(
                paths,
                ordered=ordered,
                concurrency=concurrency,
                return_exceptions=False,
                engine=engine,
            )
            found: dict[Any, Any] = {}
            raised: list[type[Exception]] = []
            while True:
                try:
                    async for path, data in many:
                        found[path] = data
                    return found, raised
                except (OSError, ValueError, TypeError) as error:
                    raised.append(type(error))

        found, raised = run(in_time(main()))
        assert found == {path: expected(at) for at, path in enumerate(tree)}
        assert sorted(map(str, raised)) == sorted(str(kind) for _, kind in BAD)

    @pytest.mark.parametrize("return_exceptions", [True, False])
    def test_the_iterable_raises(
        self, run: Run, engine: str, tree: list[Path], return_exceptions: bool
    ) -> None:
        def paths() -> Iterator[Path]:
            yield from tree[:10]
            raise ZeroDivisionError

        async def main() -> list[Path]:
            seen = []
            many = proactor.read_many(
                paths(), concurrency=4, return_exceptions=return_exceptions, engine=engine
            )
            for _ in range(2):
                try:
                    async for path, _ in many:
                        seen.append(path)
                except ZeroDivisionError:
                    continue
            return seen

        # It is the iterable's failure and no file's; those that were on their way still come.
        assert run(in_time(main())) == tree[:10]

    def test_the_iterable_comes_back(self, run: Run, engine: str, tree: list[Path]) -> None:
        """A path of the iterable's may use the batch it is for, the loop, or nothing at all."""

        async def main() -> list[Any]:
            def paths() -> Iterator[Path]:
                for path in tree:
                    asyncio.get_running_loop().call_soon(gc.collect, 0)
                    yield path

            return await gathered(read_many(paths(), engine=engine))

        assert len(run(in_time(main()))) == COUNT


class TestBounds:
    @pytest.mark.parametrize("ordered", [True, False])
    @pytest.mark.parametrize("concurrency", [1, 3, 16])
    def test_paths_are_taken_as_they_are_used(
        self, run: Run, engine: str, large: Path, concurrency: int, ordered: bool
    ) -> None:
        taken = 0

        def paths() -> Iterator[Path]:
            nonlocal taken
            for _ in range(3 * concurrency):
                taken += 1
                yield large

        async def main() -> None:
            used = 0
            many = read_many(paths(), concurrency=concurrency, ordered=ordered, engine=engine)
            async for _ in many:
                used += 1
                # What is handed out is not held any more.
                assert taken - used <= concurrency
                if used % 7 == 0:
                    await asyncio.sleep(0.001)
                    assert taken - used <= concurrency

        run(in_time(main()))
        assert taken == 3 * concurrency

    def test_endless(self, run: Run, engine: str, tree: list[Path]) -> None:
        async def main() -> int:
            used = 0
            async for _ in read_many(itertools.cycle(tree[:3]), engine=engine):
                used += 1
                if used == 500:
                    break
            return used

        assert run(in_time(main())) == 500

    def test_nothing_is_read_before_it_is_asked_for(self, run: Run, engine: str, large: Path) -> None:
        async def main() -> None:
            paths = iter([large, large])
            many = read_many(paths, engine=engine)
            await asyncio.sleep(0.001)
            assert len(list(paths)) == 2
            del many

        run(main())

    def test_descriptors(self, run: Run, engine: str, large: Path) -> None:
        async def main() -> int:
            most = 0
            await proactor.read_bytes(large, engine=engine)
            before = len(descriptors())
            async for _ in read_many([large] * 30, concurrency=4, engine=engine):
                most = max(most, len(descriptors()) - before)
            return most

        # One for each file in flight, and what the engine makes for itself.
        assert run(in_time(main())) <= 4 + 4

    def test_memory(self, run: Run, engine: str, large: Path) -> None:
        async def main() -> tuple[int, int]:
            start = most = 0
            used = 0
            async for _, data in read_many([large] * 200, concurrency=4, engine=engine):
                used += 1
                assert isinstance(data, bytes)
                assert len(data) == LARGE_BYTES
                if used == 20:
                    start = resident_bytes()
                most = max(most, resident_bytes())
            return start, most

        start, most = run(in_time(main()))
        assert most - start < 8 * LARGE_BYTES


class TestLoop:
    @pytest.mark.parametrize("ordered", [True, False])
    def test_has_its_turn_while_cached_files_are_read(
        self, run: Run, tree: list[Path], ordered: bool
    ) -> None:
        small = [path for at, path in enumerate(tree) if at % 10 != 3]

        async def main() -> int:
            with turns() as count:
                await gathered(read_many(small * 300, ordered=ordered))
                return count()

        assert run(in_time(main())) > 2

    def test_many_iterators_at_once(self, run: Run, engine: str, tree: list[Path]) -> None:
        async def main() -> list[Any]:
            order = random.Random(1)
            lists = [order.sample(tree, COUNT) for _ in range(5)]
            found = await asyncio.gather(
                *(gathered(read_many(paths, concurrency=5, engine=engine)) for paths in lists)
            )
            return [[path for path, _ in pairs] == paths for pairs, paths in zip(found, lists, strict=True)]

        assert run(in_time(main())) == [True] * 5

    def test_what_is_queued_is_read_meanwhile(
        self, run: Run, engine: str, tree: list[Path], large: Path
    ) -> None:
        """The consumer may be busy with the file it has, or gone."""

        async def main() -> None:
            await proactor.read_bytes(large, engine=engine)
            before = descriptors()
            many = read_many([large, tree[1]], ordered=False, engine=engine)
            first, _ = await anext(many)
            await until(lambda: descriptors() <= before)
            # On a busy machine the large one may be the first.
            assert {first, (await in_time(anext(many)))[0]} == {large, tree[1]}

        for _ in range(5):
            run(main())

    def test_beside_single_reads(self, run: Run, engine: str, tree: list[Path], large: Path) -> None:
        async def main() -> None:
            async for path, _ in read_many(tree, engine=engine):
                assert await proactor.read_bytes(large, engine=engine) == content(LARGE_BYTES)
                assert await proactor.read_bytes(path, engine=engine) is not None

        run(in_time(main()))


class TestCancellation:
    def test_loses_nothing(self, run: Run, engine: str, tmp_path: Path, large: Path) -> None:
        fifo = tmp_path / "fifo"
        os.mkfifo(fifo)
        names = [(f"{large.parent}{'/.' * at}/{large.name}") for at in range(12)]

        async def main() -> list[str]:
            many = read_many([str(fifo), *names], concurrency=4, engine=engine)
            # The first waits for a writer, and with it all.
            for _ in range(5):
                task = asyncio.ensure_future(anext(many))
                await asyncio.sleep(0)
                task.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await task
            await _write(fifo, b"through")
            assert await in_time(anext(many)) == (str(fifo), b"through")
            seen: list[str] = []
            attempts = 0
            while True:
                task = asyncio.ensure_future(anext(many))
                await asyncio.sleep(0)
                attempts += 1
                if attempts % 2:
                    task.cancel()
                try:
                    path, data = await in_time(task)
                except asyncio.CancelledError:
                    continue
                except StopAsyncIteration:
                    return seen
                assert data == content(LARGE_BYTES)
                seen.append(path)

        assert run(main()) == names

    def test_wait_for(self, run: Run, engine: str, tmp_path: Path, large: Path) -> None:
        fifo = tmp_path / "fifo"
        os.mkfifo(fifo)

        async def main() -> None:
            many = read_many([large, fifo, large], ordered=False, engine=engine)
            assert (await in_time(anext(many)))[0] == large
            assert (await in_time(anext(many)))[0] == large
            for _ in range(3):
                # The FIFO waits for a writer.
                with pytest.raises(asyncio.TimeoutError):
                    await asyncio.wait_for(anext(many), 0.01)
            await _write(fifo, b"through")
            assert await in_time(anext(many)) == (fifo, b"through")
            with pytest.raises(StopAsyncIteration):
                await anext(many)

        run(main())

    @pytest.mark.parametrize("ordered", [True, False])
    def test_break_out_early(
        self, run: Run, engine: str, tree: list[Path], large: Path, ordered: bool
    ) -> None:
        async def main() -> None:
            await proactor.read_bytes(large, engine=engine)
            before = descriptors()
            for _ in range(5):
                async for _ in read_many([large, *tree, large], ordered=ordered, engine=engine):
                    break
            await until(lambda: descriptors() <= before)

        run(main())

    def test_an_iterator_dropped_in_flight(self, run: Run, engine: str, tmp_path: Path) -> None:
        fifo = tmp_path / "fifo"
        os.mkfifo(fifo)

        async def main() -> None:
            many = read_many([fifo] * 4, engine=engine)
            with pytest.raises(asyncio.TimeoutError):
                await asyncio.wait_for(anext(many), 0.01)
            del many
            assert await proactor.read_bytes("/proc/self/comm", engine=engine)

        run(main())

    def test_two_tasks_on_one_iterator(self, run: Run, engine: str, tmp_path: Path) -> None:
        fifo = tmp_path / "fifo"
        os.mkfifo(fifo)

        async def main() -> None:
            many = read_many([fifo], engine=engine)
            first = asyncio.ensure_future(anext(many))
            await asyncio.sleep(0.01)
            with pytest.raises(RuntimeError, match="another task"):
                await in_time(anext(many))
            # Nothing has come of it.
            await _write(fifo, b"through")
            assert await in_time(first) == (fifo, b"through")

        run(main())


class TestLeaks:
    def test_no_reference_is_left(self, run: Run, engine: str, large: Path) -> None:
        async def main() -> None:
            names = [str(large), str(large) + "-missing", "/proc/self/comm"]
            now, most = [0] * 4, [sys.maxsize] * 4

            def is_settled() -> bool:
                now[:] = [len(descriptors()), *map(sys.getrefcount, names)]
                # What is left would be five more: `ready.rs` keeps one, whichever it is.
                return all(count <= before + 1 for count, before in zip(now, most, strict=True))

            for _ in range(2):
                for _ in range(5):
                    await gathered(read_many(names * 5, concurrency=4, engine=engine))
                    await anext(read_many(names, engine=engine))
                await until(is_settled)
                most[:] = now

        run(main())

    def test_a_batch_of_ten_thousand_failures(self, run: Run, engine: str) -> None:
        async def main() -> int:
            used, start = 0, 0
            async for _, error in read_many(("/missing" for _ in range(10_000)), engine=engine):
                assert type(error) is FileNotFoundError
                used += 1
                if used == 1000:
                    start = sys.getallocatedblocks()
            return sys.getallocatedblocks() - start

        assert run(in_time(main())) < 1000
