"""Cached files of a list are read a few at a time by `read_many`, and nobody notices."""

from __future__ import annotations

import asyncio
import contextlib
import os
import resource
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import proactor
import pytest
from capabilities import needs
from conftest import Run
from file_helpers import content, descriptors, evict, gathered, in_time, read_many
from seccomp import FILTER

pytest_plugins = ["file_fixtures"]

# On each architecture.
CLOSE_RANGE = 436
# So many that most are read behind others, and the last ones alone.
COUNT = 100


@pytest.fixture
def tree(tmp_path: Path) -> list[Path]:
    paths = [tmp_path / f"{at:03}" for at in range(COUNT)]
    for at, path in enumerate(paths):
        path.write_bytes(content(100 + at, at))
    return paths


def strace_names(program: str, *arguments: str) -> list[str]:
    """The system calls of a program."""
    command = ["strace", "-f", "-qq", "-e", "trace=close_range", sys.executable, "-c", program, *arguments]
    traced = subprocess.run(command, capture_output=True, text=True, check=True)
    return [line.split("(")[0].split()[-1] for line in traced.stderr.splitlines() if "(" in line]


@pytest.mark.parametrize("kind", [list, tuple])
@pytest.mark.parametrize("concurrency", [1, 2, 15, 64])
@pytest.mark.parametrize("ordered", [True, False])
def test_content(run: Run, engine: str, tree: list[Path], kind: Any, concurrency: int, ordered: bool) -> None:
    many = read_many(kind(tree), concurrency=concurrency, ordered=ordered, engine=engine)
    pairs = run(in_time(gathered(many)))
    assert pairs == [(path, content(100 + at, at)) for at, path in enumerate(tree)]


def test_all_that_is_no_small_file(run: Run, engine: str, tree: list[Path], tmp_path: Path) -> None:
    (tmp_path / "empty").write_bytes(b"")
    (tmp_path / "large").write_bytes(content(200_000))
    (tmp_path / "huge").write_bytes(content(3_000_000))
    odd: list[Any] = [
        tmp_path / "missing",
        tmp_path,
        "with\0nul",
        5,
        tmp_path / "empty",
        tmp_path / "large",
        "/proc/self/comm",
        tmp_path / "huge",
        "/dev/null",
    ]
    paths: list[Any] = [*tree[:30]]
    for path in odd:
        paths += [path, *tree[30:37]]
    paths += tree

    def said(path: Any) -> object:
        try:
            with open(path, "rb") as file:
                return file.read()
        except OSError as e:
            return type(e), e.errno, os.fspath(e.filename)
        except (TypeError, ValueError) as e:
            return type(e)

    def found(value: Any) -> object:
        if isinstance(value, OSError):
            return type(value), value.errno, os.fspath(value.filename)
        return type(value) if isinstance(value, Exception) else value

    expected = [TypeError if path == 5 else said(path) for path in paths]
    pairs = run(in_time(gathered(read_many(paths, engine=engine))))
    assert [path for path, _ in pairs] == paths
    assert [found(value) for _, value in pairs] == expected


def test_an_error_comes_in_its_place(run: Run, engine: str, tree: list[Path], tmp_path: Path) -> None:
    paths = [*tree[:40], tmp_path / "missing", *tree[40:]]

    async def main() -> None:
        many = proactor.read_many(paths, engine=engine)
        for path in tree[:40]:
            assert (await anext(many))[0] == path
        with pytest.raises(FileNotFoundError):
            await anext(many)
        assert [path async for path, _ in many] == tree[40:]

    run(in_time(main()))


@needs("root", "drop caches")
@pytest.mark.parametrize("ordered", [True, False])
@pytest.mark.parametrize("cold", [[50], [20, 21, 22, 60], range(17, COUNT, 3)], ids=str)
def test_some_are_cold(run: Run, engine: str, tree: list[Path], ordered: bool, cold: Iterable[int]) -> None:
    cold = set(cold)
    for at in cold:
        evict(tree[at])
    for at in set(range(COUNT)) - cold:
        tree[at].read_bytes()
    pairs = run(in_time(gathered(read_many(tree, ordered=ordered, engine=engine))))
    assert dict(pairs) == {path: content(100 + at, at) for at, path in enumerate(tree)}
    assert not ordered or [path for path, _ in pairs] == tree


def test_no_file_is_open_when_one_is_handed_out(run: Run, engine: str, tree: list[Path]) -> None:
    """To close a file gives up the process's locks on it, so none may be closed later."""

    async def main() -> None:
        many = read_many(tree, engine=engine)
        await anext(many)
        before = descriptors()
        async for _ in many:
            assert descriptors() == before

    run(in_time(main()))


def test_a_list_may_grow_meanwhile(run: Run, engine: str, tree: list[Path]) -> None:
    async def main() -> int:
        queue, count = tree[:50], 0
        async for path, _ in proactor.read_many(queue, engine=engine):
            count += 1
            if path == queue[-1] and len(queue) < 53:
                queue.append(tree[0])
        return count

    # Each last file appends one behind it, which is seen.
    assert run(in_time(main())) == 53


def test_an_iterator_is_not_asked_ahead(run: Run, engine: str, tree: list[Path]) -> None:
    taken = 0

    def paths() -> Iterator[Path]:
        nonlocal taken
        for path in tree:
            taken += 1
            yield path

    async def main() -> None:
        count = 0
        async for _ in proactor.read_many(paths(), engine=engine):
            count += 1
            assert taken == count

    run(in_time(main()))


@pytest.mark.parametrize("count", [17, 20, 33])
def test_left_early(run: Run, engine: str, tree: list[Path], count: int) -> None:
    async def main() -> None:
        async with contextlib.aclosing(proactor.read_many(tree, engine=engine)) as many:
            for _ in range(count):
                await anext(many)
        with pytest.raises(StopAsyncIteration):
            await anext(many)

    before = descriptors()
    run(in_time(main()))
    assert descriptors() == before


def test_cancelled(run: Run, engine: str, tree: list[Path]) -> None:
    """A task that is cancelled between two files loses none."""

    async def main() -> None:
        many, found = proactor.read_many(tree, engine=engine), []

        async def some() -> None:
            async for path, _ in many:
                found.append(path)
                if len(found) % 7 == 0:
                    asyncio.current_task().cancel()  # type: ignore[union-attr]
                    await asyncio.sleep(0)

        while len(found) < COUNT:
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.create_task(some())
        assert found == tree

    run(in_time(main()))


def test_few_descriptors(run: Run, engine: str, tree: list[Path]) -> None:
    async def main() -> None:
        many = proactor.read_many(tree, engine=engine)
        found = [await anext(many)]
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        most = max(map(int, descriptors()))
        for room in (1, 3, 66, 70):
            resource.setrlimit(resource.RLIMIT_NOFILE, (most + room, hard))
            try:
                found += [await anext(many) for _ in range(20)]
            finally:
                resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        found += [pair async for pair in many]
        assert found == [(path, content(100 + at, at)) for at, path in enumerate(tree)]

    run(in_time(main()))


PROGRAM = """
import asyncio, os, sys, proactor
async def main():
    count = 0
    async for _ in proactor.read_many(sys.argv[1:2]):
        before = len(os.listdir("/proc/self/fd"))
    async for _ in proactor.read_many(sys.argv[1:]):
        count += 1
    assert count == len(sys.argv) - 1
    assert len(os.listdir("/proc/self/fd")) == before
asyncio.run(main())
"""


@needs("seccomp filter")
@pytest.mark.parametrize("errno", [1, 38], ids=["EPERM", "ENOSYS"])
def test_the_call_is_not_needed(tree: list[Path], errno: int) -> None:
    program = f"{FILTER}\ndeny({errno}, {CLOSE_RANGE})\n{PROGRAM}"
    subprocess.run([sys.executable, "-c", program, *map(os.fspath, tree)], check=True)


@needs("strace")
def test_several_are_closed_by_one_call(tree: list[Path]) -> None:
    names = strace_names(PROGRAM, *map(os.fspath, tree))
    assert names.count("close_range") >= 3
