"""`proactor.copy_plan`, `copy_shard` and `copy_finish`: what is Python's about a copy in shards."""

from __future__ import annotations

import asyncio
import errno
import gc
import os
import pickle
from pathlib import Path

import proactor
import pytest
from conftest import Run


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    tree = tmp_path / "tree"
    (tree / "d").mkdir(parents=True)
    for at in range(50):
        (tree / f"{at}").write_bytes(bytes(at * 100))
    (tree / "d" / os.fsdecode(b"\xff")).write_text("odd")
    os.link(tree / "49", tree / "d" / "name")
    return tree


def partial_of(place: Path) -> Path:
    """The new tree, which has no name yet."""
    (partial,) = place.glob("copy.partial-*")
    return partial


def sizes(tree: Path) -> list[int]:
    """Of what there is of a large file."""
    return [path.stat().st_size for path in tree.glob("large*")]


def unmount(tree: Path) -> None:
    """As it looks where its file system is not mounted."""
    tree.rename(tree.with_name("elsewhere"))
    tree.mkdir()


def test_all_steps(run: Run, tree: Path, tmp_path: Path) -> None:
    target = tmp_path / "copy"

    async def main() -> proactor.CopyReport:
        plan = await proactor.copy_plan(tree, os.fsencode(target), shards=4, jobs=1)
        assert (plan.source, plan.target) == (str(tree), str(target))
        assert (plan.entries, plan.bytes) == (53, sum(at * 100 for at in range(50)) + 4900 + 3)
        sent = pickle.loads(pickle.dumps(plan))
        assert sent == plan
        assert sent.shards == 4
        seen: list[proactor.CopyProgress] = []
        await proactor.copy_shard(sent, 3, progress=seen.append)
        assert seen[-1].fraction == pytest.approx(1)
        await asyncio.gather(*(proactor.copy_shard(sent, shard) for shard in (1, 0, 2, 1)))
        assert target.name not in os.listdir(tmp_path)
        report = await proactor.copy_finish(sent, progress=seen.append)
        assert seen[-1].fraction == pytest.approx(1)
        return report

    report = run(main())
    assert (report.files, report.directories, report.hard_links, report.failures) == (51, 2, 1, 0)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["copy", "tree"]
    assert os.path.samefile(target / "49", target / "d" / "name")
    assert (target / "7").read_bytes() == (tree / "7").read_bytes()


def test_errors(run: Run, tree: Path, tmp_path: Path) -> None:
    async def main() -> None:
        with pytest.raises(NotADirectoryError) as no_directory:
            await proactor.copy_plan(tree / "7", tmp_path / "copy")
        assert no_directory.value.filename == str(tree / "7")
        with pytest.raises(FileExistsError):
            await proactor.copy_plan(tree / "d", tree / "7")
        with pytest.raises(OSError, match="into itself"):
            await proactor.copy_plan(tree, tree / "new")
        with pytest.raises(FileNotFoundError):
            await proactor.copy_plan(tree / "missing", tmp_path / "copy")
        with pytest.raises(FileNotFoundError) as empty:
            await proactor.copy_plan(tree, "")
        assert empty.value.filename == ""
        plan = await proactor.copy_plan(tree, tmp_path / "copy", shards=3)
        with pytest.raises(ValueError, match="there is no shard 3: they are 0 to 2"):
            await proactor.copy_shard(plan, 3)
        with pytest.raises(ValueError, match="shard: -1 is less than 0"):
            await proactor.copy_shard(plan, -1)
        for shards in (-1, 0):
            with pytest.raises(ValueError, match=f"shards: {shards} "):
                await proactor.copy_plan(tree, tmp_path / "another", shards=shards)
        with pytest.raises(OSError, match="shards are not done: 0-2") as busy:
            await proactor.copy_finish(plan)
        assert busy.value.errno == errno.EBUSY
        with pytest.raises(ValueError, match="not the plan of a copy"):
            await proactor.copy_shard(proactor.CopyPlan("{}"), 0)
        broken = plan.json.replace('"shards":[', '"shards":3,"others":[')
        for text in ("", "[]", "{}", '{"shards": []}', broken):
            with pytest.raises(ValueError, match="not the plan of a copy"):
                _ = proactor.CopyPlan(text).entries
        unmount(tree)
        with pytest.raises(OSError, match="is its file system mounted here") as another:
            await proactor.copy_shard(plan, 0)
        assert (another.value.errno, another.value.filename) == (errno.ESTALE, str(tree))

    run(main())


def test_names_of_a_file_in_two_shards(run: Run, tmp_path: Path) -> None:
    """Whoever is second has made a link, also if both began at the same time."""
    (tmp_path / "tree").mkdir()
    (tmp_path / "tree" / "a").write_bytes(bytes(1 << 20))
    os.link(tmp_path / "tree" / "a", tmp_path / "tree" / "z")

    async def main() -> None:
        for turn in range(5):
            plan = await proactor.copy_plan(tmp_path / "tree", tmp_path / f"copy{turn}", shards=2)
            assert plan.shards == 2
            await asyncio.gather(*(proactor.copy_shard(plan, shard) for shard in range(2)))
            report = await proactor.copy_finish(plan)
            assert (report.files, report.hard_links) == (1, 1)

    run(main())


def test_failures(run: Run, tree: Path, tmp_path: Path) -> None:
    async def main() -> None:
        plan = await proactor.copy_plan(tree, tmp_path / "copy", shards=1)
        in_the_way = partial_of(tmp_path) / "7"
        os.mkdir(in_the_way)
        with pytest.raises(proactor.CopyError) as caught:
            await proactor.copy_shard(plan, 0)
        assert caught.value.filename == str(tmp_path / "copy" / "7")
        assert caught.value.report.files == 50
        os.rmdir(in_the_way)
        again = await proactor.copy_shard(plan, 0)
        assert (again.failures, again.files + again.resumed) == (0, 51)
        report = await proactor.copy_finish(plan)
        assert (report.files, report.resumed) == (again.files, again.resumed)

    run(main())


def test_cancelled_plan(run: Run, tree: Path, tmp_path: Path) -> None:
    """What it ended with is nobody's business."""

    async def main() -> list[object]:
        told: list[object] = []
        asyncio.get_running_loop().set_exception_handler(lambda loop, context: told.append(context))
        for _ in range(20):
            task = asyncio.ensure_future(proactor.copy_plan(tree, tmp_path / "copy"))
            await asyncio.sleep(0)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            del task
            gc.collect()
        return told

    assert run(main()) == []


def test_cancelled(run: Run, tree: Path, tmp_path: Path) -> None:
    """It ends in order, and goes on."""
    with (tree / "large").open("wb") as large:
        large.truncate(256 << 20)

    async def main() -> None:
        plan = await proactor.copy_plan(tree, tmp_path / "copy", shards=1, sparse="never")
        partial = partial_of(tmp_path)
        task = asyncio.ensure_future(proactor.copy_shard(plan, 0))
        while not any(sizes(partial)):
            assert not task.done()
            await asyncio.sleep(0.001)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert sizes(partial) == []
        os.unlink(tree / "large")
        await proactor.copy_shard(plan, 0)
        await proactor.copy_finish(plan)

    run(main())
    assert len(os.listdir(tmp_path / "copy")) == 51
