"""The standard library's `shutil` for event loops: the same names, arguments, results and errors, awaited.

`copyfile`, `copy`, `copy2`, `copytree`, `rmtree` and `move` work in short steps. A cancelled call finishes
its current step, so that nothing runs after CancelledError, and leaves what is done as it is. The others are
one call in a thread, which runs to its end if it has begun.
"""

from __future__ import annotations

import inspect
import os
import shutil as _shutil
from collections.abc import Awaitable, Callable, Iterable
from errno import EMFILE, ENFILE
from functools import partial
from shutil import (
    Error,
    ExecError,
    ReadError,
    RegistryError,
    SameFileError,
    SpecialFileError,
    get_archive_formats,
    get_terminal_size,
    get_unpack_formats,
    ignore_patterns,
    register_archive_format,
    register_unpack_format,
    unregister_archive_format,
    unregister_unpack_format,
)
from typing import TYPE_CHECKING, Any, TypeVar

from proactor import _copy
from proactor._copytree import Tree, by_copier
from proactor._native import BinaryFile, Reservation
from proactor._pool import MOST_THREADS, run
from proactor._shutil_calls import (
    chown,
    copymode,
    copystat,
    disk_usage,
    make_archive,
    unpack_archive,
    which,
)
from proactor._steps import in_steps, once
from proactor._text import TextFile
from proactor._turns import Turns

if TYPE_CHECKING:
    from proactor._files import StrOrBytesPath

__all__ = [
    "Error",
    "ExecError",
    "ReadError",
    "RegistryError",
    "SameFileError",
    "SpecialFileError",
    "chown",
    "copy",
    "copy2",
    "copyfile",
    "copyfileobj",
    "copymode",
    "copystat",
    "copytree",
    "disk_usage",
    "get_archive_formats",
    "get_terminal_size",
    "get_unpack_formats",
    "ignore_patterns",
    "make_archive",
    "move",
    "register_archive_format",
    "register_unpack_format",
    "rmtree",
    "unpack_archive",
    "unregister_archive_format",
    "unregister_unpack_format",
    "which",
]

D = TypeVar("D", bound="StrOrBytesPath")

# A hop to a thread, where one is needed, costs as much as copying a tenth of it.
COPY_BYTES = 256 << 10

# More removals at once than there are threads for would only keep directories open.
_removals = Turns(MOST_THREADS)


async def copyfile(src: StrOrBytesPath, dst: D, *, follow_symlinks: bool = True) -> D:
    """Copies a file's bytes and returns `dst`; without `follow_symlinks` a link is copied as one.

    Raises SameFileError, SpecialFileError for a FIFO, and OSError. The kernel copies, 16 MiB at a time.
    Cancelled, it leaves the part that was copied.
    """
    copied: D = await _with_two_files(src, partial(_copy.copyfile, src, dst, follow_symlinks))
    return copied


async def copy(src: StrOrBytesPath, dst: StrOrBytesPath, *, follow_symlinks: bool = True) -> Any:
    """`copyfile`, into `dst` if that is a directory, with the permissions; returns the file's path."""
    return await _with_two_files(
        src, lambda opened: _copy.copy(src, dst, follow_symlinks, opened, _shutil.copymode)
    )


async def copy2(src: StrOrBytesPath, dst: StrOrBytesPath, *, follow_symlinks: bool = True) -> Any:
    """`copy` with the times and extended attributes too, as `copystat` copies them."""
    return await _with_two_files(
        src, lambda opened: _copy.copy(src, dst, follow_symlinks, opened, _shutil.copystat)
    )


async def _with_two_files(src: StrOrBytesPath, work: Callable[[Callable[[], object]], _copy.Steps]) -> Any:
    """Steps that keep two files open, once there are descriptors for these."""
    files = Reservation(2)
    found_none = False
    try:
        while True:
            if found_none or not files.take():
                await files.wait(src)
            try:
                return await in_steps(work(files.opened))
            except OSError as error:
                # Nothing has been copied: it was an open that found no descriptor.
                if error.errno not in (EMFILE, ENFILE):
                    raise
                found_none = True
    finally:
        files.release()


# The standard library's functions would go on for as long as they like.
_OURS: dict[Any, Callable[..., Awaitable[Any]]] = {
    _shutil.copyfile: copyfile,
    _shutil.copy: copy,
    _shutil.copy2: copy2,
}


def _awaited(function: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Awaitable[Any]]:
    """A copy function of the caller's, as a coroutine function; a plain one is called in a thread."""
    function = _OURS.get(function, function)
    if inspect.iscoroutinefunction(function):
        return function

    async def call(src: Any, dst: Any) -> Any:
        result = await in_steps(once(function, src, dst))
        return await result if inspect.isawaitable(result) else result

    return call


async def copytree(
    src: StrOrBytesPath,
    dst: D,
    symlinks: bool = False,
    ignore: Callable[[Any, list[str]], Iterable[str]] | None = None,
    copy_function: Callable[[Any, Any], Any] = copy2,
    ignore_dangling_symlinks: bool = False,
    dirs_exist_ok: bool = False,
) -> D:
    """Copies a tree, and returns `dst`.

    A new tree is copied by threads, as `proactor.copy` does it, if there is no `ignore`, `copy_function` is
    `copy2`, nothing fails and there are only files, directories and links. All else is copied up to 16 files
    at a time; after a failure, from the beginning.

    - `symlinks`: copy links as links, and not what they lead to.
    - `ignore`: called in a thread with a directory and the names in it; returns those to leave out.
    - `copy_function`: a coroutine function, or a plain one, which is called in threads: several at once.
    - `ignore_dangling_symlinks`: leave out links that lead nowhere, where links are followed.
    - `dirs_exist_ok`: directories of the copy may be there already; otherwise FileExistsError.

    Raises the top directory's OSError at once. All other OSErrors are gathered, the rest is copied, and
    then Error has them as a list of (src, dst, message), in the order of the tree. Any other exception ends
    the call.

    Cancelled, it leaves what was copied: files in hand in part, and directories without their times and
    permissions.
    """
    is_plain = ignore is None and copy_function in (copy2, _shutil.copy2)
    if is_plain and await by_copier(src, dst, symlinks):
        return dst
    await Tree(symlinks, ignore, _awaited(copy_function), ignore_dangling_symlinks, dirs_exist_ok).copy(
        src, dst
    )
    return dst


async def rmtree(
    path: StrOrBytesPath,
    ignore_errors: bool = False,
    onerror: Callable[[Callable[..., Any], str, Any], object] | None = None,
    *,
    onexc: Callable[[Callable[..., Any], str, BaseException], object] | None = None,
    dir_fd: int | None = None,
) -> None:
    """Removes a tree.

    - `ignore_errors`: go on after any OSError.
    - `onexc`: called in a thread with the function that failed, the path and the exception; if it returns,
      the rest is removed.
    - `onerror`: the same with `sys.exc_info()` in place of the exception; not called if there is an `onexc`.
    - `dir_fd`: the directory in which a relative `path` is.

    Otherwise the first OSError is raised. A link in place of the tree is an OSError, and links in it are
    not followed, even if they appear during the call. A cancelled call leaves what it has not reached.
    """

    def failed(function: Callable[..., Any], path: str, error: OSError) -> None:
        if ignore_errors:
            return
        if onexc is not None:
            onexc(function, path, error)
        elif onerror is not None:
            onerror(function, path, (type(error), error, error.__traceback__))
        else:
            raise error

    top = os.fsdecode(path) if isinstance(path, bytes) else path
    async with _removals.taken():
        # It never says that they are open: how many are, changes all the time.
        folders = Reservation(_copy.TREE_DESCRIPTORS)
        try:
            if not folders.take():
                await folders.wait(path)
            await in_steps(_copy.remove_tree(top, dir_fd, failed))
        finally:
            folders.release()


rmtree.avoids_symlink_attacks = True  # type: ignore[attr-defined]


async def move(
    src: StrOrBytesPath, dst: StrOrBytesPath, copy_function: Callable[[Any, Any], Any] = copy2
) -> Any:
    """Renames a file or a tree, into `dst` if that is a directory; returns its new path.

    Between file systems it is copied, with `copy_function` as in `copytree`, and then removed. A call that is
    cancelled during the copy leaves the source whole. Raises Error if the name is taken in `dst` or
    `dst` is in `src`.
    """
    target, left = await in_steps(once(_copy.rename, src, dst))
    if left == "file":
        await _awaited(copy_function)(src, target)
        await in_steps(once(os.unlink, src))
    elif left == "tree":
        await copytree(src, target, symlinks=True, copy_function=copy_function)
        await rmtree(src)
    return target


async def copyfileobj(fsrc: Any, fdst: Any, length: int = 0) -> None:
    """Copies what is left of one file to another, each asynchronous or not, `length` at a time (default 256
    KiB).

    A negative `length` reads all at once. Methods of files that are not asynchronous are called in a
    thread. Cancelled, what was written stays; a call that a thread is in goes on to its end.
    """
    read, write = _method(fsrc, "read"), _method(fdst, "write")
    while data := await read(length or COPY_BYTES):
        await write(data)


def _method(file: Any, name: str) -> Callable[[Any], Awaitable[Any]]:
    method = getattr(file, name)
    if isinstance(file, (BinaryFile, TextFile)) or inspect.iscoroutinefunction(method):
        return method  # type: ignore[no-any-return]

    async def call(argument: Any) -> Any:
        result = await run(method, argument)
        # Others' files may have coroutines that do not look like it.
        return await result if inspect.isawaitable(result) else result

    return call
