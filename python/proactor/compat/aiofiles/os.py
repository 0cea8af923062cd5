"""Functions of `os` that deal with files, as coroutines in threads. They take `loop` and `executor` too."""

from __future__ import annotations

import os
from collections.abc import Callable, Coroutine, Iterator
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

access: Callable[..., Coroutine[Any, Any, bool]] = wrap(os.access)
getcwd: Callable[..., Coroutine[Any, Any, str]] = wrap(os.getcwd)
link: Callable[..., Coroutine[Any, Any, None]] = wrap(os.link)
listdir: Callable[..., Coroutine[Any, Any, list[str] | list[bytes]]] = wrap(os.listdir)
makedirs: Callable[..., Coroutine[Any, Any, None]] = wrap(os.makedirs)
mkdir: Callable[..., Coroutine[Any, Any, None]] = wrap(os.mkdir)
readlink: Callable[..., Coroutine[Any, Any, Any]] = wrap(os.readlink)
remove: Callable[..., Coroutine[Any, Any, None]] = wrap(os.remove)
removedirs: Callable[..., Coroutine[Any, Any, None]] = wrap(os.removedirs)
rename: Callable[..., Coroutine[Any, Any, None]] = wrap(os.rename)
renames: Callable[..., Coroutine[Any, Any, None]] = wrap(os.renames)
replace: Callable[..., Coroutine[Any, Any, None]] = wrap(os.replace)
rmdir: Callable[..., Coroutine[Any, Any, None]] = wrap(os.rmdir)
sendfile: Callable[..., Coroutine[Any, Any, int]] = wrap(os.sendfile)
stat: Callable[..., Coroutine[Any, Any, os.stat_result]] = wrap(os.stat)
statvfs: Callable[..., Coroutine[Any, Any, os.statvfs_result]] = wrap(os.statvfs)
symlink: Callable[..., Coroutine[Any, Any, None]] = wrap(os.symlink)
unlink: Callable[..., Coroutine[Any, Any, None]] = wrap(os.unlink)


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
