"""`read_many(workers=...)`: other threads read chunks of the cached files. Nothing else may differ."""

from __future__ import annotations

import asyncio
import itertools
import os
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import proactor
import pytest
from capabilities import needs
from conftest import Run
from file_helpers import LARGE_BYTES, content, descriptors, evict, gathered, in_time, until

# Errors among the results, as most tests look at both.
read_many: Any = partial(proactor.read_many, return_exceptions=True)


pytest_plugins = ["file_fixtures"]

COUNT = 300
WORKERS = [1, 3]


def expected(at: int) -> bytes:
    return content(LARGE_BYTES if at % 100 == 63 else (at * 101) % 9000, at)


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Nobody changes it."""
    return make_tree(tmp_path_factory.mktemp("tree"))


def make_tree(folder: Path) -> list[Path]:
    """Small files, of which some are empty, and a few that always go to the engine."""
    paths = [folder / f"{at:03}" for at in range(COUNT)]
    for at, path in enumerate(paths):
        path.write_bytes(expected(at))
    return paths


def worker_threads() -> int:
    names = [(task / "comm").read_text().strip() for task in Path("/proc/self/task").iterdir()]
    return names.count("proactor-worker")


@pytest.mark.parametrize("workers", WORKERS)
def test_content(run: Run, engine: str, tree: list[Path], workers: int) -> None:
    contents = {path: expected(at) for at, path in enumerate(tree)}

    async def check(ordered: bool, concurrency: int) -> None:
        many = proactor.read_many(
            tree, ordered=ordered, concurrency=concurrency, workers=workers, engine=engine
        )
        pairs = await in_time(gathered(many))
        assert not ordered or [path for path, _ in pairs] == tree
        assert dict(pairs) == contents

    async def main() -> None:
        for concurrency in (4, 7, 8, 64, 10_000):
            await check(True, concurrency)
            await check(False, concurrency)

    run(main())


def test_another_thread_works(run: Run, tree: list[Path]) -> None:
    """Cached files stay on the calling thread unless somebody else was asked."""
    small = [path for at, path in enumerate(tree) if at % 100 != 63]

    async def main() -> list[int]:
        # Another test's may be there still.
        await until(lambda: worker_threads() == 0)
        seen = []
        for workers in (0, 2):
            await gathered(read_many(small * 3, workers=workers))
            seen.append(worker_threads())
        return seen

    without, with_two = run(main())
    assert without == 0
    assert 1 <= with_two <= 2


@needs("root", "drop caches")
@pytest.mark.parametrize("ordered", [True, False])
def test_some_are_cold(run: Run, engine: str, tree: list[Path], ordered: bool) -> None:
    """A chunk's files that are not cached go the way of all others."""

    async def main() -> dict[Any, Any]:
        many = read_many(itertools.chain(tree), ordered=ordered, workers=2, engine=engine)
        found: dict[Any, Any] = {}
        async for path, data in many:
            if len(found) == 20:
                evict(*tree[40::3])
            found[path] = data
        return found

    assert run(in_time(main())) == {path: expected(at) for at, path in enumerate(tree)}


@pytest.mark.parametrize("ordered", [True, False])
@pytest.mark.parametrize("workers", WORKERS)
def test_failures(run: Run, engine: str, tree: list[Path], ordered: bool, workers: int) -> None:
    missing = [str(tree[0].parent / f"missing{at}") for at in range(COUNT)]
    bad: list[Any] = ["with\0null", 3.5]
    paths: list[Any] = [*itertools.chain(*zip(tree, missing, strict=True)), *bad, *tree[:50]]
    many = read_many(paths, ordered=ordered, workers=workers, engine=engine)
    pairs = run(in_time(gathered(many)))
    assert not ordered or [path for path, _ in pairs] == paths
    assert len(pairs) == len(paths)
    contents = {path: expected(at) for at, path in enumerate(tree)}
    for path, value in pairs:
        if path in contents:
            assert value == contents[path]
        elif path in bad:
            assert isinstance(value, ValueError if path == bad[0] else TypeError)
        else:
            assert isinstance(value, FileNotFoundError)
            assert value.filename == path


def test_the_iterable_raises(run: Run, engine: str, tree: list[Path]) -> None:
    """In the middle of a chunk: the files before it still come, and those after it too."""

    class Paths:
        def __init__(self) -> None:
            self.left = iter([*tree[:100], None, *tree[100:]])

        def __iter__(self) -> Iterator[Path]:
            return self

        def __next__(self) -> Path:
            path = next(self.left)
            if path is None:
                raise ZeroDivisionError
            return path

    async def main() -> tuple[list[Path], int]:
        seen: list[Path] = []
        raised = 0
        many = read_many(Paths(), workers=1, engine=engine)
        while True:
            try:
                async for path, _ in many:
                    seen.append(path)
                return seen, raised
            except ZeroDivisionError:
                raised += 1

    assert run(in_time(main())) == (tree, 1)


@pytest.mark.parametrize("ordered", [True, False])
def test_cancellation_loses_nothing(run: Run, engine: str, tree: list[Path], ordered: bool) -> None:
    async def main() -> list[Path]:
        many = read_many(tree, ordered=ordered, concurrency=32, workers=2, engine=engine)
        seen: list[Path] = []
        for attempt in itertools.count():
            task = asyncio.ensure_future(anext(many))
            await asyncio.sleep(0)
            if attempt % 2:
                task.cancel()
            try:
                seen.append((await in_time(task))[0])
            except asyncio.CancelledError:
                continue
            except StopAsyncIteration:
                break
        return seen

    seen = run(main())
    assert sorted(seen) == tree
    assert not ordered or seen == tree


def test_bounds(run: Run, engine: str, tree: list[Path]) -> None:
    """Chunks count: no more than `concurrency` paths are taken and not handed out."""
    taken = 0

    def paths() -> Iterator[Path]:
        nonlocal taken
        for path in tree * 3:
            taken += 1
            yield path

    async def main() -> None:
        used = 0
        async for _ in read_many(paths(), concurrency=40, workers=3, engine=engine):
            used += 1
            assert taken - used <= 40

    run(in_time(main()))
    assert taken == 3 * COUNT


def test_left_early(run: Run, engine: str, tree: list[Path]) -> None:
    async def main() -> None:
        # What the engine makes for itself is there.
        await gathered(read_many(tree, workers=2, engine=engine))
        before = descriptors()
        for _ in range(20):
            async for path, _ in read_many(tree, workers=2, engine=engine):
                if path == tree[200]:
                    break
        await until(lambda: len(descriptors()) <= len(before))

    run(main())


def test_bad_workers(tree: list[Path]) -> None:
    bad: Any
    for bad in (-1, 1.5, "2"):
        with pytest.raises((ValueError, TypeError, OverflowError)):
            read_many(tree, workers=bad)


def test_files_that_vanish(run: Run, engine: str, tmp_path: Path) -> None:
    tree = make_tree(tmp_path)

    async def main() -> dict[Any, Any]:
        found: dict[Any, Any] = {}
        async for path, value in read_many(tree, workers=2, engine=engine):
            if len(found) == 100:
                for gone in tree[200:]:
                    os.unlink(gone)
            found[path] = value
        return found

    found = run(in_time(main()))
    assert list(found) == tree
    for at, path in enumerate(tree):
        # What was read ahead is there.
        assert found[path] == expected(at) if at < 200 else isinstance(found[path], (bytes, OSError))


@pytest.mark.parametrize("ordered", [True, False])
def test_files_that_the_helper_leaves(run: Run, engine: str, tmp_path: Path, ordered: bool) -> None:
    """Nothing else is in flight when they come back: they must reach the kernel all the same."""
    paths = [tmp_path / f"{at:02}" for at in range(28)]
    for at, path in enumerate(paths):
        path.write_bytes(content(100 if at < 20 else LARGE_BYTES, at))
    many = read_many(paths, ordered=ordered, workers=1, engine=engine)
    found = dict(run(in_time(gathered(many))))
    assert found == {path: path.read_bytes() for path in paths}


def test_failures_count(run: Run, tree: list[Path]) -> None:
    """However many paths are bad, no more than `concurrency` are taken ahead."""
    taken = 0

    def paths() -> Iterator[str]:
        nonlocal taken
        for path in itertools.chain(map(str, tree[:40]), itertools.repeat("with\0null")):
            taken += 1
            yield path

    async def main() -> None:
        used = 0
        async for _ in read_many(paths(), concurrency=64, workers=2):
            used += 1
            assert taken - used <= 64
            if used == 1_000:
                break

    run(in_time(main()))
