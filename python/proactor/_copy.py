"""Copying and removing files as generators: what threads do for `proactor.shutil`, a step at a time.

They know no event loop. One that is closed early closes its files and leaves what is done as it is.
"""

from __future__ import annotations

import os
import shutil
import stat
import sys
from collections.abc import Callable, Generator, Iterator
from errno import ENOENT
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

    def __init__(self, name: Any, path: Any, parent: _Folder | None, dir_fd: int | None = None) -> None:
        self.name, self.path, self.parent = name, path, parent
        # What the top's name is relative to.
        self.dir_fd = dir_fd
        self.fd = -1
        # Device and inode, while it is closed for lack of descriptors.
        self.identity: tuple[int, int] | None = None
        # Names, and whether each is a directory's.
        self.entries: Iterator[tuple[str, bool]] = iter(())

    def above(self) -> int | None:
        """The descriptor that the name is relative to."""
        return self.dir_fd if self.parent is None else self.parent.fd

    def close(self) -> None:
        if self.fd >= 0:
            fd, self.fd = self.fd, -1
            os.close(fd)

    def spare(self) -> None:
        """Closes it for a while."""
        if self.fd >= 0:
            self.identity = _identity(self.fd)
            self.close()

    def reopen(self, below: int) -> None:
        """Opens it again, from a directory in it, or by name if that was moved. It has to be the same one."""
        if below >= 0 and self._is(os.open("..", _OPEN_FLAGS, dir_fd=below)):
            return
        chain = [self]
        while chain[-1].parent is not None:
            chain.append(chain[-1].parent)
        top = chain.pop()
        fd = os.open(top.name, _OPEN_FLAGS, dir_fd=top.dir_fd)
        while chain:
            above = fd
            try:
                fd = os.open(chain.pop().name, _OPEN_FLAGS, dir_fd=above)
            finally:
                os.close(above)
        if not self._is(fd):
            raise FileNotFoundError(ENOENT, os.strerror(ENOENT), self.path)

    def _is(self, fd: int) -> bool:
        """Keeps the descriptor if it is this directory's."""
        if _identity(fd) == self.identity:
            self.fd = fd
            return True
        os.close(fd)
        return False


def _identity(fd: int) -> tuple[int, int]:
    status = os.fstat(fd)
    return status.st_dev, status.st_ino


_OPEN_FLAGS = os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC
# How many directories one call keeps open, and the descriptors that it takes: to list one takes another.
MOST_OPEN = 2
TREE_DESCRIPTORS = MOST_OPEN + 1


def remove_tree(path: str | os.PathLike[Any], dir_fd: int | None, failed: Failed) -> Steps:
    """Empties and removes a directory, through descriptors: no link is followed, not even a new one.

    Of the directories from the top to the one at hand the two lowest are open, so that many calls need few
    descriptors; a higher one is opened again as `..` of the one below it, and has to be the same directory.
    """
    sys.audit("shutil.rmtree", path, dir_fd)
    # From the top to the one at hand.
    folders: list[_Folder] = []
    try:
        _enter(folders, _Folder(path, path, None, dir_fd), failed)
        while folders:
            folder = folders[-1]
            for name, is_folder in folder.entries:
                yield
                inner = os.path.join(folder.path, name)
                if is_folder:
                    _enter(folders, _Folder(name, inner, folder), failed)
                    break
                _attempt(failed, os.unlink, inner, name, folder.fd)
            else:
                _leave(folders, failed)
    finally:
        for folder in folders:
            folder.close()


def _leave(folders: list[_Folder], failed: Failed) -> None:
    """Removes the lowest directory. Those above that cannot be opened again are left as they are."""
    folder = lowest = folders[-1]
    while folder.parent is not None and folder.parent.fd < 0:
        above = folder.parent
        try:
            above.reopen(folder.fd)
        except OSError as error:
            folders.pop().close()
            error.filename = os.fspath(above.path)
            failed(os.open, above.path, error)
            folder = above
    folders.pop().close()
    if folder is lowest:
        _attempt(failed, os.rmdir, folder.path, folder.name, folder.above())


def _enter(folders: list[_Folder], folder: _Folder, failed: Failed) -> None:
    """Opens a directory and lists it; one that cannot be opened is left as it is."""
    function: Callable[..., Any] = os.lstat
    link = None
    try:
        if stat.S_ISLNK(os.lstat(folder.name, dir_fd=folder.above()).st_mode):
            # Without a filename, which would take the message's place.
            link = OSError(f"Cannot call rmtree on a symbolic link: {folder.path!r}")
            raise link
        function = os.open
        folder.fd = os.open(folder.name, _OPEN_FLAGS, dir_fd=folder.above())
        folders.append(folder)
        if len(folders) > MOST_OPEN:
            folders[-1 - MOST_OPEN].spare()
        function = os.scandir
        with os.scandir(folder.fd) as entries:
            # An entry asks for its kind by the descriptor that was listed, where the file system keeps none.
            folder.entries = iter([(entry.name, _is_folder(entry)) for entry in entries])
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
