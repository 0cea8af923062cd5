"""Trees of files, and what a call gives on one: for the standard library's functions and for ours."""

from __future__ import annotations

import inspect
import os
import socket
import stat
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any


def _file(path: Path) -> None:
    path.write_bytes(f"in {path.name!a}\r\n".encode())


def _folder(path: Path) -> None:
    (path / "deep" / "deeper").mkdir(parents=True)
    for name in ("inner", "deep/x.txt", "deep/deeper/y.txt"):
        _file(path / name)


def _socket(path: Path) -> None:
    # By a short way: a socket's path has at most 107 bytes.
    folder = os.open(path.parent, os.O_RDONLY)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(f"/proc/self/fd/{folder}/{path.name}")
    os.close(folder)


def _touch(path: Path) -> None:
    path.touch(0o640)


# What a tree has: of each kind one, and names that need care.
ENTRIES: dict[str, Callable[[Path], object]] = {
    "file": _file,
    "empty": _touch,
    "folder": _folder,
    "to_file": lambda path: path.symlink_to("file"),
    "to_folder": lambda path: path.symlink_to("folder"),
    "dangling": lambda path: path.symlink_to("nowhere"),
    "loop": lambda path: path.symlink_to("loop"),
    "naïve ☃": _touch,
    "sur\udcffrogate": _file,
    "new\nline": _touch,
    ".hidden": _touch,
    "Upper.TXT": _touch,
    "fifo": os.mkfifo,
    "socket": _socket,
}
ABSENT = ["missing", "missing/below", "file/below", "n" * 300, "nul\0byte"]
NAMES = [".", "folder/inner", "folder/deep", *ENTRIES, *ABSENT]


def make_tree(root: Path, *names: str) -> Path:
    """Some of the entries, or all."""
    root.mkdir(parents=True, exist_ok=True)
    for name in names or ENTRIES:
        ENTRIES[name](root / name)
    return root


def snapshot(root: Path) -> list[tuple[Any, ...]]:
    """All that a tree has: names, kinds, permissions, contents and links."""
    found: list[tuple[Any, ...]] = []
    for folder, folders, files in os.walk(root):
        for name in [*folders, *files]:
            path = os.path.join(folder, name)
            status = os.lstat(path)
            what: Any = None
            if stat.S_ISLNK(status.st_mode):
                what = os.readlink(path).replace(str(root), "ROOT")
            elif stat.S_ISREG(status.st_mode):
                what = Path(path).read_bytes()
            found.append((os.path.relpath(path, root), oct(status.st_mode), what))
    return sorted(found)


def plain(value: Any, root: Path) -> Any:
    """A result without its tree's place, its types and the order of what has none."""
    if isinstance(value, os.stat_result):
        return oct(value.st_mode), value.st_size if not stat.S_ISDIR(value.st_mode) else None, value.st_nlink
    if isinstance(value, (AsyncIterator, Iterator, list, set)):
        raise TypeError(f"not settled: {value!r}")
    if isinstance(value, tuple):
        return tuple(plain(part, root) for part in value)
    if isinstance(value, os.PathLike):
        value = os.fspath(value)
    if isinstance(value, bytes):
        return value.replace(os.fsencode(root), b"ROOT")
    return value.replace(str(root), "ROOT") if isinstance(value, str) else value


async def settled(call: Callable[[], Any]) -> Any:
    """A call's value: awaited, or the list of what it iterates over."""
    value = call()
    if inspect.isawaitable(value):
        value = await value
    if isinstance(value, AsyncIterator):
        return [item async for item in value]
    return list(value) if isinstance(value, Iterator) else value


async def outcome(call: Callable[[], Any], root: Path) -> Any:
    """What a call gives or raises, comparable between two trees."""
    try:
        value = await settled(call)
    except Exception as error:
        if not isinstance(error, OSError):
            return type(error)
        return type(error), error.errno, plain(error.filename, root), plain(error.filename2, root)
    if isinstance(value, list):
        return sorted((plain(tuple_of(item), root) for item in value), key=repr)
    return plain(value, root)


def tuple_of(item: Any) -> Any:
    """An item of a list; of `walk` with its names sorted."""
    if isinstance(item, tuple) and len(item) == 3 and isinstance(item[1], list):
        path, folders, files = item
        return path, tuple(sorted(folders)), tuple(sorted(files))
    return item
