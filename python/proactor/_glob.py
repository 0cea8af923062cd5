"""`glob` with what this Python's pathlib does not know yet: `case_sensitive` and `recurse_symlinks`.

By the documented rules of Python 3.13, but that `**` at the end of a pattern stands for directories alone, as
in every Python that needs this.
"""

from __future__ import annotations

import fnmatch
import os
import re
from collections.abc import Callable, Generator, Iterator
from contextlib import suppress
from typing import Any

# What one part of a pattern stands for: any depth of directories, one name, or names that pass a test.
ANY_DEPTH = None
Part = str | Callable[[str], Any] | None
MAGIC = re.compile(r"[*?[]")


def select(
    folder: str, pattern: str, *, recursive: bool, case_sensitive: bool, recurse_symlinks: bool
) -> Generator[str, None, None]:
    """The paths below a directory that match, each once and in no order.

    `recursive` is `rglob`. Directories that cannot be listed are left out. ValueError for an empty pattern
    and for `**` beside other characters, NotImplementedError for an absolute one.
    """
    parts: list[Part] = [ANY_DEPTH] if recursive else []
    parts += _parts(pattern, case_sensitive)
    if not parts:
        raise ValueError(f"Unacceptable pattern: {pattern!r}")
    base = "" if folder == "." else os.path.join(folder, "")
    if not os.path.isdir(base or "."):
        return
    found = _select(base, tuple(parts), pattern.endswith("/"), recurse_symlinks)
    if parts.count(ANY_DEPTH) < 2:
        yield from found
        return
    # One path may fit in several ways.
    seen: set[str] = set()
    for path in found:
        if path not in seen:
            seen.add(path)
            yield path


def _parts(pattern: str, case_sensitive: bool) -> Iterator[Part]:
    if pattern.startswith("/"):
        # pathlib's own error for it.
        raise NotImplementedError("Non-relative patterns are unsupported")
    before: Part = ""
    for name in pattern.split("/"):
        if name in ("", "."):
            continue
        part = _part(name, case_sensitive)
        # Twice in a row it stands for no more.
        if part is not ANY_DEPTH or before is not ANY_DEPTH:
            yield part
        before = part


def _part(name: str, case_sensitive: bool) -> Part:
    if name == "**":
        return ANY_DEPTH
    if "**" in name:
        raise ValueError("Invalid pattern: '**' can only be an entire path component")
    if name == ".." or (case_sensitive and not MAGIC.search(name)):
        return name
    flags = 0 if case_sensitive else re.IGNORECASE
    return re.compile(fnmatch.translate(name), flags).match


def _select(
    base: str, parts: tuple[Part, ...], only_folders: bool, recurse_symlinks: bool
) -> Generator[str, None, None]:
    """`base` is empty or ends with a separator, as all that is handed down."""
    part, rest = parts[0], parts[1:]
    if part is ANY_DEPTH:
        matches: Iterator[str] = _folders(base, recurse_symlinks)
    else:
        matches = _matches(base, part, only_folders or bool(rest))
    for path in matches:
        if rest:
            yield from _select(os.path.join(path, ""), rest, only_folders, recurse_symlinks)
        else:
            yield path.rstrip("/") or path or "."


def _matches(base: str, part: str | Callable[[str], Any], only_folders: bool) -> Iterator[str]:
    if isinstance(part, str):
        path = base + part
        if os.path.isdir(path) if only_folders else os.path.lexists(path):
            yield path
        return
    for entry in _entries(base):
        if part(entry.name) and (not only_folders or _is_folder(entry, follow_symlinks=True)):
            yield base + entry.name


def _folders(base: str, recurse_symlinks: bool) -> Iterator[str]:
    """A directory and all directories below it."""
    todo = [base]
    while todo:
        folder = todo.pop()
        yield folder
        todo += [
            os.path.join(folder, entry.name)
            for entry in _entries(folder)
            if _is_folder(entry, follow_symlinks=recurse_symlinks)
        ]


def _entries(folder: str) -> list[os.DirEntry[str]]:
    """All at once: no directory is open while the caller goes on."""
    with suppress(OSError), os.scandir(folder or ".") as entries:
        return list(entries)
    return []


def _is_folder(entry: os.DirEntry[str], *, follow_symlinks: bool) -> bool:
    try:
        return entry.is_dir(follow_symlinks=follow_symlinks)
    except OSError:  # such as a loop of links
        return False
