"""`os.walk` and `os.fwalk` for event loops: one directory at a time, each in one thread call."""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator, Callable
from errno import ELOOP, ENOTDIR
from os.path import islink, join
from stat import S_ISDIR, S_ISLNK
from typing import TYPE_CHECKING, Any, AnyStr, overload

from proactor._pool import run

if TYPE_CHECKING:
    from _typeshed import BytesPath, GenericPath, StrPath

OnError = Callable[[OSError], object]

# The names of a directory's directories, and of the rest.
Contents = tuple[list[Any], list[Any]]


def _contents(path: Any, follow: bool) -> Contents | None:
    """None of a link that is not to be followed."""
    if not follow and islink(path):
        return None
    folders: list[Any] = []
    others: list[Any] = []
    with os.scandir(path) as entries:
        for entry in entries:
            try:
                is_folder = entry.is_dir()
            except OSError:
                is_folder = False
            (folders if is_folder else others).append(entry.name)
    return folders, others


async def walk(
    top: GenericPath[AnyStr], topdown: bool = True, onerror: OnError | None = None, followlinks: bool = False
) -> AsyncGenerator[tuple[AnyStr, list[AnyStr], list[AnyStr]], None]:
    """`os.walk`: `async for path, dirnames, filenames in walk(top)`.

    - `topdown`: a directory before those in it, which are the ones that are left in `dirnames` by then;
      False gives it after them.
    - `onerror`: called in the loop's thread with the OSError of a directory that cannot be read, which is
      left out; what it raises ends the walk. By default such errors are ignored.
    - `followlinks`: walks into links to directories too, endlessly where they make a circle.

    A directory is read, whatever its size, in one call in a thread. No descriptor is open while the caller
    has its turn. Cancelled, the walk is over, as any asynchronous generator is.
    """
    todo: list[tuple[Any, Contents | None]] = [(os.fspath(top), None)]
    follow = True  # the top
    while todo:
        path, seen = todo.pop()
        if seen is not None:
            yield path, seen[0], seen[1]
            continue
        try:
            found = await run(_contents, path, follow)
        except OSError as error:
            if onerror is not None:
                onerror(error)
            continue
        finally:
            follow = followlinks
        if found is None:
            continue
        folders, others = found
        if topdown:
            yield path, folders, others
        else:
            todo.append((path, found))
        todo.extend((join(path, name), None) for name in reversed(folders))


class _Directory:
    """An open directory with its contents, closed with the object at the latest: cancelled calls drop it."""

    def __init__(self, fd: int) -> None:
        self.fd = fd
        self.contents: Contents = [], []

    def read(self, in_bytes: bool) -> None:
        folders, others = self.contents
        with os.scandir(self.fd) as entries:
            for entry in entries:
                try:
                    to = folders if entry.is_dir() else others
                except OSError:
                    if not _is_link(entry):
                        continue
                    to = others
                to.append(os.fsencode(entry.name) if in_bytes else entry.name)

    def close(self) -> None:
        if self.fd >= 0:
            fd, self.fd = self.fd, -1
            os.close(fd)

    __del__ = close


def _is_link(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_symlink()
    except OSError:
        return False


def _enter(parent: _Directory | int | None, name: Any, follow: bool) -> _Directory | None:
    """Opens and reads a directory; None of a link that is not to be followed, or of a file in its place."""
    dir_fd = parent.fd if isinstance(parent, _Directory) else parent
    flags = os.O_RDONLY | os.O_DIRECTORY
    if not follow:
        mode = os.stat(name, dir_fd=dir_fd, follow_symlinks=False).st_mode
        if S_ISLNK(mode) and not isinstance(parent, _Directory):
            # Of the top it is an error to lead nowhere.
            os.stat(name, dir_fd=dir_fd)
        if not S_ISDIR(mode):
            return None
        flags |= os.O_NOFOLLOW
    try:
        directory = _Directory(os.open(name, flags, dir_fd=dir_fd))
    except OSError as error:
        # Something else has taken the directory's place.
        if not follow and error.errno in (ELOOP, ENOTDIR):
            return None
        raise
    try:
        directory.read(isinstance(name, bytes))
    except BaseException:
        directory.close()
        raise
    return directory


@overload
def fwalk(
    top: StrPath = ".",
    topdown: bool = True,
    onerror: OnError | None = None,
    *,
    follow_symlinks: bool = False,
    dir_fd: int | None = None,
) -> AsyncGenerator[tuple[str, list[str], list[str], int], None]: ...
@overload
def fwalk(
    top: BytesPath,
    topdown: bool = True,
    onerror: OnError | None = None,
    *,
    follow_symlinks: bool = False,
    dir_fd: int | None = None,
) -> AsyncGenerator[tuple[bytes, list[bytes], list[bytes], int], None]: ...
async def fwalk(
    top: Any = ".",
    topdown: bool = True,
    onerror: OnError | None = None,
    *,
    follow_symlinks: bool = False,
    dir_fd: int | None = None,
) -> AsyncGenerator[tuple[Any, list[Any], list[Any], int], None]:
    """`os.fwalk`: `async for path, dirnames, filenames, fd in fwalk(top)`.

    As `walk`, with a descriptor of each directory, good until the next step. OSError of the top is raised.
    `follow_symlinks` is what `followlinks` is to `walk`, for the top too; `top` is relative to `dir_fd`.

    The descriptors of a directory and of those above it, in which each is opened, are open while the caller
    has its turn: one for each level, as with `os.fwalk`. Leaving the
    loop early closes them with the generator: at once with `contextlib.aclosing`.
    """
    top = os.fspath(top)
    # The directories from the top to the one that is walked through; each entry of `todo` knows its depth.
    chain: list[_Directory] = []
    todo: list[tuple[int, Any, Any, bool]] = [(0, top, top, False)]
    try:
        while todo:
            depth, path, name, is_after = todo.pop()
            if is_after:
                _close_below(chain, depth + 1)
                yield path, *chain[depth].contents, chain[depth].fd
                continue
            _close_below(chain, depth)
            try:
                found = await run(_enter, chain[-1] if chain else dir_fd, name, follow_symlinks)
            except OSError as error:
                if not depth:
                    raise
                if onerror is not None:
                    onerror(error)
                continue
            except BaseException:
                # A thread may be at work in the directory, which is closed when that has let go of it.
                del chain[-1:]
                raise
            if found is None:
                continue
            chain.append(found)
            folders, others = found.contents
            if topdown:
                yield path, folders, others, found.fd
            else:
                todo.append((depth, path, name, True))
            todo.extend((depth + 1, join(path, name), name, False) for name in reversed(folders))
    finally:
        _close_below(chain, 0)


def _close_below(chain: list[_Directory], depth: int) -> None:
    while len(chain) > depth:
        chain.pop().close()
