"""`glob` and `rglob` with arguments that this Python's pathlib may not have, by our own implementation."""

from __future__ import annotations

import os
import pathlib
import sys
from pathlib import Path
from typing import Any

import proactor
import pytest
from conftest import Run
from proactor._glob import select

PATTERNS = [
    *("*", "a*", "A*", "*.txt", "[ab]*", "[!a]*", "?", "a", "A", ".hidden", "..", "nothing", "é"),
    *("*/*", "a/*", "*/a.txt", "a/b/../b/*", "./a/./*", "to_a/*", "*/B*", "*.TXT/*"),
    *("**/*", "**/a.txt", "a/**/*.txt", "**/b/*", "**/*/**/*", "**/b/**/*.txt", "**/**/*", "*/**/c*"),
]
# Of directories alone: from 3.13 on, pathlib's give files too.
FOLDERS = ["**", "a/**", "**/b/**"]


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    root = tmp_path / "root"
    for folder in ("a/b/b", "Ab", "c.txt"):
        (root / folder).mkdir(parents=True)
    for file in ("a.txt", "A.TXT", "a/a.txt", "a/b/a.txt", "a/b/b/C.txt", "a/b/b/É", ".hidden", "é"):
        (root / file).touch()
    (root / "to_a").symlink_to("a")
    (root / "a/b/to_ab").symlink_to("../../Ab")
    (root / "Ab/up").symlink_to("..")
    (root / "dangling").symlink_to("missing")
    return root


def ours(root: Path | str, pattern: str, *, recursive: bool = False, **options: bool) -> list[str]:
    settings = {"case_sensitive": True, "recurse_symlinks": False, **options}
    return sorted(select(str(root), pattern, recursive=recursive, **settings))


# "**" in a name is as "*" from 3.13 on.
BAD = ["/a"] if sys.version_info >= (3, 13) else ["/a", "a**", "**a/b"]


def theirs(root: Path | str, pattern: str, *, recursive: bool = False, **options: bool) -> list[str]:
    path = pathlib.Path(root)
    glob: Any = path.rglob if recursive else path.glob
    return sorted({str(found) for found in glob(pattern, **options)})


@pytest.mark.parametrize("recursive", [False, True])
@pytest.mark.parametrize("pattern", PATTERNS)
def test_as_pathlib(tree: Path, pattern: str, recursive: bool) -> None:
    found = ours(tree, pattern, recursive=recursive)
    assert found == theirs(tree, pattern, recursive=recursive)
    assert len(found) == len(set(found))


if sys.version_info < (3, 13):
    # Later they give files too.

    @pytest.mark.parametrize("pattern", FOLDERS)
    def test_directories_as_pathlib(tree: Path, pattern: str) -> None:
        assert ours(tree, pattern) == theirs(tree, pattern)


@pytest.mark.parametrize("pattern", PATTERNS)
def test_either_case(tree: Path, pattern: str) -> None:
    found = ours(tree, pattern, case_sensitive=False)
    assert "!" in pattern or set(found) >= set(ours(tree, pattern))
    if sys.version_info >= (3, 12):
        assert found == theirs(tree, pattern, case_sensitive=False)


def test_either_case_of_names(tree: Path) -> None:
    def names(pattern: str) -> list[str]:
        return [os.path.relpath(path, tree) for path in ours(tree, pattern, case_sensitive=False)]

    assert names("a.txt") == ["A.TXT", "a.txt"]
    assert names("[B-Z]*.TXT") == ["c.txt"]
    assert names("AB/*") == ["Ab/up"]
    assert names("**/É") == ["a/b/b/É", "é"]


@pytest.mark.parametrize("pattern", ["**/a.txt", "**/C.txt", "**/b/*.txt"])
def test_into_links(tree: Path, pattern: str) -> None:
    (tree / "Ab/up").unlink()  # which would lead round and round
    found = ours(tree, pattern, recurse_symlinks=True)
    assert any("to_a/" in path for path in found)
    assert set(found) > set(ours(tree, pattern))
    if sys.version_info >= (3, 13):
        assert found == theirs(tree, pattern, recurse_symlinks=True)


def test_links_that_lead_round_end_somewhere(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "self").symlink_to(".")
    found = ours(tmp_path, "**/file", recurse_symlinks=True)
    assert len(found) > 2
    assert all(Path(path).samefile(tmp_path / "file") for path in found)


def test_a_separator_at_the_end_is_for_directories(tree: Path) -> None:
    assert ours(tree, "*/") == [str(tree / name) for name in ("Ab", "a", "c.txt", "to_a")]
    assert ours(tree, "a.txt/") == []


def test_dangling_links_are_there(tree: Path) -> None:
    assert ours(tree, "dangling") == ours(tree, "dang*") == [str(tree / "dangling")]
    assert ours(tree, "dangling/*") == []


def test_where_it_begins(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tree)
    for place in (".", "a", "/dev/fd", "nothing", "a.txt"):
        assert ours(place, "*") == theirs(place, "*")
    assert ours("/", "dev") == ["/dev"]


@pytest.mark.parametrize("recursive", [False, True])
@pytest.mark.parametrize("pattern", BAD)
def test_bad_patterns(tree: Path, pattern: str, recursive: bool) -> None:
    with pytest.raises((ValueError, NotImplementedError)) as expected:
        theirs(tree, pattern, recursive=recursive)
    with pytest.raises((ValueError, NotImplementedError)) as caught:
        ours(tree, pattern, recursive=recursive)
    assert (type(caught.value), str(caught.value)) == (type(expected.value), str(expected.value))


def test_an_empty_pattern(tree: Path) -> None:
    for pattern in ("", "."):
        with pytest.raises(ValueError, match="Unacceptable pattern"):
            ours(tree, pattern)
        assert ours(tree, pattern, recursive=True) == ours(tree, "**")


def test_directories_that_cannot_be_read(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scandir = os.scandir

    def refuse(path: str) -> Any:
        if path.endswith("/b/"):
            raise PermissionError(13, "Permission denied", path)
        return scandir(path)

    monkeypatch.setattr(os, "scandir", refuse)
    found = [os.path.relpath(path, tree) for path in ours(tree, "**/*.txt")]
    assert found == ["a.txt", "a/a.txt", "c.txt"]


@pytest.mark.parametrize("options", [{"case_sensitive": False}, {"recurse_symlinks": True}])
def test_paths_on_every_python(run: Run, tree: Path, options: dict[str, bool]) -> None:
    (tree / "Ab/up").unlink()

    async def main() -> None:
        for pattern in ("*.txt", "**/*.txt"):
            found = [path async for path in proactor.Path(tree).glob(pattern, **options)]
            assert sorted(map(str, found)) == ours(tree, pattern, **options)
        found = [path async for path in proactor.Path(tree).rglob("*.txt", **options)]
        assert sorted(map(str, found)) == ours(tree, "*.txt", recursive=True, **options)

    run(main())
