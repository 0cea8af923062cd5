"""`PurePosixPath` as Python 3.13 has it, on every version. It knows names only: no disk, no event loop."""

from __future__ import annotations

import fnmatch
import os
import pathlib
import posixpath
import re
import sys
from collections.abc import Callable
from types import ModuleType
from typing import TYPE_CHECKING, Any, ClassVar
from urllib.parse import unquote_to_bytes

if TYPE_CHECKING:
    from typing_extensions import Self

# Whether one part of a path is what one part of a pattern stands for. None stands for any number of parts.
Test = Callable[[str], Any]


def _tests(pattern: pathlib.PurePath, case_sensitive: bool | None, recursive: bool) -> list[Test | None]:
    flags = re.IGNORECASE if case_sensitive is False else 0
    tests: list[Test | None] = []
    for part in pattern.parts[1:] if pattern.root else pattern.parts:
        if not (recursive and part == "**"):
            tests.append(re.compile(fnmatch.translate(part), flags).match)
        elif tests[-1:] != [None]:
            tests.append(None)
    if len(tests) > 1 and tests[-1] is None:
        # The separator before it is followed by something.
        tests.append(bool)
    return tests


def _fits(names: tuple[str, ...], tests: list[Test | None]) -> bool:
    """Whether tests, in their order, take all of the names. Takes time in proportion to both lengths."""

    def skipping(places: set[int]) -> set[int]:
        return places | {at + 1 for at in places if at < len(tests) and tests[at] is None}

    places = skipping({0})
    for name in names:
        following = set()
        for at in places:
            if at < len(tests):
                test = tests[at]
                if test is None:
                    following.add(at)
                elif test(name):
                    following.add(at + 1)
        places = skipping(following)
    return len(tests) in places


class PurePosixPath(pathlib.PurePosixPath):
    """A path without I/O."""

    __slots__ = ()

    @classmethod
    def from_uri(cls, uri: str) -> Self:
        """The path of a `file:` URI. Raises ValueError for any other, and if the path is not absolute."""
        # 3.13's takes some names of one letter for drives.
        if not uri.startswith("file:"):
            raise ValueError(f"URI does not start with 'file:': {uri!r}")
        rest = uri[len("file:") :]
        for authority in ("//localhost", "//"):
            if rest.startswith(f"{authority}/"):
                rest = rest[len(authority) :]
                break
        path = cls(os.fsdecode(unquote_to_bytes(rest)))
        if not path.is_absolute():
            raise ValueError(f"URI is not absolute: {uri!r}")
        return path

    if sys.version_info < (3, 13):
        parser: ClassVar[ModuleType] = posixpath

        def full_match(self, pattern: str | os.PathLike[str], *, case_sensitive: bool | None = None) -> bool:
            """Whether all of the path matches a pattern; `**` stands for any number of parts."""
            wanted = self.with_segments(pattern)
            tests = _tests(wanted, case_sensitive, recursive=True)
            names = self.parts[1:] if self.root else self.parts
            if wanted.root == self.root:
                return _fits(names, tests)
            # Only `**` stands for a root, together with the name that follows it.
            if wanted.root or tests[:1] != [None]:
                return False
            return len(tests) == 1 or (bool(names) and _fits(names[1:], tests))

    if sys.version_info < (3, 12):

        def with_segments(self, *pathsegments: str | os.PathLike[str]) -> Self:
            """A path of the same type. The methods that ask the disk make their results with it."""
            return type(self)(*pathsegments)

        def match(self, path_pattern: str, *, case_sensitive: bool | None = None) -> bool:
            """Whether the path's end, or all of it if the pattern is absolute, matches; `**` is as `*`."""
            wanted = self.with_segments(path_pattern)
            if not wanted.parts:
                raise ValueError("empty pattern")
            tests = _tests(wanted, case_sensitive, recursive=False)
            names = self.parts[1:] if self.root else self.parts
            if wanted.root:
                return wanted.root == self.root and _fits(names, tests)
            return len(names) >= len(tests) and _fits(names[-len(tests) :], tests)

        def relative_to(self, *other: str | os.PathLike[str], walk_up: bool = False) -> Self:
            """The path from another path to this one, with `..` where `walk_up` allows it.

            Raises ValueError if there is none.
            """
            if not walk_up:
                return super().relative_to(*other)
            start = self.with_segments(*other)
            for steps, parent in enumerate((start, *start.parents)):
                if self.is_relative_to(parent):
                    return self.with_segments(*[".."] * steps, *self.parts[len(parent.parts) :])
                if parent.name == "..":
                    raise ValueError(f"'..' segment in {str(start)!r} cannot be walked")
            raise ValueError(f"{str(self)!r} and {str(start)!r} have different anchors")
