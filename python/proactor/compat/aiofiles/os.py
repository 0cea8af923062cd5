"""Functions of `os` that deal with files, as coroutines in threads. They take `loop` and `executor` too."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, AnyStr, Generic

from proactor.compat.aiofiles import ospath as path
from proactor.compat.aiofiles.base import check_loop, run, wrap

if TYPE_CHECKING:
    from concurrent.futures import Executor

    from typing_extensions import Self

__all__ = [
    "access",
    "getcwd",
    "link",
    "listdir",
    "makedirs",
    "mkdir",
    "path",
    "readlink",
    "remove",
    "removedirs",
    "rename",
    "renames",
    "replace",
    "rmdir",
    "scandir",
    "sendfile",
    "stat",
    "statvfs",
    "symlink",
    "unlink",
    "wrap",
]

access = wrap(os.access)
getcwd = wrap(os.getcwd)
link = wrap(os.link)
listdir = wrap(os.listdir)
makedirs = wrap(os.makedirs)
mkdir = wrap(os.mkdir)
readlink = wrap(os.readlink)
remove = wrap(os.remove)
removedirs = wrap(os.removedirs)
rename = wrap(os.rename)
renames = wrap(os.renames)
replace = wrap(os.replace)
rmdir = wrap(os.rmdir)
sendfile = wrap(os.sendfile)
stat = wrap(os.stat)
statvfs = wrap(os.statvfs)
symlink = wrap(os.symlink)
unlink = wrap(os.unlink)


class Entries(Generic[AnyStr]):
    """A directory's entries, read already: iterating does not block. Used as what `os.scandir` returns."""

    def __init__(self, entries: list[os.DirEntry[AnyStr]]) -> None:
        self._left: Iterator[os.DirEntry[AnyStr]] = iter(entries)

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> os.DirEntry[AnyStr]:
        return next(self._left)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    def close(self) -> None:
        """Forgets what is left."""
        self._left = iter(())


def _read_directory(path: Any) -> Entries[Any]:
    with os.scandir(path) as entries:
        return Entries(list(entries))


async def scandir(path: Any = None, *, loop: Any = None, executor: Executor | None = None) -> Entries[Any]:
    """The directory's entries, as `os.DirEntry`. All are read when it returns."""
    check_loop(loop)
    return await run(executor, _read_directory, path)
