"""`proactor.os.walk` and `fwalk`: what `os`'s give, in the same order."""

from __future__ import annotations

import asyncio
import os
import shutil
import threading
from collections.abc import AsyncIterator
from contextlib import aclosing
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from conftest import Run
from file_helpers import descriptors, in_time, until
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from os_helpers import unprivileged
from proactor import _walk
from proactor.os import fwalk, walk


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    tree = tmp_path / "tree"
    for name in ("a/a/deep", "a/b", "b/empty", "c"):
        (tree / name).mkdir(parents=True)
    for name in ("top", "a/one", "a/a/two", "b/three"):
        (tree / name).touch()
    (tree / "to b").symlink_to("b")
    (tree / "c" / "broken").symlink_to("nothing")
    (tree / "c" / "loop").symlink_to("loop")
    return tree


async def everything(steps: AsyncIterator[Any]) -> list[Any]:
    return [step async for step in steps]


def without_fds(steps: list[Any]) -> list[Any]:
    return [step[:3] for step in steps]


@pytest.mark.parametrize("follow", [False, True])
@pytest.mark.parametrize("topdown", [True, False])
def test_the_same_steps(run: Run, tree: Path, topdown: bool, follow: bool) -> None:
    tops: list[Any] = [tree, os.fsencode(tree), str(tree / "to b"), f"{tree}/"]
    for top in tops:
        expected = list(os.walk(top, topdown, followlinks=follow))
        assert run(everything(walk(top, topdown, followlinks=follow))) == expected
        found = run(everything(fwalk(top, topdown, follow_symlinks=follow)))
        assert without_fds(found) == without_fds(list(os.fwalk(top, topdown, follow_symlinks=follow)))


def test_fwalk_from_a_link_that_leads_nowhere(run: Run, tree: Path) -> None:
    top = os.open(tree, os.O_RDONLY)
    try:
        for name in ("broken", "loop"):
            for path, dir_fd in [(f"{tree}/c/{name}", None), (f"c/{name}", top)]:
                with pytest.raises(OSError, match=name) as expected:
                    list(os.fwalk(path, dir_fd=dir_fd))
                with pytest.raises(type(expected.value), match=name) as found:
                    run(everything(fwalk(path, dir_fd=dir_fd)))
                assert found.value.errno == expected.value.errno
    finally:
        os.close(top)


@pytest.mark.parametrize("topdown", [True, False])
def test_a_circle_of_links(run: Run, tmp_path: Path, topdown: bool) -> None:
    """Followed until there are too many for the kernel, which ends it."""
    (tmp_path / "below").mkdir()
    (tmp_path / "below" / "up").symlink_to("..")
    expected = list(os.walk(tmp_path, topdown, followlinks=True))
    assert len(expected) > 40
    assert run(everything(walk(tmp_path, topdown, followlinks=True))) == expected
    assert len(run(everything(walk(tmp_path, topdown)))) == 2
    assert len(run(everything(fwalk(tmp_path, topdown)))) == 2


trees = st.recursive(
    st.sampled_from(["file", "link to folder", "link to file", "broken link"]),
    lambda below: st.dictionaries(st.sampled_from("abcde"), below, max_size=4),
    max_leaves=20,
)


def build(path: Path, what: Any) -> None:
    if isinstance(what, dict):
        path.mkdir()
        for name, below in what.items():
            build(path / name, below)
    elif what == "file":
        path.touch()
    else:
        target = {"link to folder": "../folder", "link to file": "a", "broken link": "nothing"}[what]
        path.symlink_to(target)


@settings(
    max_examples=60,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(what=trees, topdown=st.booleans(), follow=st.booleans())
def test_random_trees(
    tmp_path_factory: pytest.TempPathFactory, what: Any, topdown: bool, follow: bool
) -> None:
    tmp = tmp_path_factory.mktemp("trees")
    (tmp / "folder").mkdir()
    build(tmp / "tree", what)

    async def main() -> None:
        expected = list(os.walk(tmp, topdown, followlinks=follow))
        assert await everything(walk(tmp, topdown, followlinks=follow)) == expected
        found = await everything(fwalk(tmp, topdown, follow_symlinks=follow))
        assert without_fds(found) == without_fds(list(os.fwalk(tmp, topdown, follow_symlinks=follow)))

    asyncio.run(main())


@pytest.mark.parametrize("function", [walk, fwalk])
def test_the_caller_chooses_the_directories(run: Run, tree: Path, function: Any) -> None:
    async def main() -> list[str]:
        seen = []
        async for path, folders, *_ in function(tree):
            seen.append(path.removeprefix(f"{tree}/"))
            if path == str(tree):
                assert sorted(folders) == ["a", "b", "c", "to b"]
                folders[:] = ["c", "new", "a"]
                (tree / "new" / "below").mkdir(parents=True)
            elif "b" in folders:
                folders.remove("b")
        return seen

    assert run(main()) == [str(tree), "c", "new", "new/below", "a", "a/a", "a/a/deep"]


@pytest.mark.parametrize("function", [walk, fwalk])
def test_a_directory_goes_away_under_way(run: Run, tree: Path, function: Any) -> None:
    async def main(onerror: Any) -> list[str]:
        seen = []
        async for path, folders, *_ in function(tree, onerror=onerror):
            seen.append(path.removeprefix(f"{tree}/"))
            if path == str(tree):
                folders[:] = ["a", "b", "c"]
                shutil.rmtree(tree / "b", ignore_errors=True)
        return seen

    errors: list[OSError] = []
    assert "b" not in run(main(errors.append))
    assert [type(error) for error in errors] == [FileNotFoundError]
    # `os.fwalk` names the directory relative to its parent.
    assert errors[0].filename == ("b" if function is fwalk else f"{tree}/b")
    assert "b" not in run(main(None))

    def stop(error: OSError) -> None:
        raise error

    with pytest.raises(FileNotFoundError):
        run(main(stop))


def test_a_link_takes_a_directorys_place(run: Run, tree: Path) -> None:
    async def main(function: Any) -> list[str]:
        seen = []
        async for path, folders, *_ in function(tree):
            seen.append(path.removeprefix(f"{tree}/"))
            if path == str(tree) and (tree / "b").is_dir():
                folders[:] = ["b", "top"]
                shutil.rmtree(tree / "b", ignore_errors=True)
                (tree / "b").symlink_to("a")
        (tree / "b").unlink()
        (tree / "b").mkdir()
        return seen

    assert run(main(walk)) == [str(tree)]
    assert run(main(fwalk)) == [str(tree)]


@pytest.mark.parametrize("name", ["nothing", "top", "top/below"])
@pytest.mark.parametrize("follow", [False, True])
def test_a_top_that_is_no_directory(run: Run, tree: Path, name: str, follow: bool) -> None:
    top = tree / name
    theirs: list[Any] = []
    ours: list[Any] = []
    expected = list(os.walk(top, onerror=lambda error: theirs.append(error.args)))
    assert run(everything(walk(top, onerror=lambda error: ours.append(error.args)))) == expected == []
    assert ours == theirs
    assert len(ours) == 1
    assert run(everything(walk(top))) == []
    try:
        steps = list(os.fwalk(top, follow_symlinks=follow))
    except OSError as error:
        with pytest.raises(type(error)):
            run(everything(fwalk(top, follow_symlinks=follow)))
    else:
        assert run(everything(fwalk(top, follow_symlinks=follow))) == steps == []


@pytest.mark.parametrize("function", [walk, fwalk])
def test_no_path_at_all(run: Run, function: Any) -> None:
    with pytest.raises(TypeError):
        run(everything(function(1.5)))


def test_permission_denied(run: Run, tmp_path: Path) -> None:
    (tmp_path / "closed").mkdir(mode=0)
    (tmp_path / "open").mkdir()
    theirs: list[Any] = []
    ours: list[Any] = []
    before = os.open(".", os.O_RDONLY)
    try:
        os.chdir(tmp_path)
        with unprivileged(tmp_path, tmp_path / "closed"):
            expected = list(os.walk(".", onerror=lambda error: theirs.append((error.errno, error.filename))))
            found = run(
                everything(walk(".", onerror=lambda error: ours.append((error.errno, error.filename))))
            )
            f_errors: list[OSError] = []
            run(everything(fwalk(onerror=f_errors.append)))
    finally:
        os.fchdir(before)
        os.close(before)
    assert found == expected
    assert ours == theirs == [(13, "./closed")]
    assert [type(error) for error in f_errors] == [PermissionError]


def test_descriptors_of_fwalk(run: Run, tree: Path) -> None:
    async def main(topdown: bool) -> None:
        before = descriptors()
        fds = set()
        async for path, _, _, fd in fwalk(tree, topdown):
            assert os.path.samestat(os.fstat(fd), os.stat(path))
            fds.add(fd)
        for fd in fds:
            with pytest.raises(OSError, match="Bad file descriptor"):
                os.fstat(fd)
        assert descriptors() == before

    run(main(True))
    run(main(False))


def test_fwalk_below_a_descriptor(run: Run, tree: Path) -> None:
    top = os.open(tree, os.O_RDONLY)
    try:
        expected = without_fds(list(os.fwalk("a", dir_fd=top)))
        assert without_fds(run(everything(fwalk("a", dir_fd=top)))) == expected
        here = without_fds(list(os.fwalk(dir_fd=top)))
        assert without_fds(run(everything(fwalk(dir_fd=top)))) == here
    finally:
        os.close(top)


@pytest.mark.parametrize("topdown", [True, False])
def test_leaving_early(run: Run, tree: Path, topdown: bool) -> None:
    async def main() -> None:
        before = descriptors()
        async with aclosing(fwalk(tree, topdown)) as steps:
            async for _ in steps:
                assert descriptors() > before
                break
        assert descriptors() == before
        async with aclosing(walk(tree, topdown)) as steps:
            async for _ in steps:
                assert descriptors() == before
                break

    run(main())


def test_kept_errors_keep_no_descriptors(run: Run, tree: Path) -> None:
    errors: list[OSError] = []

    def fail(error: OSError) -> None:
        raise error

    async def main() -> None:
        before = descriptors()
        for onerror in (errors.append, fail):
            try:
                async for path, folders, *_ in fwalk(tree, onerror=onerror):
                    if path == str(tree):
                        folders[:] = ["a", "nothing"]
            except OSError as error:
                errors.append(error)
            assert descriptors() == before

    run(main())
    assert [type(error) for error in errors] == [FileNotFoundError] * 2


def test_cancelled_while_a_thread_opens(run: Run, tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The descriptor that nobody waits for is closed, and so is that of the directory which it is in."""
    started, go_on = threading.Event(), threading.Event()

    def slow(name: Any, flags: int, *, dir_fd: int | None = None) -> int:
        if name == "a":
            started.set()
            assert go_on.wait(30)
        return os.open(name, flags, dir_fd=dir_fd)

    monkeypatch.setattr(_walk, "os", SimpleNamespace(**{**vars(os), "open": slow}))

    async def main() -> None:
        task = asyncio.create_task(everything(fwalk(tree)))
        await until(started.is_set)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await in_time(task)
        go_on.set()

    run(main())  # the fixture `no_leaks` sees to it


@pytest.mark.parametrize("function", [walk, fwalk])
def test_directories_are_read_in_threads(
    run: Run, tree: Path, monkeypatch: pytest.MonkeyPatch, function: Any
) -> None:
    readers = set()

    def scan(path: Any) -> Any:
        readers.add(threading.current_thread())
        return os.scandir(path)

    monkeypatch.setattr(_walk, "os", SimpleNamespace(**{**vars(os), "scandir": scan}))
    run(everything(function(tree)))
    assert readers
    assert threading.main_thread() not in readers
