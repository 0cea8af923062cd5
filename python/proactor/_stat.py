"""`os.stat` and its kin for event loops.

What the kernel has in its cache is answered without suspending; the rest is the engine's.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from proactor import _native
from proactor._pool import run

if TYPE_CHECKING:
    from _typeshed import FileDescriptorOrPath, StrOrBytesPath


async def stat(
    path: FileDescriptorOrPath, *, dir_fd: int | None = None, follow_symlinks: bool = True
) -> os.stat_result:
    """`os.stat`.

    Does not suspend if the path is in the kernel's cache, or `path` is a descriptor, and the file system is a
    local one (ext4, XFS, Btrfs, F2FS, tmpfs, overlay), but gives the loop its turn after 2 ms of such calls.
    Otherwise the loop's engine asks; cancelled, its answer is dropped. Raises what `os.stat` does.
    """
    try:
        call = _native.stat(path, dir_fd=dir_fd, follow_symlinks=follow_symlinks)
    except (TypeError, ValueError, OverflowError):
        # What only `os.stat` takes, or refuses in its own words.
        return await run(os.stat, path, dir_fd=dir_fd, follow_symlinks=follow_symlinks)
    return await call


async def lstat(path: StrOrBytesPath, *, dir_fd: int | None = None) -> os.stat_result:
    """`os.lstat`: `stat` of a link itself."""
    if hasattr(path, "__index__"):
        return await run(os.lstat, path, dir_fd=dir_fd)  # which refuses it
    try:
        call = _native.stat(path, dir_fd=dir_fd, follow_symlinks=False)
    except (TypeError, ValueError, OverflowError):
        return await run(os.lstat, path, dir_fd=dir_fd)
    return await call


async def fstat(fd: int) -> os.stat_result:
    """`os.fstat`: `stat` of a descriptor."""
    try:
        call = _native.fstat(fd)
    except (TypeError, ValueError, OverflowError):
        return await run(os.fstat, fd)
    return await call
