"""`proactor.shutil` beside `shutil`: the same results, errors and trees.

Large tables run on one kind of loop: what threads do does not depend on it.
"""

from __future__ import annotations

import asyncio
import errno
import inspect
import os
import shutil
import stat
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import proactor
import pytest
from conftest import Run
from file_helpers import MIB, content
from proactor import shutil as ours
from tree_helpers import ABSENT, ENTRIES, make_tree, outcome, plain, snapshot

# What is copied, and where to: each pair once.
SOURCES = [*ENTRIES, *ABSENT]
TARGETS = [
    "new",
    "file",
    "empty",
    "folder",
    "missing/new",
    "new/",
    "to_file",
    "to_folder",
    "dangling",
    "loop",
    "fifo",
    "sur\udcffrogate",
]


async def parity(
    run_call: Callable[[Any, Path], Any],
    tmp_path: Path,
    *names: str,
    prepare: Callable[[Path], None] | None = None,
) -> Any:
    """Makes the call with `shutil` and with ours, each on its own tree; the outcome, which has to be one."""
    found: list[Any] = []
    for module in (shutil, ours):
        root = make_tree(tmp_path / module.__name__, *names)
        if prepare is not None:
            prepare(root)
        found.append((await outcome(partial(run_call, module, root), root), snapshot(root)))
    assert found[1] == found[0]
    return found[1][0]


class TestFiles:
    @pytest.mark.parametrize("follow_symlinks", [True, False])
    @pytest.mark.parametrize("name", ["copyfile", "copy", "copy2", "copymode", "copystat"])
    def test_copying(self, tmp_path: Path, name: str, follow_symlinks: bool) -> None:
        def call(src: str, dst: str, module: Any, root: Path) -> Any:
            # Both kinds of paths, and joined so that a slash at the end stays.
            return getattr(module, name)(root / src, f"{root}/{dst}", follow_symlinks=follow_symlinks)

        async def main() -> None:
            for number, src in enumerate(SOURCES):
                special = src in ("file", "to_file", "dangling", "fifo", "missing")
                for dst in TARGETS if special else TARGETS[:2]:
                    needed = {"file", src, dst, "folder" if "folder" in src + dst else src} & ENTRIES.keys()
                    where = tmp_path / f"{number}" / f"{TARGETS.index(dst)}"
                    await parity(partial(call, src, dst), where, *sorted(needed, key=list(ENTRIES).index))

        asyncio.run(main())

    @pytest.mark.parametrize("kind", [str, os.fsencode, Path, proactor.Path])
    def test_paths(self, run: Run, tmp_path: Path, kind: Any) -> None:
        make_tree(tmp_path, "file")

        async def main() -> None:
            for name in ("copyfile", "copy", "copy2"):
                dst = kind(tmp_path / name)
                assert await getattr(ours, name)(kind(tmp_path / "file"), dst) is dst

        run(main())
        for name in ("copyfile", "copy", "copy2"):
            assert (tmp_path / name).read_bytes() == (tmp_path / "file").read_bytes()

    @pytest.mark.parametrize("kernel_copies", [True, False, None])
    def test_contents(
        self, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kernel_copies: bool | None
    ) -> None:
        """Also where the kernel refuses to copy, and where the C library does not know how."""

        def refuse(*arguments: Any) -> int:
            raise OSError(errno.EXDEV, "two file systems")

        if kernel_copies is False:
            monkeypatch.setattr(os, "copy_file_range", refuse)
        elif kernel_copies is None:
            monkeypatch.delattr(os, "copy_file_range")

        async def main() -> None:
            for size in (0, 1, 100_000, 20 * MIB):
                src, dst = tmp_path / "file", tmp_path / f"{size}"
                await proactor.write_bytes(src, content(size))
                await ours.copyfile(src, dst)
                assert await proactor.read_bytes(dst) == content(size)

        run(main())

    def test_files_without_a_size(self, run: Run, tmp_path: Path) -> None:
        async def main() -> None:
            await ours.copyfile("/proc/self/status", tmp_path / "new")
            await ours.copyfile("/dev/null", tmp_path / "null")

        run(main())
        assert f"Pid:\t{os.getpid()}\n".encode() in (tmp_path / "new").read_bytes()
        assert (tmp_path / "null").read_bytes() == b""

    @pytest.mark.parametrize("kernel_copies", [True, False])
    def test_a_full_disk(
        self, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kernel_copies: bool
    ) -> None:
        if not kernel_copies:
            monkeypatch.delattr(os, "copy_file_range")
        path = tmp_path / "file"
        path.write_bytes(content(10_000))

        async def main() -> None:
            with pytest.raises(OSError, match="No space left") as caught:
                await ours.copyfile(path, "/dev/full")
            assert (caught.value.errno, caught.value.filename) == (errno.ENOSPC, path)
            assert caught.value.filename2 == "/dev/full"

        run(main())

    def test_times_and_attributes(self, run: Run, tmp_path: Path) -> None:
        path = tmp_path / "file"
        path.write_bytes(b"x")
        path.chmod(0o741)
        os.utime(path, ns=(1_234_567_890_123_456_789, 1_111_111_111_222_222_222))

        async def main() -> None:
            await ours.copy2(path, tmp_path / "second")
            await ours.copy(path, tmp_path / "plain")

        run(main())
        second, first = (tmp_path / "second").stat(), path.stat()
        assert (second.st_mode, second.st_mtime_ns) == (first.st_mode, first.st_mtime_ns)
        assert (tmp_path / "plain").stat().st_mode == first.st_mode
        assert (tmp_path / "plain").stat().st_mtime_ns != first.st_mtime_ns


class TestRemoving:
    @pytest.mark.parametrize("ignore_errors", [False, True])
    def test_rmtree(self, tmp_path: Path, ignore_errors: bool) -> None:
        def call(at: str, module: Any, root: Path) -> Any:
            return module.rmtree(f"{root}/{at}", ignore_errors)

        async def main() -> None:
            names = [".", "folder", "file", *ABSENT]
            if ignore_errors and sys.version_info < (3, 13):
                # It was a ValueError in one version and nothing in others.
                names.remove("nul\0byte")
            for number, at in enumerate(names):
                await parity(partial(call, at), tmp_path / str(number))

        asyncio.run(main())

    @pytest.mark.parametrize("name", ["to_folder", "dangling", "fifo", "socket"])
    def test_no_directory(self, run: Run, tmp_path: Path, name: str) -> None:
        """The standard library's own depends on the version, and some of them wait at a FIFO."""
        root = make_tree(tmp_path)
        before = snapshot(root)

        async def main() -> None:
            with pytest.raises(OSError, match=name):
                await ours.rmtree(root / name)
            await ours.rmtree(root / name, ignore_errors=True)

        run(main())
        assert snapshot(root) == before

    @pytest.mark.parametrize("kind", [str, os.fsencode, Path, proactor.Path])
    def test_paths(self, run: Run, tmp_path: Path, kind: Any) -> None:
        make_tree(tmp_path / "tree")
        run(ours.rmtree(kind(tmp_path / "tree")))
        assert os.listdir(tmp_path) == []

    def test_dir_fd(self, run: Run, tmp_path: Path) -> None:
        make_tree(tmp_path / "tree")
        folder = os.open(tmp_path, os.O_RDONLY)
        try:
            run(ours.rmtree("tree", dir_fd=folder))
        finally:
            os.close(folder)
        assert os.listdir(tmp_path) == []

    def test_deep(self, run: Run, tmp_path: Path) -> None:
        """As many directories are open as it is deep, and none is a call in a call."""
        here = os.open(tmp_path, os.O_RDONLY)
        for _ in range(400):
            os.mkdir("d" * 20, dir_fd=here)
            below = os.open("d" * 20, os.O_RDONLY, dir_fd=here)
            os.close(here)
            here = below
        os.close(here)
        run(ours.rmtree(tmp_path / ("d" * 20)))
        assert os.listdir(tmp_path) == []

    @pytest.fixture
    def stubborn(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Two files that cannot be removed."""
        unlink = os.unlink

        def refuse(path: Any, **options: Any) -> None:
            if os.path.basename(path) in ("inner", "y.txt"):
                raise PermissionError(errno.EACCES, "refused", path)
            unlink(path, **options)

        monkeypatch.setattr(os, "unlink", refuse)
        # Its check of what the system can do holds for the function as it was.
        monkeypatch.setattr(shutil, "_use_fd_functions", True)

    def test_errors_are_told(self, run: Run, tmp_path: Path, stubborn: None) -> None:
        expected: list[Any] = []
        told: list[Any] = []
        told_new: list[Any] = []

        def note(into: list[Any], root: Path, function: Any, path: str, info: Any) -> None:
            error = info[1] if isinstance(info, tuple) else info
            into.append((function.__name__, plain(path, root), type(error), error.errno))

        std, our, new = (make_tree(tmp_path / name) for name in ("std", "our", "new"))
        shutil.rmtree(std, onerror=partial(note, expected, std))
        run(ours.rmtree(our, onerror=partial(note, told, our)))
        run(ours.rmtree(new, onexc=partial(note, told_new, new), onerror=partial(note, [], new)))
        assert len(expected) == 6
        assert sorted(told, key=repr) == sorted(expected, key=repr)
        assert sorted(told_new, key=repr) == sorted(expected, key=repr)
        assert snapshot(our) == snapshot(std) == snapshot(new)

    def test_the_first_error_is_raised(self, run: Run, tmp_path: Path, stubborn: None) -> None:
        make_tree(tmp_path / "tree")

        async def main() -> None:
            with pytest.raises(PermissionError) as caught:
                await ours.rmtree(tmp_path / "tree")
            assert os.path.basename(caught.value.filename) in ("inner", "y.txt")

        run(main())

    def test_a_link_is_told_of_once(self, run: Run, tmp_path: Path) -> None:
        link, told = tmp_path / "link", []
        link.symlink_to(tmp_path)

        def fail(function: Any, path: Any, error: BaseException) -> None:
            told.append((function, path, str(error)))
            raise error

        async def main() -> None:
            for handler in (None, fail):
                with pytest.raises(OSError, match=r"^Cannot call rmtree on a symbolic link"):
                    await ours.rmtree(link, onexc=handler)

        run(main())
        assert [(function, path) for function, path, _ in told] == [(os.path.islink, link)]
        assert "Cannot call rmtree on a symbolic link" in told[0][2]

    def test_an_error_of_the_handler_ends_it(self, run: Run, tmp_path: Path, stubborn: None) -> None:
        def fail(*arguments: Any) -> None:
            raise LookupError("handler")

        async def main() -> None:
            with pytest.raises(LookupError, match="handler"):
                await ours.rmtree(make_tree(tmp_path / "tree"), onexc=fail)

        run(main())

    def test_a_link_that_comes_in_between_is_not_followed(
        self, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        precious = make_tree(tmp_path / "precious")
        tree = tmp_path / "tree"
        (tree / "folder").mkdir(parents=True)
        before = snapshot(precious)
        lstat = os.lstat

        def swap(path: Any, **options: Any) -> os.stat_result:
            found = lstat(path, **options)
            if path == "folder" and stat.S_ISDIR(found.st_mode):
                os.rename(tree / "folder", tree / "moved")
                (tree / "folder").symlink_to(precious)
            return found

        monkeypatch.setattr(os, "lstat", swap)

        async def main() -> None:
            with pytest.raises(OSError, match="symbolic links"):
                await ours.rmtree(tree)

        run(main())
        assert snapshot(precious) == before

    def test_what_others_remove_meanwhile(
        self, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        unlink = os.unlink

        def twice(path: Any, **options: Any) -> None:
            unlink(path, **options)
            unlink(path, **options)

        monkeypatch.setattr(os, "unlink", twice)
        run(ours.rmtree(make_tree(tmp_path / "tree")))
        assert os.listdir(tmp_path) == []


class TestMoving:
    @pytest.mark.parametrize("across", [False, True])
    def test_move(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, across: bool) -> None:
        def refuse(*arguments: Any) -> None:
            raise OSError(errno.EXDEV, "two file systems")

        if across:
            monkeypatch.setattr(os, "rename", refuse)

        def call(src: str, dst: str, module: Any, root: Path) -> Any:
            return module.move(f"{root}/{src}", root / dst)

        pairs = [
            ("file", "new"),
            ("file", "empty"),
            ("file", "folder"),
            ("file", "to_folder"),
            ("file", "missing/new"),
            ("to_file", "new"),
            ("to_folder", "folder2"),
            ("dangling", "folder"),
            ("folder", "new"),
            ("folder/", "folder2"),
            ("folder", "folder/deep"),
            ("folder", "folder/new"),
            ("folder/inner", "."),
            ("folder/deep", "."),
            ("missing", "new"),
            ("fifo", "new"),
            ("sur\udcffrogate", "folder"),
        ]
        if sys.version_info >= (3, 13):
            pairs.append(("nul\0byte", "new"))

        def prepare(root: Path) -> None:
            (root / "folder2").mkdir()

        async def main() -> None:
            for number, (src, dst) in enumerate(pairs):
                await parity(partial(call, src, dst), tmp_path / str(number), prepare=prepare)

        asyncio.run(main())

    def test_a_taken_name(self, run: Run, tmp_path: Path) -> None:
        make_tree(tmp_path, "file", "folder")
        (tmp_path / "folder" / "file").touch()

        async def main() -> None:
            with pytest.raises(shutil.Error, match="already exists"):
                await ours.move(tmp_path / "file", tmp_path / "folder")

        run(main())

    @pytest.mark.parametrize("is_async", [False, True])
    def test_a_copy_function(
        self, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_async: bool
    ) -> None:
        def refuse(*arguments: Any) -> None:
            raise OSError(errno.EXDEV, "two file systems")

        monkeypatch.setattr(os, "rename", refuse)
        make_tree(tmp_path, "file", "folder")
        copied = []

        def plainly(src: Any, dst: Any) -> Any:
            copied.append(os.path.basename(src))
            return shutil.copy(src, dst)

        async def awaited(src: Any, dst: Any) -> Any:
            copied.append(os.path.basename(src))
            return await ours.copy(src, dst)

        async def main() -> None:
            function = awaited if is_async else plainly
            await ours.move(tmp_path / "file", tmp_path / "new", copy_function=function)
            await ours.move(tmp_path / "folder", tmp_path / "tree", function)

        run(main())
        assert sorted(copied) == ["file", "inner", "x.txt", "y.txt"]
        assert sorted(os.listdir(tmp_path)) == ["new", "tree"]


class TestInOneHop:
    def test_which(self, run: Run) -> None:
        async def main() -> None:
            for command in ("sh", "no-such-command", "/bin/sh"):
                assert await ours.which(command) == shutil.which(command)
            assert await ours.which("sh", os.X_OK, "/no/such/folder") is None

        run(main())

    def test_disk_usage(self, run: Run, tmp_path: Path) -> None:
        async def main() -> int:
            usage = await ours.disk_usage(tmp_path)
            assert usage._fields == ("total", "used", "free")
            return usage.total

        assert run(main()) == shutil.disk_usage(tmp_path).total

    def test_chown(self, run: Run, tmp_path: Path) -> None:
        path = make_tree(tmp_path, "file") / "file"

        async def main() -> None:
            await ours.chown(path, os.getuid(), group=os.getgid())
            with pytest.raises(LookupError, match="no_such_user"):
                await ours.chown(path, "no_such_user")
            with pytest.raises(ValueError, match="user and/or group"):
                await ours.chown(path)  # type: ignore[call-overload]

        run(main())

    @pytest.mark.parametrize("kind", ["tar", "zip", "gztar"])
    def test_archives(self, run: Run, tmp_path: Path, kind: str) -> None:
        make_tree(tmp_path / "tree", "folder", "naïve ☃")

        async def main() -> None:
            name = await ours.make_archive(str(tmp_path / "archive"), kind, tmp_path / "tree")
            options: Any = {"filter": "data"} if kind != "zip" else {}
            await ours.unpack_archive(name, tmp_path / "out", **options)

        run(main())
        kept = [(name, what) for name, _, what in snapshot(tmp_path / "tree")]
        assert [(name, what) for name, _, what in snapshot(tmp_path / "out")] == kept


def parameters(function: Any) -> list[tuple[str, Any]]:
    return [(one.name, one.kind) for one in inspect.signature(function).parameters.values()]


class TestNothingIsMissing:
    def test_names(self) -> None:
        assert set(shutil.__all__) <= set(ours.__all__)
        # Errors that it raises but does not list.
        assert set(ours.__all__) - set(shutil.__all__) == {"ReadError", "RegistryError"}
        assert ours.rmtree.avoids_symlink_attacks is True  # type: ignore[attr-defined]
        new = [name for name in ours.__all__ if getattr(ours, name) is not getattr(shutil, name)]
        assert [name for name in new if not inspect.getdoc(getattr(ours, name))] == []

    def test_what_touches_the_disk_is_awaited(self) -> None:
        for name in ours.__all__:
            value = getattr(ours, name)
            same = value is getattr(shutil, name)
            assert inspect.iscoroutinefunction(value) is not same, name

    def test_signatures(self) -> None:
        for name in ours.__all__:
            if inspect.isfunction(getattr(ours, name)):
                theirs, mine = parameters(getattr(shutil, name)), parameters(getattr(ours, name))
                by_name = {one for one in theirs if one[1] is inspect.Parameter.KEYWORD_ONLY}
                positional = [one for one in theirs if one not in by_name]
                assert mine[: len(positional)] == positional, name
                assert by_name <= set(mine), name
