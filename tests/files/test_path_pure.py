"""`proactor.Path` as a name: equality, joining, subclasses, patterns; and nothing of pathlib's is missing."""

from __future__ import annotations

import inspect
import os
import pathlib
import pickle
import re
import sys
from copy import deepcopy
from typing import Any

import proactor
import pytest
from conftest import Run
from hypothesis import given
from hypothesis import strategies as st
from proactor import Path
from tree_helpers import make_tree, settled

# Public names of 3.13's pathlib.Path, so that older Pythons are held to it too.
NAMES = """
    absolute anchor as_posix as_uri chmod cwd drive exists expanduser from_uri full_match glob group
    hardlink_to home is_absolute is_block_device is_char_device is_dir is_fifo is_file is_junction is_mount
    is_relative_to is_reserved is_socket is_symlink iterdir joinpath lchmod lstat match mkdir name open owner
    parent parents parser parts read_bytes read_text readlink relative_to rename replace resolve rglob rmdir
    root samefile stat stem suffix suffixes symlink_to touch unlink walk with_name with_segments with_stem
    with_suffix write_bytes write_text
"""
SURFACE = set(NAMES.split())

NOT_OFFERED = {"link_to": "deprecated since 3.10, gone in 3.12: hardlink_to takes its arguments in order"}

NOT_AWAITED = {
    "open": "gives what is awaited, or used in `async with`",
    "from_uri": "handles names only",
    **dict.fromkeys(["iterdir", "glob", "rglob", "walk"], "an async generator"),
}


class Sub(Path):
    """A subclass without slots, as users write them."""


class WithState(Path):
    """One whose paths know a thing, and hand it on."""

    def __init__(self, *segments: Any, about: str = "") -> None:
        if sys.version_info >= (3, 12):
            super().__init__(*segments)
        self.about = about

    def __new__(cls, *segments: Any, about: str = "") -> WithState:
        return super().__new__(cls, *segments)

    def with_segments(self, *segments: Any) -> WithState:
        return type(self)(*segments, about=self.about)


class TestAName:
    def test_is_a_pure_path(self) -> None:
        path = Path("a", "b")
        assert isinstance(path, pathlib.PurePosixPath)
        assert not isinstance(path, pathlib.Path)
        assert repr(path) == "Path('a/b')"
        assert (str(path), os.fspath(path), bytes(path)) == ("a/b", "a/b", b"a/b")
        assert not hasattr(path, "__dict__")

    @pytest.mark.parametrize("other", [pathlib.PurePosixPath, pathlib.PurePath, pathlib.Path, Sub])
    def test_equality_hash_and_order(self, other: Any) -> None:
        assert Path("a/b") == other("a/b")
        assert hash(Path("a/b")) == hash(other("a/b"))
        assert Path("a/b") != other("a/c")
        assert Path("a/b") < other("a/c")
        assert {Path("a/b"): 1}[other("a/b")] == 1
        unlike: Any = "a"
        assert Path("a") != unlike

    @pytest.mark.parametrize("kind", [Path, Sub])
    @pytest.mark.parametrize(
        "other", ["b", pathlib.PurePosixPath("b"), pathlib.Path("b"), Path("b")], ids=repr
    )
    def test_joining_keeps_the_type(self, kind: type[Path], other: Any) -> None:
        for path in (kind("a") / other, kind("a").joinpath(other), kind("a", other)):
            assert type(path) is kind
            assert str(path) == "a/b"
        assert type("a" / kind("b")) is kind
        assert str("a" / kind("b")) == "a/b"

    @pytest.mark.parametrize("kind", [Path, Sub])
    def test_derived_names_keep_the_type(self, kind: type[Path]) -> None:
        path = kind("/a/b.x/c.tar.gz")
        derived = [
            path.parent,
            *path.parents,
            path.with_name("d"),
            path.with_stem("d"),
            path.with_suffix(".zip"),
            path.with_segments("a", "b"),
            path.relative_to("/a"),
            path.relative_to("/a/d", walk_up=True),
            kind.from_uri("file:///a"),
        ]
        assert {type(one) for one in derived} == {kind}

    @pytest.mark.parametrize("path", [Path("a/b"), Path("/"), Path(), Sub("sur\udcff")], ids=repr)
    def test_pickle_and_copy(self, path: Path) -> None:
        pickles = [pickle.dumps(path, protocol) for protocol in range(pickle.HIGHEST_PROTOCOL + 1)]
        for copied in (*map(pickle.loads, pickles), deepcopy(path)):
            assert (copied, type(copied)) == (path, type(path))

    def test_pickles_name_no_private_module(self) -> None:
        assert b"_path" not in pickle.dumps(Path("a"))

    @pytest.mark.parametrize("bad", [b"a", 5, None], ids=repr)
    def test_no_path(self, bad: Any) -> None:
        with pytest.raises(TypeError):
            Path(bad)
        with pytest.raises(TypeError):
            Path("a") / bad


class TestSubclasses:
    def test_what_the_disk_gives_keeps_the_type(self, run: Run, tmp_path: pathlib.Path) -> None:
        root = Sub(make_tree(tmp_path))

        async def main() -> list[Any]:
            return [
                *await settled(root.iterdir),
                *await settled(lambda: root.glob("*")),
                *await settled(lambda: root.rglob("*.txt")),
                *[path for path, _, _ in await settled(root.walk)],
                await Sub.cwd(),
                await Sub.home(),
                await Sub("~").expanduser(),
                await Sub("a").absolute(),
                await root.resolve(),
                await (root / "to_file").readlink(),
                await (root / "file").rename(root / "other"),
                await (root / "other").replace(tmp_path / "file"),
            ]

        assert {type(path) for path in run(main())} == {Sub}

    def test_with_segments_hands_things_on(self, run: Run, tmp_path: pathlib.Path) -> None:
        root = WithState(make_tree(tmp_path), about="this")

        async def main() -> list[Any]:
            return [
                *await settled(lambda: root.glob("*")),
                await root.resolve(),
                await root.with_segments("~").expanduser(),
                await root.with_segments("to_file").absolute(),
                await root.with_segments(tmp_path, "to_file").readlink(),
                await root.with_segments(tmp_path, "file").rename(tmp_path / "other"),
            ]

        assert {path.about for path in run(main())} == {"this"}

    def test_an_overridden_stat_is_asked(self, run: Run) -> None:
        class Everywhere(Path):
            async def stat(self, *, follow_symlinks: bool = True) -> os.stat_result:
                return os.stat("/")

        async def main() -> list[bool]:
            path = Everywhere("/no/such/thing")
            return [await path.exists(), await path.is_dir(), await path.is_file()]

        assert run(main()) == [True, True, False]


class TestNewerThanThisPython:
    """3.13's pure methods. Where this Python is older, they are ours."""

    def test_full_match(self) -> None:
        for path, pattern, fits in [
            ("a/b.py", "a/*.py", True),
            ("a/b.py", "*.py", False),
            ("a/b.py", "**/*.py", True),
            ("b.py", "**/*.py", True),
            ("/b.py", "**/*.py", False),
            ("/a/b.py", "/**/*.py", True),
            ("/a/b.py", "/**", True),
            ("/", "/**", True),
            ("/", "**", True),
            ("/a", "**", True),
            ("/", "**/*", False),
            ("/a", "**/*", False),
            ("/a/b/c.py", "**/*.py", True),
            ("/a/b", "**/**/b", True),
            ("/a/b", "*/b", False),
            ("a/b", "/**", False),
            ("a/b/c", "**", True),
            ("", "**", True),
            ("", "", True),
            ("", "*", False),
            ("a", "", False),
            ("a", "a/**", False),
            ("a/b/c", "a/**", True),
            ("a/b/c", "a/**/c", True),
            ("a/c", "a/**/c", True),
            ("a/b/c/d", "a/**/c", False),
            ("a/x/b/y/c", "a/**/b/**/c", True),
            ("a/x/y/c", "a/**/b/**/c", False),
            ("a/b", "a/**/**/b", True),
            ("a/b", "a/**b", True),
            ("a/x/b", "a/**b", False),
            ("a/b", "a?b", False),
            ("a/b", "[!x]/[ab]", True),
            (".hidden", "*", True),
            ("A/b", "a/B", False),
            ("a/b", "./a//b/", True),
            ("a/../b", "a/*/b", True),
            ("a\nb", "a?b", True),
            ("a\n", "a", False),
            ("//a/b", "/a/b", False),
            ("//a/b", "//a/*", True),
        ]:
            assert Path(path).full_match(pattern) is fits, (path, pattern)
            assert Path(path).full_match(Path(pattern)) is fits
            assert Path(path.upper()).full_match(pattern.lower(), case_sensitive=False) >= fits

    @given(
        st.sampled_from(["", "/"]),
        st.lists(st.sampled_from(["a", "b"]), max_size=6),
        st.lists(st.sampled_from(["a", "*", "**"]), max_size=5),
    )
    def test_full_match_beside_a_regular_expression(
        self, root: str, names: list[str], pattern: list[str]
    ) -> None:
        def part(at: int, name: str) -> str:
            last = at == len(pattern) - 1
            if name == "**":
                return ".*" if last else "(.+/)?"
            return {"*": "[^/]+"}.get(name, name) + ("" if last else "/")

        wanted = "".join(part(at, name) for at, name in enumerate(pattern))
        path = root + "/".join(names)
        assert Path(path).full_match("/".join(pattern)) is bool(re.fullmatch(wanted, path))

    @pytest.mark.parametrize(
        ("path", "pattern", "fits"),
        [
            ("a/b.PY", "*.py", True),
            ("/a/B", "a/b", True),
            ("/A", "/a", True),
            ("a/b", "/a/b", False),
            ("/x/a", "/a", False),
            ("b", "a/b", False),
            ("a/b/c", "A/**/C", True),
            ("/", "/", True),
        ],
    )
    def test_match_without_case(self, path: str, pattern: str, fits: bool) -> None:
        assert Path(path).match(pattern, case_sensitive=False) is fits

    @pytest.mark.parametrize("case_sensitive", [None, True, False])
    def test_a_root_is_no_name_to_match(self, case_sensitive: bool | None) -> None:
        for path, pattern in (("/", "*"), ("/a", "*/*"), ("/a", "**/*")):
            assert not Path(path).match(pattern, case_sensitive=case_sensitive)

    def test_match_with_case(self) -> None:
        assert Path("a/b.py").match("*.py", case_sensitive=True)
        assert not Path("a/b.PY").match("*.py")
        for case_sensitive in (None, False, True):
            with pytest.raises(ValueError, match="empty"):
                Path("a").match("", case_sensitive=case_sensitive)

    @pytest.mark.parametrize(
        ("path", "start", "relative"),
        [
            ("/a/b/c", "/a", "b/c"),
            ("/a/b", "/a/c/d", "../../b"),
            ("/a", "/b", "../a"),
            ("/a", "/a", "."),
            ("a/b", "c", "../a/b"),
            ("a", "a/b", ".."),
        ],
    )
    def test_relative_to(self, path: str, start: str, relative: str) -> None:
        assert Path(path).relative_to(start, walk_up=True) == Path(relative)
        if relative.startswith(".."):
            with pytest.raises(ValueError, match="subpath"):
                Path(path).relative_to(start)

    @pytest.mark.parametrize(("path", "start"), [("/a", "b"), ("a", "/b"), ("a", "../b")])
    def test_relative_to_nothing_common(self, path: str, start: str) -> None:
        with pytest.raises(ValueError, match=start):
            Path(path).relative_to(start, walk_up=True)

    @pytest.mark.parametrize(
        ("uri", "path"),
        [
            ("file:///a/b", "/a/b"),
            ("file:/a/b", "/a/b"),
            ("file://localhost/a/b", "/a/b"),
            ("file:////a/b", "//a/b"),
            ("file:///a%20%C3%A9%FF", "/a é\udcff"),
            ("file:///", "/"),
            ("file:///c:/a", "/c:/a"),
        ],
    )
    def test_from_uri(self, uri: str, path: str) -> None:
        assert str(Path.from_uri(uri)) == path

    @pytest.mark.parametrize("uri", ["/a", "http://a/b", "file:a/b", ""])
    def test_not_a_files_uri(self, uri: str) -> None:
        with pytest.raises(ValueError, match="URI"):
            Path.from_uri(uri)

    @pytest.mark.parametrize("path", ["/", "/a b/é", "/sur\udcff", "/%41"])
    def test_uris_there_and_back(self, path: str) -> None:
        assert Path.from_uri(Path(path).as_uri()) == Path(path)

    def test_parser(self) -> None:
        assert Path.parser is os.path


def parameters(function: Any) -> list[tuple[str, Any, Any]]:
    return [
        (parameter.name, parameter.kind, parameter.default)
        for parameter in inspect.signature(function).parameters.values()
    ]


class TestNothingIsMissing:
    def test_names(self) -> None:
        theirs = {name for name in dir(pathlib.Path) if not name.startswith("_")}
        if sys.version_info[:2] <= (3, 13):
            assert theirs - SURFACE == NOT_OFFERED.keys() & theirs
        assert {name for name in SURFACE if not hasattr(Path, name)} == set()
        assert {name for name in dir(Path) if not name.startswith("_")} - theirs <= SURFACE

    def test_signatures(self) -> None:
        """What this Python does not have yet comes after what it has, and may be left out."""
        # Pure ones, which Pythons declare differently.
        pure = {"relative_to", "is_relative_to", "match", "joinpath"}
        for name in SURFACE - pure:
            theirs = getattr(pathlib.Path, name, None)
            if not callable(theirs):
                continue
            known, ours = parameters(theirs), parameters(getattr(Path, name))
            assert ours[: len(known)] == known, name
            assert all(default is not inspect.Parameter.empty for _, _, default in ours[len(known) :]), name

    def test_everything_says_what_it_does(self) -> None:
        for name, value in vars(Path).items():
            if not name.startswith("_"):
                assert inspect.getdoc(getattr(value, "__func__", value)), name

    def test_what_asks_the_system_is_awaited(self) -> None:
        for name in SURFACE - {"with_segments", "full_match", "parser"}:
            ours = inspect.getattr_static(Path, name)
            ours = getattr(ours, "__func__", ours)
            plain = name in NOT_AWAITED or hasattr(pathlib.PurePath, name)
            assert inspect.iscoroutinefunction(ours) is not plain, name
            assert inspect.isasyncgenfunction(ours) is (NOT_AWAITED.get(name) == "an async generator"), name

    def test_is_exported(self) -> None:
        assert proactor.Path is Path
        assert "Path" in proactor.__all__
