"""Copying and removing files as generators: what threads do for `proactor.shutil`, a step at a time.

They know no event loop. One that is closed early closes its files and leaves what is done as it is.
"""

from __future__ import annotations

import os
import shutil
import stat
import sys
from collections.abc import Callable, Generator, Iterator
from typing import Any

Steps = Generator[None, None, Any]
# What is told of a failure: the function that failed, its path and the error. It may raise it.
Failed = Callable[[Callable[..., Any], str, OSError], object]

# About 5 ms of copying cached bytes.
STEP_BYTES = 16 << 20
# Where the kernel cannot copy by itself: more leaves the processor's cache between reading and writing.
READ_BYTES = 1 << 20


def same_file(src: Any, dst: Any) -> bool:
    try:
        return os.path.samefile(src, dst)
    except OSError:
        return False


def copyfile(src: Any, dst: Any, follow_symlinks: bool, opened: Callable[[], object]) -> Steps:
    """It opens two descriptors, and then calls `opened`."""
    sys.audit("shutil.copyfile", src, dst)
    if same_file(src, dst):
        raise shutil.SameFileError(f"{src!r} and {dst!r} are the same file")
    for path in (src, dst):
        if _is_fifo(path):
            raise shutil.SpecialFileError(f"`{path!s}` is a named pipe")
    if not follow_symlinks and os.path.islink(src):
        os.symlink(os.readlink(src), dst)
        return dst
    # Unbuffered, so that closing never writes.
    with open(src, "rb", buffering=0) as source:
        try:
            target = open(dst, "wb", buffering=0)  # noqa: SIM115
        except IsADirectoryError as error:
            # The kernel says so of "name/" too.
            if os.path.exists(dst):
                raise
            raise FileNotFoundError(f"Directory does not exist: {dst!s}") from error
        with target:
            opened()
            try:
                yield from _copy_bytes(source.fileno(), target.fileno())
            except OSError as error:
                error.filename, error.filename2 = src, dst
                raise
    return dst


def _is_fifo(path: Any) -> bool:
    try:
        return stat.S_ISFIFO(os.stat(path).st_mode)
    except OSError:
        return False


def _copy_bytes(source: int, target: int) -> Steps:
    """From both descriptors' positions to the source's end."""
    try:
        while os.copy_file_range(source, target, STEP_BYTES):
            yield
    except (OSError, AttributeError):
        # Two file systems, a device, an old kernel or C library. A disk's own error comes again.
        pass
    # After an end too: of files in /proc the kernel copies nothing, and gives something to who reads them.
    copied = 0
    while data := os.read(source, READ_BYTES):
        rest = memoryview(data)
        while rest:
            rest = rest[os.write(target, rest) :]
        copied += len(data)
        if copied >= STEP_BYTES:
            copied = 0
            yield


def copy(
    src: Any, dst: Any, follow_symlinks: bool, opened: Callable[[], object], about: Callable[..., None]
) -> Steps:
    """`copyfile`, into a directory too, and then `about`: `copymode` or `copystat`."""
    if os.path.isdir(dst):
        dst = os.path.join(dst, os.path.basename(src))
    yield from copyfile(src, dst, follow_symlinks, opened)
    about(src, dst, follow_symlinks=follow_symlinks)
    return dst


def rename(src: Any, dst: Any) -> tuple[Any, str]:
    """As much of a `move` as needs no copying: the new path, and what is left: a "file", a "tree" or ""."""
    sys.audit("shutil.move", src, dst)
    target: Any = dst
    if os.path.isdir(dst):
        if same_file(src, dst) and not os.path.islink(src):
            os.rename(src, dst)
            return dst, ""
        target = os.path.join(dst, _name(src))
        if os.path.exists(target):
            raise shutil.Error(f"Destination path '{target!s}' already exists")
    try:
        os.rename(src, target)
        return target, ""
    except OSError:
        if os.path.islink(src):
            os.symlink(os.readlink(src), target)
            os.unlink(src)
            return target, ""
    if not os.path.isdir(src):
        return target, "file"
    source: Any = os.path.abspath(src)
    if os.path.commonpath([source, os.path.abspath(dst)]) == source:
        raise shutil.Error(f"Cannot move a directory '{src!s}' into itself '{dst!s}'.")
    return target, "tree"


def _name(path: Any) -> str | bytes:
    """Also of a directory whose path ends with a slash."""
    plain: str | bytes = os.fspath(path)
    return os.path.basename(plain.rstrip("/") if isinstance(plain, str) else plain.rstrip(b"/"))


class _Folder:
    """A directory that is being emptied."""

    def __init__(self, name: Any, path: Any, parent: int | None) -> None:
        self.name, self.path, self.parent = name, path, parent
        self.fd = -1
        self.entries: Iterator[os.DirEntry[str]] = iter(())


def remove_tree(
    path: str | os.PathLike[Any], dir_fd: int | None, failed: Failed, opened: Callable[[], object]
) -> Steps:
    """Empties and removes a directory, through descriptors: no link is followed, not even a new one.

    `opened` is called when the top is open.
    """
    sys.audit("shutil.rmtree", path, dir_fd)
    # From the top to the one at hand, all open.
    folders: list[_Folder] = []
    try:
        _enter(folders, _Folder(path, path, dir_fd), failed)
        opened()
        while folders:
            folder = folders[-1]
            for entry in folder.entries:
                yield
                inner = os.path.join(folder.path, entry.name)
                if _is_folder(entry):
                    _enter(folders, _Folder(entry.name, inner, folder.fd), failed)
                    break
                _attempt(failed, os.unlink, inner, entry.name, folder.fd)
            else:
                folders.pop()
                os.close(folder.fd)
                _attempt(failed, os.rmdir, folder.path, folder.name, folder.parent)
    finally:
        for folder in folders:
            os.close(folder.fd)


def _enter(folders: list[_Folder], folder: _Folder, failed: Failed) -> None:
    """Opens a directory and lists it; one that cannot be opened is left as it is."""
    function: Callable[..., Any] = os.lstat
    link = None
    try:
        if stat.S_ISLNK(os.lstat(folder.name, dir_fd=folder.parent).st_mode):
            # Without a filename, which would take the message's place.
            link = OSError(f"Cannot call rmtree on a symbolic link: {folder.path!r}")
            raise link
        function = os.open
        flags = os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC
        folder.fd = os.open(folder.name, flags, dir_fd=folder.parent)
        folders.append(folder)
        function = os.scandir
        with os.scandir(folder.fd) as entries:
            folder.entries = iter(list(entries))
    except OSError as error:
        if error is link:
            failed(os.path.islink, folder.path, error)
            return
        if isinstance(error, FileNotFoundError) and folder.name != folder.path:
            return  # somebody else has removed it
        error.filename = os.fspath(folder.path)
        failed(function, folder.path, error)


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir(follow_symlinks=False)
    except OSError:
        return False


def _attempt(failed: Failed, function: Callable[..., Any], path: str, name: str, dir_fd: int | None) -> None:
    try:
        function(name, dir_fd=dir_fd)
    except FileNotFoundError as error:
        if name == path:
            error.filename = path
            failed(function, path, error)
    except OSError as error:
        error.filename = path
        failed(function, path, error)
