"""`proactor.copy`: what a Python program sees of the copier, which is tested in Rust and by the command."""

from __future__ import annotations

import asyncio
import errno
import functools
import itertools
import os
import pickle
import stat
from pathlib import Path

import proactor
import pytest
from conftest import Run


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """Files, an empty directory, a link, a hard link and a FIFO."""
    tree = tmp_path / "tree"
    (tree / "empty").mkdir(parents=True)
    for at in range(30):
        (tree / f"{at}").write_bytes(bytes([at]) * at * 1000)
    os.symlink("3", tree / "link")
    os.link(tree / "4", tree / "name")
    os.mkfifo(tree / "fifo")
    os.utime(tree, ns=(10**9, 10**9 + 1))
    return tree


def test_a_tree(run: Run, tree: Path, tmp_path: Path) -> None:
    target = tmp_path / "copy"
    report = run(proactor.copy(tree, target))
    assert (report.files, report.directories, report.symlinks, report.hard_links) == (30, 2, 1, 1)
    assert (report.specials, report.failures, report.skipped) == (1, 0, 0)
    assert report.bytes == sum(at * 1000 for at in range(30))
    assert report.duration > 0
    assert (report.errors, report.warnings, report.partial) == ((), (), ())
    assert sorted(os.listdir(target)) == sorted(os.listdir(tree))
    assert all((target / f"{at}").read_bytes() == (tree / f"{at}").read_bytes() for at in range(30))
    assert os.readlink(target / "link") == "3"
    assert os.path.samefile(target / "4", target / "name")
    assert stat.S_ISFIFO(os.lstat(target / "fifo").st_mode)
    assert os.stat(target).st_mtime_ns == 10**9 + 1


def test_where_it_goes(run: Run, tree: Path, tmp_path: Path) -> None:
    there = tmp_path / "there"
    there.mkdir()

    async def main() -> None:
        await proactor.copy(tree / "5", there)
        await proactor.copy([tree / "6", os.fsencode(tree / "7")], str(there))
        await proactor.copy(tree / "empty", there, into=False)
        await proactor.copy(tree / "empty", there, into=True)
        with pytest.raises(ValueError, match="several sources"):
            await proactor.copy([tree / "6"], there / "x", into=False)
        with pytest.raises(ValueError, match="not 'sometimes'"):
            await proactor.copy(tree, there, sparse="sometimes")  # type: ignore[arg-type]
        with pytest.raises(TypeError):
            await proactor.copy(3, there)  # type: ignore[arg-type]

    run(main())
    assert sorted(os.listdir(there)) == ["5", "6", "7", "empty"]


def test_what_failed(run: Run, tree: Path, tmp_path: Path) -> None:
    missing, also = tmp_path / "missing", tmp_path / "also missing"
    target = tmp_path / "target"
    target.mkdir()

    async def main() -> None:
        with pytest.raises(proactor.CopyError) as caught:
            await proactor.copy([missing, tree / "5", also], target)
        error = caught.value
        assert isinstance(error, OSError)
        assert (error.errno, error.filename) == (errno.ENOENT, str(missing))
        assert "(and 1 more)" in str(error)
        assert (error.report.files, error.report.failures) == (1, 2)
        assert [type(each) for each in error.report.errors] == [FileNotFoundError] * 2
        assert pickle.loads(pickle.dumps(error)).report.failures == 2
        report = await proactor.copy(tree / "5", tree / "5", check=False)
        (same,) = report.errors
        assert (same.filename, same.filename2) == (str(tree / "5"), str(tree / "5"))
        assert "same file" in str(same)

    run(main())
    assert os.listdir(target) == ["5"]


def test_options(run: Run, tree: Path, tmp_path: Path) -> None:
    old = tmp_path / "old"
    old.write_text("old")
    selinux = os.path.exists("/sys/fs/selinux/enforce")

    async def main() -> None:
        assert (await proactor.copy(tree / "5", old, update="none")).skipped == 1
        assert old.read_text() == "old"
        await proactor.copy(tree / "5", old, backup="numbered", preserve=())
        assert (tmp_path / "old.~1~").read_text() == "old"
        await proactor.copy(tree / "5", tmp_path / "same", link="hard")
        with pytest.raises(proactor.CopyError) as caught:
            await proactor.copy(tree, tmp_path / "no", recursive=False)
        assert caught.value.errno == errno.EISDIR
        for option, value in (("jobs", -1), ("jobs", 1 << 80), ("bwlimit", -1)):
            with pytest.raises(ValueError, match=f"{option}: {value} is less than 0 or too large"):
                await proactor.copy(tree, tmp_path / "no", **{option: value})  # type: ignore[arg-type]
        with pytest.raises(TypeError, match="jobs is a number"):
            await proactor.copy(tree, tmp_path / "no", jobs="2")  # type: ignore[arg-type]
        with pytest.raises(ValueError, match="goes with sparse='auto' only"):
            await proactor.copy(tree, tmp_path / "no", reflink="always", sparse="never")
        if not selinux:
            with pytest.raises(ValueError, match="'context' needs a kernel with SELinux"):
                await proactor.copy(tree, tmp_path / "no", preserve=["context"])

        async def never_awaited(progress: object) -> None: ...

        class NeverAwaited:
            async def __call__(self, progress: object) -> None: ...

        for waits in (never_awaited, NeverAwaited(), functools.partial(never_awaited)):
            with pytest.raises(TypeError, match="called and not awaited"):
                await proactor.copy(tree, tmp_path / "no", progress=waits)
        with pytest.raises(TypeError, match="progress is a function, not 3"):
            await proactor.copy(tree, tmp_path / "no", progress=3)  # type: ignore[arg-type]
        assert not (tmp_path / "no").exists()
        with pytest.raises(ValueError, match="preserve is some of"):
            await proactor.copy(tree, tmp_path / "no", preserve="everything")  # type: ignore[arg-type]
        await proactor.copy(
            tree,
            tmp_path / "all",
            jobs=1,
            fsync="each",
            sparse="always",
            reflink="never",
            dereference="always",
        )
        assert not (tmp_path / "all" / "link").is_symlink()

    run(main())
    assert os.path.samefile(tree / "5", tmp_path / "same")
    assert old.read_bytes() == b"\5" * 5000


def test_patterns(run: Run, tree: Path, tmp_path: Path) -> None:
    (tree / "sub").mkdir()
    (tree / "sub" / "1").touch()
    (tree / "sub" / "\udcff").touch()

    async def main() -> None:
        report = await proactor.copy(
            tree, tmp_path / "some", exclude=["[!1]*", "/1?", b"\xff"], include=["t*", "sub/"]
        )
        assert (report.files, report.excluded) == (2, 34)
        assert sorted(os.listdir(tmp_path / "some")) == ["1", "sub"]
        assert os.listdir(tmp_path / "some" / "sub") == ["1"]
        # One pattern, and not its letters.
        report = await proactor.copy(tree, tmp_path / "one", exclude="sub/")
        assert report.excluded == 1
        with pytest.raises(ValueError, match=r"exclude: \[: '\[' without '\]'"):
            await proactor.copy(tree, tmp_path / "none", exclude=["a", "["])

    run(main())
    assert not (tmp_path / "none").exists()


def test_a_dry_run(run: Run, tree: Path, tmp_path: Path) -> None:
    async def main() -> None:
        report = await proactor.copy(tree, tmp_path / "copy", dry_run=True)
        assert (report.files, report.directories, report.failures) == (30, 2, 0)
        with pytest.raises(proactor.CopyError, match="same file"):
            await proactor.copy(tree / "1", tree / "1", dry_run=True)

    run(main())
    assert os.listdir(tmp_path) == ["tree"]


def test_verified(run: Run, tree: Path, tmp_path: Path) -> None:
    report = run(proactor.copy(tree, tmp_path / "copy", verify=True, bwlimit=10**9))
    assert report.files == report.verified == 30


class TestProgress:
    def test_it_is_told(self, run: Run, tree: Path, tmp_path: Path) -> None:
        heard: list[proactor.CopyProgress] = []
        report = run(proactor.copy(tree, tmp_path / "copy", progress=heard.append))
        assert heard[-1].bytes == report.bytes
        assert heard[-1].files == 33
        assert heard[-1].fraction == pytest.approx(1)
        assert all(a.bytes <= b.bytes for a, b in itertools.pairwise(heard))

    def test_what_it_raises_ends_the_copy(self, run: Run, tree: Path, tmp_path: Path) -> None:
        def refuse(_: proactor.CopyProgress) -> None:
            raise KeyError("enough")

        with pytest.raises(KeyError, match="enough"):
            run(proactor.copy(tree, tmp_path / "copy", progress=refuse))


def test_cancelled_it_ends_in_order(run: Run, tmp_path: Path) -> None:
    """A source whose end would never come."""
    source, target = tmp_path / "big", tmp_path / "copy"
    source.mkdir()
    with (source / "sparse").open("wb") as file:
        file.truncate(1 << 40)

    async def main() -> None:
        begun = asyncio.Event()

        def progress(at: proactor.CopyProgress) -> None:
            if at.bytes:
                begun.set()

        task = asyncio.ensure_future(proactor.copy(source, target, sparse="never", progress=progress))
        await begun.wait()
        task.cancel()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    run(main())
    assert not target.exists()
    # The sparse file is taken back; what --resume needs stays.
    assert [path.suffix for path in tmp_path.rglob("copy*") if path.is_file()] == [".journal"]


@pytest.mark.parametrize("names", [("fifo", "new"), ("file", "fifo")])
def test_cancelled_while_a_fifo_has_nobody_at_its_other_end(
    run: Run, tmp_path: Path, names: tuple[str, str]
) -> None:
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "file").write_text("new\n")

    async def main() -> None:
        copying = proactor.copy(*(tmp_path / name for name in names), recursive=False)
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(copying, 0.1)

    run(main())
    assert sorted(os.listdir(tmp_path)) == ["fifo", "file"]


def test_cancelled_and_resumed(run: Run, tmp_path: Path) -> None:
    """A directory comes after the files beside it, whatever their inodes are: they are copied by then."""
    source, target = tmp_path / "source", tmp_path / "copy"
    endless = source / "later" / "sparse"
    endless.parent.mkdir(parents=True)
    with endless.open("wb") as file:
        file.truncate(1 << 40)
    for at in range(100):
        (source / f"{at}").write_text(f"{at}")

    async def main() -> None:
        begun = asyncio.Event()

        def progress(at: proactor.CopyProgress) -> None:
            if at.files >= 10:
                begun.set()

        task = asyncio.ensure_future(proactor.copy(source, target, sparse="never", jobs=2, progress=progress))
        await begun.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        endless.unlink()
        with pytest.raises(proactor.CopyError, match="other options"):
            await proactor.copy(source, target, resume=True)
        report = await proactor.copy(source, target, sparse="never", resume=True)
        assert report.resumed >= 10
        assert report.resumed + report.files == 100

    run(main())
    assert sorted(os.listdir(tmp_path)) == ["copy", "source"]
    assert all((target / f"{at}").read_text() == f"{at}" for at in range(100))


def test_dry_run_counts(run: Run, tmp_path: Path) -> None:
    """Of a tree that is there, what a copy would count."""
    (tmp_path / "tree").mkdir()
    (tmp_path / "tree" / "a").write_text("12345")
    os.link(tmp_path / "tree" / "a", tmp_path / "tree" / "b")

    async def main() -> None:
        await proactor.copy(tmp_path / "tree", tmp_path / "copy", into=False)

        async def counts(dry_run: bool, in_place: bool, attributes_only: bool) -> tuple[int, ...]:
            report = await proactor.copy(
                tmp_path / "tree",
                tmp_path / "copy",
                into=False,
                dry_run=dry_run,
                in_place=in_place,
                attributes_only=attributes_only,
            )
            return (report.files, report.hard_links, report.bytes)

        # Both together are refused.
        for in_place, attributes_only in ((False, False), (True, False), (False, True)):
            rehearsed = await counts(True, in_place, attributes_only)
            assert rehearsed == await counts(False, in_place, attributes_only)

    run(main())


def test_closed(run: Run, tree: Path, tmp_path: Path) -> None:
    """Nobody is there to wait for it: it ends by itself."""

    async def main() -> None:
        os.mkfifo(tmp_path / "fifo")
        copy = proactor.copy(tmp_path / "fifo", tmp_path / "copy", into=False, recursive=False)
        copy.send(None)
        copy.close()

    run(main())


def test_warnings_have_names_of_any_bytes(run: Run, tmp_path: Path) -> None:
    name = os.fsencode(tmp_path) + b"/n\xff"
    os.close(os.open(name, os.O_CREAT))
    (tmp_path / "to").mkdir()
    (warning,) = run(proactor.copy([name, name], tmp_path / "to")).warnings
    assert os.fsencode(warning).startswith(name)


def test_failures_among_many_warnings(run: Run, tree: Path, tmp_path: Path) -> None:
    """They are not lost behind those."""
    sources = [*[tree / "3"] * 1_100, tree / "missing"]
    (tmp_path / "to").mkdir()
    with pytest.raises(proactor.CopyError) as raised:
        run(proactor.copy(sources, tmp_path / "to"))
    assert raised.value.errno == errno.ENOENT
    report = raised.value.report
    assert (len(report.errors), len(report.warnings)) == (1, 1_000)
