"""`copytree` and `copyfileobj`, and what cancelled calls of `proactor.shutil` leave behind."""

from __future__ import annotations

import asyncio
import errno
import gc
import io
import os
import shutil
import tempfile
import threading
from collections.abc import Iterable
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import Any

import proactor
import pytest
from conftest import Run
from file_helpers import content, in_time, until
from os_helpers import unprivileged
from proactor import shutil as ours
from proactor._copying import watched
from proactor._copytree import by_copier
from proactor._pool import run as run_in_thread
from tree_helpers import make_tree, outcome, plain, snapshot

DEADLINE_S = 30


async def copied(module: Any, src: Any, dst: Any, **options: Any) -> Any:
    """What `copytree` gives or the list it raises, and the copy. The copy's name is left out."""
    try:
        value = module.copytree(src, dst, **options)
        result = plain(value if isinstance(value, (str, Path)) else await value, dst)
    except (shutil.Error, OSError) as error:
        if error.args and isinstance(error.args[0], list):
            # In the standard library's order: both list the same directories.
            result = [(str(a), plain(str(b), dst), plain(str(c), dst)) for a, b, c in error.args[0]]
        else:
            result = type(error), error.errno, plain(error.filename, dst)
    return result, snapshot(dst)


async def same(src: Path, tmp_path: Path, **options: Any) -> Any:
    expected = await copied(shutil, src, tmp_path / "std", **options)
    found = await copied(ours, src, tmp_path / "our", **options)
    assert found == expected
    return found[0]


class TestCopytree:
    @pytest.mark.parametrize("symlinks", [False, True])
    @pytest.mark.parametrize("ignore_dangling_symlinks", [False, True])
    def test_everything(
        self,
        run: Run,
        tmp_path: Path,
        monkeypatch: pytest.MonkeyPatch,
        symlinks: bool,
        ignore_dangling_symlinks: bool,
    ) -> None:
        src = make_tree(tmp_path / "src")
        # The standard library looks for what relative links lead to from here.
        monkeypatch.chdir(src)
        options = {"symlinks": symlinks, "ignore_dangling_symlinks": ignore_dangling_symlinks}
        errors = run(same(src, tmp_path, **options))
        # Two special files; the looping and the dangling link, where they are followed.
        assert len(errors) == 2 + (
            not symlinks and 1 + (not ignore_dangling_symlinks) - ignore_dangling_symlinks
        )

    def test_links_of_which_only_some_lead_nowhere(self, run: Run, tmp_path: Path) -> None:
        """Where the standard library leaves out all relative links, unless it happens to be started there."""
        src = make_tree(tmp_path / "src", "file", "to_file", "folder", "to_folder", "dangling")

        async def main() -> None:
            await ours.copytree(src, tmp_path / "new", ignore_dangling_symlinks=True)

        run(main())
        assert sorted(os.listdir(tmp_path / "new")) == ["file", "folder", "to_file", "to_folder"]
        assert not (tmp_path / "new" / "to_file").is_symlink()

    def test_there_already(self, run: Run, tmp_path: Path) -> None:
        src = make_tree(tmp_path / "src", "file", "folder", "to_file")
        for name in ("std", "our"):
            (tmp_path / name / "folder" / "inner").mkdir(parents=True)
            (tmp_path / name / "file").write_bytes(b"old")

        async def main() -> None:
            assert (await same(src, tmp_path))[0] is FileExistsError
            assert await same(src, tmp_path, dirs_exist_ok=True) == "ROOT"
            assert len(await same(src, tmp_path, dirs_exist_ok=True, symlinks=True)) == 1

        run(main())

    @pytest.mark.parametrize("name", ["missing", "file", "nul\0byte"])
    def test_no_source(self, run: Run, tmp_path: Path, name: str) -> None:
        root = make_tree(tmp_path / "src")

        async def main() -> None:
            expected = await outcome(partial(shutil.copytree, root / name, tmp_path / "a"), tmp_path)
            assert await outcome(partial(ours.copytree, root / name, tmp_path / "a"), tmp_path) == expected

        run(main())
        assert not (tmp_path / "a").exists()

    def test_ignore(self, run: Run, tmp_path: Path) -> None:
        src = make_tree(tmp_path / "src", "file", "empty", "folder", ".hidden")
        asked: list[Any] = []

        def ignore(folder: Any, names: list[str]) -> Iterable[str]:
            asked.append((folder, names))
            return [name for name in names if name.startswith(("e", "x"))]

        async def main() -> None:
            await same(src, tmp_path, ignore=shutil.ignore_patterns("*.txt", "f*le"), dirs_exist_ok=True)
            await same(src, tmp_path, ignore=ignore, dirs_exist_ok=True)

        run(main())
        assert asked[: len(asked) // 2] == asked[len(asked) // 2 :]

    @pytest.mark.parametrize("function", [shutil.copy, shutil.copy2, shutil.copyfile])
    def test_the_standard_librarys_copy_functions(self, run: Run, tmp_path: Path, function: Any) -> None:
        src = make_tree(tmp_path / "src", "file", "folder", "fifo")
        run(same(src, tmp_path, copy_function=function))

    def test_copy_functions(self, run: Run, tmp_path: Path) -> None:
        src = make_tree(tmp_path / "src", "file", "folder")

        async def awaited(src: str, dst: str) -> None:
            assert type(src) is type(dst) is str
            await ours.copyfile(src, dst)

        def refuses(src: str, dst: str) -> None:
            if src.endswith(".txt"):
                raise PermissionError(errno.EACCES, "refused", src)
            shutil.copyfile(src, dst)

        def nested(src: str, dst: str) -> None:
            raise shutil.Error([(src, dst, "one"), (src, dst, "two")])

        async def main() -> None:
            expected = await copied(shutil, src, tmp_path / "plain", copy_function=shutil.copyfile)
            for number, function in enumerate((awaited, ours.copyfile, lambda a, b: ours.copyfile(a, b))):
                assert await copied(ours, src, tmp_path / str(number), copy_function=function) == expected
            assert len(await same(src, tmp_path, copy_function=refuses, dirs_exist_ok=True)) == 2
            assert len(await same(src, tmp_path, copy_function=nested, dirs_exist_ok=True)) == 8

        run(main())

    @pytest.mark.parametrize("kind", [str, os.fsencode, Path, proactor.Path])
    def test_paths(self, run: Run, tmp_path: Path, kind: Any) -> None:
        src, dst = make_tree(tmp_path / "src", "folder", "sur\udcffrogate"), kind(tmp_path / "dst")

        async def main() -> None:
            assert await ours.copytree(kind(src), dst) is dst

        run(main())
        assert snapshot(tmp_path / "dst") == snapshot(src)

    def test_directories_get_their_times_last(self, run: Run, tmp_path: Path) -> None:
        src = make_tree(tmp_path / "src", "file", "folder")
        (src / "folder" / "nothing").mkdir(mode=0o555)
        for number, folder in enumerate(sorted([src, *src.rglob("*/")], reverse=True)):
            os.utime(folder, ns=(number, 1_000_000_007 * number))

        def times(root: Path) -> dict[str, int]:
            return {
                str(path.relative_to(root)): path.stat().st_mtime_ns
                for path in sorted([root, *root.rglob("*")])
            }

        run(ours.copytree(src, tmp_path / "dst"))
        assert times(tmp_path / "dst") == times(src)
        assert snapshot(tmp_path / "dst") == snapshot(src)

    @pytest.mark.parametrize("symlinks", [False, True])
    def test_by_the_copier(self, run: Run, tmp_path: Path, symlinks: bool) -> None:
        """What has nothing but files, directories and links that lead somewhere is no work for the loop."""
        src = tmp_path / "src"
        (src / "sub" / "empty").mkdir(parents=True)
        for number in range(200):
            (src / "sub" / str(number)).write_bytes(content(number * 50, number))
            (src / "sub" / str(number)).chmod(0o400 | number)
        (src / "link").symlink_to("sub/7")
        (src / "folder").symlink_to("sub")
        os.link(src / "sub" / "7", src / "same")
        (src / "sub").chmod(0o2750)
        assert run(by_copier(src, tmp_path / "our", symlinks))
        shutil.copytree(src, tmp_path / "std", symlinks)
        assert snapshot(tmp_path / "our") == snapshot(tmp_path / "std")
        assert (tmp_path / "our" / "same").stat().st_nlink == 1
        assert sorted(os.listdir(tmp_path)) == ["our", "src", "std"]

    def test_not_by_the_copier(self, run: Run, tmp_path: Path) -> None:
        src = tmp_path / "src"
        src.mkdir()
        (src / "file").touch()
        os.mkfifo(src / "fifo")
        assert not run(by_copier(src, tmp_path / "dst", False))
        (src / "fifo").unlink()
        (src / "gone").symlink_to("nowhere")
        assert not run(by_copier(src, tmp_path / "dst", False))
        assert os.listdir(tmp_path) == ["src"]
        (tmp_path / "dst").mkdir()
        assert not run(by_copier(src, tmp_path / "dst", True))
        assert os.listdir(tmp_path / "dst") == []
        with pytest.raises(FileNotFoundError):
            run(by_copier(tmp_path / "none", tmp_path / "new" / "dst", True))
        assert not (tmp_path / "new").exists()

    @pytest.mark.parametrize("fails", [False, True])
    def test_what_others_put_there_stays(
        self, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fails: bool
    ) -> None:
        src, dst = tmp_path / "src", tmp_path / "dst"
        src.mkdir()
        (src / "file").touch()
        if fails:
            (src / "dangling").symlink_to("nowhere")

        async def beside_others(*arguments: Any) -> Any:
            outcome = await watched(*arguments)
            dst.mkdir()
            (dst / "theirs").touch()
            return outcome

        monkeypatch.setattr("proactor._copytree.watched", beside_others)

        async def main() -> None:
            with pytest.raises(shutil.Error) if fails else nullcontext():
                await ours.copytree(src, dst, dirs_exist_ok=True)
            with pytest.raises(FileExistsError):
                await ours.copytree(src, dst)

        run(main())
        assert sorted(os.listdir(dst)) == ["file", "theirs"]
        assert sorted(os.listdir(tmp_path)) == ["dst", "src"]

    def test_a_copy_that_may_not_be_written_any_more(self, run: Run) -> None:
        # pytest's own directories are root's alone.
        with tempfile.TemporaryDirectory() as place:
            src = Path(place, "src")
            (src / "closed").mkdir(parents=True)
            (src / "closed" / "file").touch()
            (src / "dangling").symlink_to("nowhere")
            (src / "closed").chmod(0o555)
            with unprivileged(Path(place), src):
                errors = run(same(src, Path(place)))
            assert [Path(name).name for name, _, _ in errors] == ["dangling"]
            assert sorted(os.listdir(place)) == ["our", "src", "std"]

    def test_sixteen_files_at_a_time(self, run: Run, tmp_path: Path) -> None:
        for folder in range(5):
            (tmp_path / "src" / str(folder)).mkdir(parents=True)
            for name in range(10):
                (tmp_path / "src" / str(folder) / str(name)).touch()
        at_once: list[int] = []
        copying = 0
        full = asyncio.Event()

        async def copy(src: str, dst: str) -> None:
            nonlocal copying
            copying += 1
            at_once.append(copying)
            if copying == 16:
                full.set()
            await in_time(full.wait())
            # Whoever else might begin, begins now.
            for _ in range(20):
                await asyncio.sleep(0)
            copying -= 1

        run(ours.copytree(tmp_path / "src", tmp_path / "dst", copy_function=copy))
        assert (len(at_once), max(at_once)) == (50, 16)

    @pytest.mark.parametrize("is_async", [False, True])
    def test_another_error_ends_it(
        self, run: Run, tmp_path: Path, caplog: pytest.LogCaptureFixture, is_async: bool
    ) -> None:
        src = make_tree(tmp_path / "src", "file", "empty", ".hidden", "folder")

        def fails(src: str, dst: str) -> None:
            raise LookupError("this")

        async def fails_later(src: str, dst: str) -> None:
            await asyncio.sleep(0)
            fails(src, dst)

        async def main() -> None:
            function = fails_later if is_async else fails
            with pytest.raises(LookupError, match="this"):
                await ours.copytree(src, tmp_path / "dst", copy_function=function)
            gc.collect()

        run(main())
        assert caplog.records == []

    def test_an_error_of_ignore_ends_it(self, run: Run, tmp_path: Path) -> None:
        def fails(folder: Any, names: list[str]) -> list[str]:
            if "x.txt" in names:
                raise LookupError("this")
            return []

        async def main() -> None:
            with pytest.raises(LookupError, match="this"):
                await ours.copytree(make_tree(tmp_path / "src", "folder"), tmp_path / "dst", ignore=fails)

        run(main())


class Gate:
    """Holds a function of `os` up at one of its calls."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, name: str, at: int) -> None:
        self.calls = 0
        self.held, self.go_on = threading.Event(), threading.Event()
        function = getattr(os, name)
        lock = threading.Lock()

        def gated(*arguments: Any, **options: Any) -> Any:
            with lock:
                self.calls += 1
                here = self.calls == at
            if here:
                self.held.set()
                assert self.go_on.wait(DEADLINE_S)
            return function(*arguments, **options)

        monkeypatch.setattr(os, name, gated)

    async def cancel(self, call: Any) -> None:
        """Cancels a call that is held up; nothing goes on once it has left."""
        task = asyncio.create_task(call)
        await until(self.held.is_set)
        task.cancel()
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert not task.done()
        self.go_on.set()
        with pytest.raises(asyncio.CancelledError):
            await in_time(task)
        calls = self.calls
        # Whoever is still at work would get on.
        await asyncio.gather(*[run_in_thread(os.getpid) for _ in range(100)])
        assert self.calls == calls


class TestCancelled:
    @pytest.mark.parametrize("name", ["copyfile", "copy", "copy2"])
    def test_a_copy_leaves_a_part(
        self, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
    ) -> None:
        monkeypatch.setattr("proactor._copy.STEP_BYTES", 1000)
        (tmp_path / "file").write_bytes(content(2500))
        gate = Gate(monkeypatch, "copy_file_range", 2)
        run(gate.cancel(getattr(ours, name)(tmp_path / "file", tmp_path / "new")))
        assert (tmp_path / "new").read_bytes() == content(2500)[:2000]

    def test_a_removal_leaves_the_rest(
        self, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        for name in range(20):
            (tmp_path / str(name)).touch()
        gate = Gate(monkeypatch, "unlink", 5)
        run(gate.cancel(ours.rmtree(tmp_path)))
        assert len(os.listdir(tmp_path)) == 15

    def test_a_tree_is_left_in_part(self, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        src = tmp_path / "src"
        src.mkdir()
        for name in range(40):
            (src / str(name)).write_bytes(content(1000, name))
        started: list[str] = []
        stopped = 0

        async def copy(src: str, dst: str) -> None:
            nonlocal stopped
            started.append(dst)
            if len(started) > 5:
                try:
                    await asyncio.sleep(DEADLINE_S)
                finally:
                    stopped += 1
            await ours.copyfile(src, dst)

        async def main() -> None:
            task = asyncio.create_task(ours.copytree(src, tmp_path / "dst", copy_function=copy))
            await until(lambda: len(started) == 21)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await in_time(task)
            assert (len(started), stopped) == (21, 16)
            assert len(asyncio.all_tasks()) == 1

        run(main())
        assert len(os.listdir(tmp_path / "dst")) == 5

    def test_a_tree_waits_for_the_files_in_hand(
        self, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        make_tree(tmp_path / "src", "file")
        gate = Gate(monkeypatch, "copy_file_range", 1)
        # With a copy function of its own, it is not the copier's.
        copying = ours.copytree(tmp_path / "src", tmp_path / "dst", copy_function=shutil.copy)
        run(gate.cancel(copying))

    def test_a_move_keeps_its_source(self, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        def refuse(*arguments: Any) -> None:
            raise OSError(errno.EXDEV, "two file systems")

        make_tree(tmp_path / "src", "file", "folder")
        before = snapshot(tmp_path / "src")
        monkeypatch.setattr(os, "rename", refuse)
        gate = Gate(monkeypatch, "copy_file_range", 1)
        run(gate.cancel(ours.move(tmp_path / "src", tmp_path / "dst", copy_function=shutil.copy)))
        assert snapshot(tmp_path / "src") == before


class Plain(io.BytesIO):
    """Not asynchronous; notes the threads that use it."""

    def __init__(self, data: bytes = b"") -> None:
        super().__init__(data)
        self.threads: set[threading.Thread] = set()

    def read(self, size: int | None = -1, /) -> bytes:
        self.threads.add(threading.current_thread())
        return super().read(size)


class Async:
    """A file of somebody else's, with coroutines."""

    def __init__(self, data: bytes = b"") -> None:
        self.file = io.BytesIO(data)
        self.sizes: list[int] = []

    async def read(self, size: int = -1) -> bytes:
        self.sizes.append(size)
        return self.file.read(size)

    async def write(self, data: bytes) -> int:
        return self.file.write(data)


class TestCopyfileobj:
    @pytest.mark.parametrize("length", [0, 1000, -1])
    def test_any_mix(self, run: Run, tmp_path: Path, length: int) -> None:
        data = content(300_000 if length < 1 else 30_000)
        (tmp_path / "file").write_bytes(data)

        async def main() -> None:
            for source in ("plain", "async", "ours"):
                for target in ("plain", "async", "ours"):
                    src: Any = {"plain": Plain(data), "async": Async(data)}.get(source)
                    dst: Any = {"plain": Plain(), "async": Async()}.get(target)
                    if source == "ours":
                        src = await proactor.open(tmp_path / "file", "rb")
                    if target == "ours":
                        dst = await proactor.open(tmp_path / "new", "wb")
                    await ours.copyfileobj(src, dst, length)
                    if target == "ours":
                        await dst.close()
                        found = (tmp_path / "new").read_bytes()
                    else:
                        found = getattr(dst, "file", dst).getvalue()
                    assert found == data, (source, target)
                    if source == "plain":
                        assert threading.current_thread() not in src.threads
                    elif source == "async":
                        assert set(src.sizes) == {length or 256 << 10}
                    else:
                        await src.close()

        run(main())

    def test_text(self, run: Run, tmp_path: Path) -> None:
        (tmp_path / "file").write_text("é\n" * 1000, encoding="utf-8")
        target = io.StringIO()

        async def main() -> None:
            async with proactor.open(tmp_path / "file", encoding="utf-8") as source:
                await source.read(3)
                await ours.copyfileobj(source, target, 7)

        run(main())
        assert target.getvalue() == ("é\n" * 1000)[3:]

    def test_errors(self, run: Run) -> None:
        async def main() -> None:
            with pytest.raises(TypeError):
                await ours.copyfileobj(io.BytesIO(b"x"), io.StringIO())
            with pytest.raises(AttributeError):
                await ours.copyfileobj(object(), io.BytesIO())

        run(main())
