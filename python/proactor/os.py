"""The file-system functions of `os` as coroutines, with its names, arguments and errors.

`stat`, `lstat` and `fstat` do not suspend where the kernel has the answer. Most others are the standard
library's, called in a thread of the loop's own pool (`getcwd` and `getcwdb`, which never wait, in place).
Cancelled before a thread has begun, nothing is done; later the call runs to its end, unheard.

What asks no file system is the standard library's own: `fspath`, `fsencode`, `sep`, `F_OK`, and the other
constants that these functions take or give. `path` is `proactor.ospath`.
"""

from __future__ import annotations

import os as _os
from os import (
    F_OK,
    POSIX_FADV_DONTNEED,
    POSIX_FADV_NOREUSE,
    POSIX_FADV_NORMAL,
    POSIX_FADV_RANDOM,
    POSIX_FADV_SEQUENTIAL,
    POSIX_FADV_WILLNEED,
    R_OK,
    SEEK_CUR,
    SEEK_DATA,
    SEEK_END,
    SEEK_HOLE,
    SEEK_SET,
    ST_APPEND,
    ST_MANDLOCK,
    ST_NOATIME,
    ST_NODEV,
    ST_NODIRATIME,
    ST_NOEXEC,
    ST_NOSUID,
    ST_RDONLY,
    ST_RELATIME,
    ST_SYNCHRONOUS,
    ST_WRITE,
    W_OK,
    X_OK,
    XATTR_CREATE,
    XATTR_REPLACE,
    XATTR_SIZE_MAX,
    PathLike,
    altsep,
    curdir,
    defpath,
    devnull,
    extsep,
    fsdecode,
    fsencode,
    fspath,
    linesep,
    major,
    makedev,
    minor,
    name,
    pardir,
    pathsep,
    sep,
    stat_result,
    statvfs_result,
)
from typing import TYPE_CHECKING, Any, AnyStr, overload

from proactor import ospath as path
from proactor._native import DirEntry, ScandirIterator, fstat, lstat, stat
from proactor._os_calls import (
    access,
    chmod,
    chown,
    copy_file_range,
    fchmod,
    fchown,
    fdatasync,
    fpathconf,
    fstatvfs,
    fsync,
    ftruncate,
    getcwd,
    getcwdb,
    getxattr,
    lchown,
    link,
    listxattr,
    makedirs,
    mkdir,
    mkfifo,
    mknod,
    pathconf,
    posix_fadvise,
    posix_fallocate,
    readlink,
    remove,
    removedirs,
    removexattr,
    rename,
    renames,
    replace,
    rmdir,
    sendfile,
    setxattr,
    statvfs,
    symlink,
    sync,
    truncate,
    unlink,
    utime,
)
from proactor._pool import run
from proactor._walk import fwalk, walk

if TYPE_CHECKING:
    from _typeshed import BytesPath, GenericPath, StrPath

__all__ = [
    "F_OK",
    "POSIX_FADV_DONTNEED",
    "POSIX_FADV_NOREUSE",
    "POSIX_FADV_NORMAL",
    "POSIX_FADV_RANDOM",
    "POSIX_FADV_SEQUENTIAL",
    "POSIX_FADV_WILLNEED",
    "R_OK",
    "SEEK_CUR",
    "SEEK_DATA",
    "SEEK_END",
    "SEEK_HOLE",
    "SEEK_SET",
    "ST_APPEND",
    "ST_MANDLOCK",
    "ST_NOATIME",
    "ST_NODEV",
    "ST_NODIRATIME",
    "ST_NOEXEC",
    "ST_NOSUID",
    "ST_RDONLY",
    "ST_RELATIME",
    "ST_SYNCHRONOUS",
    "ST_WRITE",
    "W_OK",
    "XATTR_CREATE",
    "XATTR_REPLACE",
    "XATTR_SIZE_MAX",
    "X_OK",
    "DirEntry",
    "PathLike",
    "ScandirIterator",
    "access",
    "altsep",
    "chmod",
    "chown",
    "copy_file_range",
    "curdir",
    "defpath",
    "devnull",
    "extsep",
    "fchmod",
    "fchown",
    "fdatasync",
    "fpathconf",
    "fsdecode",
    "fsencode",
    "fspath",
    "fstat",
    "fstatvfs",
    "fsync",
    "ftruncate",
    "fwalk",
    "getcwd",
    "getcwdb",
    "getxattr",
    "lchown",
    "linesep",
    "link",
    "listdir",
    "listxattr",
    "lstat",
    "major",
    "makedev",
    "makedirs",
    "minor",
    "mkdir",
    "mkfifo",
    "mknod",
    "name",
    "pardir",
    "path",
    "pathconf",
    "pathsep",
    "posix_fadvise",
    "posix_fallocate",
    "readlink",
    "remove",
    "removedirs",
    "removexattr",
    "rename",
    "renames",
    "replace",
    "rmdir",
    "scandir",
    "sendfile",
    "sep",
    "setxattr",
    "stat",
    "stat_result",
    "statvfs",
    "statvfs_result",
    "symlink",
    "sync",
    "truncate",
    "unlink",
    "utime",
    "walk",
]


@overload
async def listdir(path: StrPath | int | None = None) -> list[str]: ...
@overload
async def listdir(path: BytesPath) -> list[bytes]: ...
async def listdir(path: Any = None) -> list[Any]:
    """`os.listdir`: all the names in a directory, whatever its size, read as `scandir` does.

    `scandir` gives the first ones sooner. Raises OSError as `os.listdir` does.
    """
    try:
        entries: ScandirIterator[Any] = ScandirIterator(path)
    except (TypeError, ValueError):
        # What it refuses, it refuses in its own words.
        return await run(_os.listdir, path)
    found: list[Any] = []
    async with entries:
        while names := await entries._names():
            found += names
    return found


@overload
def scandir(path: int | None = None) -> ScandirIterator[str]: ...
@overload
def scandir(path: GenericPath[AnyStr]) -> ScandirIterator[AnyStr]: ...
def scandir(path: Any = None) -> ScandirIterator[Any]:
    """`os.scandir`: `async with scandir(path) as entries: async for entry in entries`.

    `path` is the working directory by default; a descriptor stays open. Also `entries = await scandir(path)`,
    or `async for entry in scandir(path)`, which, as in `os`, should not be left early. The directory is
    opened then, and an OSError comes then; TypeError and ValueError of a bad path come at once. The entries
    are `DirEntry`; iterating suspends once for 32 KiB, later 128 KiB of entries (of short names 1,000 and
    4,000), which a worker reads, and gives the loop its turn after 1 ms. An iterator that is forgotten
    half-way warns (ResourceWarning) and is closed.
    """
    return ScandirIterator(path)
