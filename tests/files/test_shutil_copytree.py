"""`copytree` to a name that is free: what it leaves, wherever it is cancelled, and names it cannot have."""

from __future__ import annotations

import asyncio
import os
import shutil
from pathlib import Path
from typing import Any

import pytest
from conftest import Run
from file_helpers import in_time
from proactor import _copytree
from proactor import shutil as ours


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    tree = tmp_path / "tree"
    (tree / "folder").mkdir(parents=True)
    (tree / "folder" / "file").write_bytes(b"data")
    return tree


def outcome(path: Path) -> list[str]:
    return sorted(str(one.relative_to(path)) for one in path.rglob("*"))


@pytest.mark.parametrize("step", ["_make_top", "_name"])
@pytest.mark.parametrize("taken", [False, True])
def test_cancelled_in_a_step(
    run: Run, tree: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str, taken: bool
) -> None:
    """The name has what was copied, or is somebody's; no other name is left. `_name` has done it by then."""
    place = tmp_path / "place"
    target = place / "new"
    original = getattr(_copytree, step)

    async def main() -> None:
        loop = asyncio.get_running_loop()

        def cancels(*args: Any) -> Any:
            if taken and not target.exists():
                target.mkdir(parents=True)
                (target / "theirs").touch()
            result = original(*args)
            loop.call_soon_threadsafe(task.cancel)
            # The loop comes to it while the step is in hand.
            asyncio.run_coroutine_threadsafe(asyncio.sleep(0), loop).result()
            return result

        monkeypatch.setattr(_copytree, step, cancels)
        task = asyncio.ensure_future(ours.copytree(tree, target))
        with pytest.raises(asyncio.CancelledError):
            await task

    run(in_time(main()))
    if taken:
        assert outcome(target) == ["theirs"]
    elif step == "_name":
        assert outcome(target) == outcome(tree)
    assert {one.name for one in place.iterdir()} <= {"new"}


def test_cancelled_while_somebody_takes_the_name(
    run: Run, tree: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = tmp_path / "place"

    async def main() -> None:
        async def watched(*_: Any) -> Any:
            (place / "new").touch()
            raise asyncio.CancelledError

        monkeypatch.setattr(_copytree, "watched", watched)
        with pytest.raises(asyncio.CancelledError):
            await ours.copytree(tree, place / "new")

    run(in_time(main()))
    assert [one.name for one in place.iterdir()] == ["new"]


@pytest.mark.parametrize("target", ["file/new", "dangling/new", "dangling", "new\udc80\ud800", "new\0name"])
def test_a_name_that_it_cannot_have(run: Run, tree: Path, tmp_path: Path, target: str) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "dangling").symlink_to("nowhere")
    before = outcome(tmp_path)
    with pytest.raises((OSError, ValueError)) as expected:
        shutil.copytree(tree, tmp_path / target)
    assert outcome(tmp_path) == before

    async def main() -> None:
        with pytest.raises((OSError, ValueError)) as found:
            await ours.copytree(tree, tmp_path / target)
        assert (found.type, str(found.value)) == (expected.type, str(expected.value))

    run(in_time(main()))
    assert outcome(tmp_path) == before


def test_into_its_own_source(run: Run, tree: Path, tmp_path: Path) -> None:
    """Directories are listed before what is to be in them is made."""
    other = tmp_path / "other"
    shutil.copytree(tree, other)
    shutil.copytree(other, other / "new" / "copy")
    run(in_time(ours.copytree(tree, tree / "new" / "copy")))
    assert outcome(tree) == outcome(other)


def test_a_neighbour_is_not_in_it(run: Run, tree: Path) -> None:
    """Whose name begins as the source's does."""
    beside = Path(os.fspath(tree) + "2")
    assert run(_copytree.by_copier(tree, beside / "copy", False))
    assert outcome(beside / "copy") == outcome(tree)
