"""`proactor.Path` on a disk, beside `pathlib.Path`: the same results, errors and trees."""

from __future__ import annotations

import asyncio
import os
import sys
import threading
from collections.abc import Callable
from contextlib import aclosing
from functools import partial
from pathlib import Path
from typing import Any

import proactor
import pytest
from conftest import Run
from file_helpers import in_time, until, warns_here
from tree_helpers import ENTRIES, NAMES, make_tree, outcome, plain, settled, snapshot

Call = Callable[[Any], Any]

ASKING: dict[str, Call] = {
    name: lambda path, name=name: getattr(path, name)()  # type: ignore[misc]
    for name in [
        "stat",
        "lstat",
        "exists",
        "is_dir",
        "is_file",
        "is_symlink",
        "is_socket",
        "is_fifo",
        "is_block_device",
        "is_char_device",
        "is_mount",
        "owner",
        "group",
        "readlink",
        "resolve",
        "absolute",
        "expanduser",
        "iterdir",
    ]
}
ASKING.update(
    {
        "stat without following": lambda path: path.stat(follow_symlinks=False),
        "strictly resolve": lambda path: path.resolve(strict=True),
        "samefile": lambda path: path.samefile(path.parent / "to_file"),
        "samefile as str": lambda path: path.samefile(str(path.parent / "file")),
        "samefile of nothing": lambda path: path.samefile("/no/such/file"),
    }
)

# Those that would wait for a peer at a FIFO.
READING: dict[str, Call] = {
    "read_bytes": lambda path: path.read_bytes(),
    "read_text": lambda path: path.read_text(encoding="utf-8"),
    "read_text wrongly": lambda path: path.read_text("ascii", "strict"),
    "read_text leniently": lambda path: path.read_text(encoding="ascii", errors="replace"),
}

CHANGING: dict[str, Call] = {
    "chmod": lambda path: path.chmod(0o600),
    "lchmod": lambda path: path.lchmod(0o600),
    "chmod without following": lambda path: path.chmod(0o600, follow_symlinks=False),
    "mkdir": lambda path: path.mkdir(),
    "mkdir mode": lambda path: path.mkdir(0o700),
    "mkdir parents": lambda path: path.mkdir(parents=True),
    "mkdir exist_ok": lambda path: path.mkdir(exist_ok=True),
    "mkdir both": lambda path: path.mkdir(0o711, True, True),
    "rmdir": lambda path: path.rmdir(),
    "unlink": lambda path: path.unlink(),
    "unlink missing_ok": lambda path: path.unlink(missing_ok=True),
    "rename": lambda path: path.rename(path.parent / "other"),
    "rename as str": lambda path: path.rename(str(path.parent / "other")),
    "rename onto a file": lambda path: path.rename(path.parent / "empty"),
    "rename onto a folder": lambda path: path.rename(path.parent / "folder"),
    "replace": lambda path: path.replace(path.parent / "empty"),
    "touch": lambda path: path.touch(),
    "touch mode": lambda path: path.touch(0o600),
    "touch a new one": lambda path: path.touch(exist_ok=False),
    "symlink_to": lambda path: path.symlink_to("file"),
    "symlink_to a folder": lambda path: path.symlink_to(path.parent / "folder", True),
    "hardlink_to": lambda path: path.hardlink_to(path.parent / "file"),
    "hardlink_to nothing": lambda path: path.hardlink_to(path.parent / "missing"),
}

WRITING: dict[str, Call] = {
    "write_bytes": lambda path: path.write_bytes(b"bytes"),
    "write_bytes of an array": lambda path: path.write_bytes(memoryview(b"bytes")),
    "write_bytes of a str": lambda path: path.write_bytes("text"),
    "write_text": lambda path: path.write_text("a\nb é", encoding="utf-8"),
    "write_text newline": lambda path: path.write_text("a\nb", "latin-1", None, "\r\n"),
    "write_text of bytes": lambda path: path.write_text(b"bytes"),
}

PATTERNS = [
    "*",
    "*.txt",
    "**",
    "**/",
    "**/*",
    "**/*.txt",
    "folder/*",
    "folder/**/*.txt",
    "*/*",
    "to_folder/*",
    "to_folder/**/*",
    ".*",
    "[!a-m]*",
    "file",
    "missing",
    "missing/*",
    "folder/../file",
    "dangling",
    "loop/*",
    "sur*",
]
BAD_PATTERNS = ["", "/absolute/*"]


def both(tmp_path: Path, *names: str) -> list[Any]:
    """Two trees with the same things in them: for the standard library's path and for ours."""
    roots = [make_tree(tmp_path / name, *names) for name in ("std", "our")]
    return [roots[0], proactor.Path(roots[1])]


class TestParity:
    def test_asking(self, run: Run, tmp_path: Path) -> None:
        async def main() -> None:
            theirs, ours = both(tmp_path)
            for name, call in (ASKING | READING).items():
                for at in NAMES:
                    if at == "fifo" and name in READING:
                        continue
                    expected = await outcome(partial(call, theirs / at), theirs)
                    assert await outcome(partial(call, ours / at), Path(ours)) == expected, (name, at)

        run(main())

    # On one kind of loop: what threads do does not depend on it.
    @pytest.mark.parametrize("name", [*CHANGING, *WRITING])
    def test_changing(self, tmp_path: Path, name: str) -> None:
        call = (CHANGING | WRITING)[name]
        names = [at for at in NAMES if at not in (".", "fifo" if name in WRITING else None)]

        async def main() -> None:
            for number, at in enumerate(names):
                needed = {"file", "empty", at.partition("/")[0]} & ENTRIES.keys()
                if "folder" in f"{name} {at}":
                    needed.add("folder")
                theirs, ours = both(tmp_path / str(number), *sorted(needed, key=list(ENTRIES).index))
                expected = await outcome(partial(call, theirs / at), theirs)
                assert await outcome(partial(call, ours / at), Path(ours)) == expected, at
                assert snapshot(Path(ours)) == snapshot(theirs), at

        asyncio.run(main())

    @pytest.mark.parametrize("method", ["glob", "rglob"])
    def test_globs(self, run: Run, tmp_path: Path, method: str) -> None:
        async def main() -> None:
            theirs, ours = both(tmp_path)
            for pattern in PATTERNS + BAD_PATTERNS:
                expected = await outcome(partial(getattr(theirs, method), pattern), theirs)
                found = await outcome(partial(getattr(ours, method), pattern), Path(ours))
                assert found == expected, pattern

        run(main())

    @pytest.mark.parametrize("top_down", [True, False])
    @pytest.mark.parametrize("follow_symlinks", [False, True])
    def test_walk(self, run: Run, tmp_path: Path, top_down: bool, follow_symlinks: bool) -> None:
        """As `os.walk`, but a link that is not followed is no directory."""
        root = make_tree(tmp_path / "tree")

        def expected() -> list[Any]:
            found = []
            for folder, folders, files in os.walk(root, top_down, None, follow_symlinks):
                links = [name for name in folders if os.path.islink(os.path.join(folder, name))]
                if not follow_symlinks:
                    folders, files = [name for name in folders if name not in links], files + links
                found.append((plain(folder, root), sorted(folders), sorted(files)))
            return found

        async def main() -> list[Any]:
            return [
                (plain(path, root), sorted(folders), sorted(files))
                async for path, folders, files in proactor.Path(root).walk(
                    top_down, follow_symlinks=follow_symlinks
                )
            ]

        found = run(main())
        assert sorted(found) == sorted(expected())
        places = [place for place, _, _ in found]
        for place in places[1:] if top_down else places[:-1]:
            above = places.index(os.path.dirname(place))
            assert (above < places.index(place)) is top_down

    if sys.version_info >= (3, 12):

        @pytest.mark.parametrize("top_down", [True, False])
        @pytest.mark.parametrize("at", [".", "file", "missing", "to_folder", "nul\0byte"])
        def test_walk_beside_pathlib(self, run: Run, tmp_path: Path, top_down: bool, at: str) -> None:
            async def main() -> None:
                theirs, ours = both(tmp_path)
                expected = await outcome(lambda: (theirs / at).walk(top_down), theirs)
                assert await outcome(lambda: (ours / at).walk(top_down), Path(ours)) == expected

            run(main())

    def test_relative(self, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.chdir(make_tree(tmp_path / "tree"))

        async def results(kind: Any) -> list[Any]:
            calls = [
                *(lambda at=at: kind(at).iterdir() for at in (".", "", "folder", "./folder/..")),
                *(lambda at=at: kind(at).absolute() for at in (".", "file", "../x", "/a", "//a")),
                *(lambda at=at: kind(at).glob("*") for at in (".", "folder")),
                *(lambda at=at: kind(at).rglob("*.txt") for at in (".", "folder")),
                lambda: kind("folder/../to_file").resolve(),
                lambda: kind("to_file").readlink(),
                lambda: kind("file").rename("moved"),
            ]
            return [await outcome(call, Path(tmp_path)) for call in calls]

        async def main() -> list[Any]:
            found = await results(proactor.Path)
            os.rename("moved", "file")
            assert await results(Path) == found
            return [path async for path, _, _ in proactor.Path(".").walk()]

        assert set(run(main())) == {
            Path(name) for name in (".", "folder", "folder/deep", "folder/deep/deeper")
        }

    def test_homes(self, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("HOME", str(tmp_path))
        monkeypatch.chdir(tmp_path)
        names = ["~", "~/a", "~root", "~root/b", "~no_such_user/c", "a/~", "/~", "", "./~"]

        async def results(kind: Any) -> list[Any]:
            calls = [kind.home, kind.cwd, *(lambda at=at: kind(at).expanduser() for at in names)]
            return [await outcome(call, Path("/nowhere")) for call in calls]

        async def main() -> None:
            assert await results(proactor.Path) == await results(Path)

        run(main())


class TestNewerThanThisPython:
    """What 3.13's pathlib has, on every version."""

    def test_without_following(self, run: Run, tmp_path: Path) -> None:
        root = proactor.Path(make_tree(tmp_path))

        async def main() -> list[Any]:
            return [
                await (root / "to_file").is_file(follow_symlinks=False),
                await (root / "file").is_file(follow_symlinks=False),
                await (root / "to_folder").is_dir(follow_symlinks=False),
                await (root / "folder").is_dir(follow_symlinks=False),
                await (root / "dangling").exists(follow_symlinks=False),
                await (root / "missing").exists(follow_symlinks=False),
                await (root / "dangling").owner(follow_symlinks=False) == (tmp_path / "file").owner(),
                await (root / "dangling").group(follow_symlinks=False) == (tmp_path / "file").group(),
                await (root / "folder").is_junction(),
            ]

        assert run(main()) == [False, True, False, True, True, False, True, True, False]

    def test_read_text_newline(self, run: Run, tmp_path: Path) -> None:
        path = proactor.Path(tmp_path / "file")

        async def main() -> list[str]:
            await path.write_bytes(b"a\r\nb\r")
            return [await path.read_text("ascii", None, newline) for newline in (None, "", "\n")]

        assert run(main()) == ["a\nb\n", "a\r\nb\r", "a\r\nb\r"]

    def test_globs(self, run: Run, tmp_path: Path) -> None:
        root = proactor.Path(make_tree(tmp_path))

        async def main() -> None:
            assert {path.name async for path in root.glob("*.txt", case_sensitive=True)} == set()
            assert {path.name async for path in root.glob("*.txt", case_sensitive=False)} == {"Upper.TXT"}
            found = [path async for path in root.rglob("x.txt", recurse_symlinks=True)]
            assert len(found) == 2
            assert all(type(path) is proactor.Path for path in found)

        run(main())


class TestOpen:
    def test_text_and_bytes(self, run: Run, tmp_path: Path) -> None:
        path = proactor.Path(tmp_path / "file")

        async def main() -> None:
            async with path.open("w", encoding="utf-8", newline="\r\n") as file:
                assert file.name == str(path)
                await file.write("é\n")
            async with path.open("rb") as raw:
                assert await raw.read() == b"\xc3\xa9\r\n"
            file = await path.open(encoding="utf-8")
            assert await file.read() == "é\n"
            await file.close()

        run(main())

    def test_bad_arguments(self, tmp_path: Path) -> None:
        path = make_tree(tmp_path) / "file"
        for arguments in (("q",), ("rb", -1, "utf-8"), ("r", 0), (5,)):
            with pytest.raises((ValueError, TypeError)) as ours:
                proactor.Path(path).open(*arguments)
            with pytest.raises(ours.type):
                path.open(*arguments)

    def test_a_missing_file(self, run: Run, tmp_path: Path) -> None:
        async def main() -> None:
            with pytest.raises(FileNotFoundError) as caught:
                await proactor.Path(tmp_path / "missing").open()
            assert caught.value.filename == str(tmp_path / "missing")

        run(main())

    def test_the_encoding_warning_names_the_callers_line(self, tmp_path: Path) -> None:
        code = """
import asyncio, sys, warnings
from proactor import Path

async def main(path):
    await path.write_text("a")  # here
    await path.read_text()  # here
    await (await path.open()).close()  # here
    await path.read_text("utf-8")

with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    asyncio.run(main(Path(sys.argv[1])))
print([one.lineno for one in caught if one.category is EncodingWarning])
"""
        warns_here(code, tmp_path / "file")


class TestTurns:
    def test_directories_are_read_by_threads(
        self, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        root = proactor.Path(make_tree(tmp_path))
        threads = set()
        scandir = os.scandir

        def noted(*arguments: Any) -> Any:
            threads.add(threading.current_thread())
            return scandir(*arguments)

        monkeypatch.setattr(os, "scandir", noted)

        async def main() -> None:
            assert await settled(root.iterdir)
            assert await settled(root.walk)

        run(main())
        assert threads
        assert threading.current_thread() not in threads

    def test_many_entries(self, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("proactor._steps.SLICE_ITEMS", 7)
        names = {f"{number}" for number in range(30)}
        for name in names:
            (tmp_path / name).touch()

        async def main() -> None:
            assert {path.name async for path in proactor.Path(tmp_path).iterdir()} == names
            assert {path.name async for path in proactor.Path(tmp_path).glob("*")} == names

        run(main())

    def test_left_early(self, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """The leak check sees that the directory is closed."""
        monkeypatch.setattr("proactor._steps.SLICE_ITEMS", 7)
        for number in range(30):
            (tmp_path / str(number)).touch()
        root = proactor.Path(tmp_path)

        async def main() -> None:
            for entries in (root.iterdir(), root.glob("*"), root.rglob("*")):
                async with aclosing(entries):
                    async for path in entries:
                        assert path.parent == root
                        break
            async for _, folders, _ in root.walk():
                folders.clear()
                break

        run(main())

    def test_walk_leaves_out_what_is_edited_away(self, run: Run, tmp_path: Path) -> None:
        root = proactor.Path(make_tree(tmp_path))

        async def main() -> list[str]:
            found = []
            async for path, folders, _ in root.walk():
                found.append(path.name)
                if "deep" in folders:
                    folders.remove("deep")
                    folders.append("missing")
            return found

        assert run(main()) == [tmp_path.name, "folder"]

    def test_walk_tells_of_errors(self, run: Run, tmp_path: Path) -> None:
        root = proactor.Path(make_tree(tmp_path))
        errors: list[OSError] = []

        async def main() -> None:
            assert await settled(lambda: (root / "missing").walk()) == []
            assert await settled(lambda: (root / "file").walk(on_error=errors.append)) == []

        run(main())
        assert [(type(error), error.filename) for error in errors] == [
            (NotADirectoryError, str(tmp_path / "file"))
        ]

    def test_cancelled(self, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """The awaiter leaves at once; what a thread has begun is done."""
        begun, go_on = threading.Event(), threading.Event()
        rmdir = os.rmdir

        def slow(*arguments: Any, **options: Any) -> None:
            begun.set()
            assert go_on.wait(30)
            rmdir(*arguments, **options)

        path = proactor.Path(tmp_path / "folder")
        os.mkdir(path)
        monkeypatch.setattr(os, "rmdir", slow)

        def gone() -> bool:
            return not os.path.exists(path)

        async def main() -> None:
            task = asyncio.create_task(path.rmdir())
            await until(begun.is_set)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await in_time(task)
            assert not gone()
            go_on.set()
            await until(gone)

        run(main())
