"""`copytree`: by the copier of `proactor.copy` where that does what the standard library does, otherwise by a
walker, which enters directories in the standard library's order while files are copied beside it.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import sys
import tempfile
from collections.abc import Awaitable, Callable, Iterable, Iterator
from contextlib import suppress
from enum import Enum
from typing import Any

from proactor import _pool
from proactor._copying import watched
from proactor._native import Copying
from proactor._steps import in_steps, once
from proactor._temporary import remove_tree

# As many as there are threads for them.
MOST_FILES = 16

Copy = Callable[[Any, Any], Awaitable[Any]]
Ignore = Callable[[Any, "list[str]"], Iterable[str]]
# Where an error belongs in the order of the standard library: an entry's index, its entries' indices ...
Place = tuple[int, ...]


# New entries in a directory with such an attribute get a list of their own, which a copy would take away.
DEFAULT_LIST = "system.posix_acl_default"


async def by_copier(src: Any, dst: Any, symlinks: bool) -> bool:
    """Copies a tree to a name that is free, as `copytree` does with `copy2`. Says whether it has.

    It grows beside its name. Where anything failed, or is no file, directory or link, or somebody took the
    name, nothing is left: what the standard library does about it, and in which words, the walker knows.
    Cancelled, it leaves what was copied.
    """
    growing = await in_steps(once(_make_top, src, dst))
    if growing is None:
        return False
    copying = Copying(
        [src],
        growing,
        False,
        False,
        recursive=True,
        preserve=["mode", "timestamps", "xattr", "context"],
        dereference="command-line" if symlinks else "always",
        in_place=True,
        journal=False,
    )
    try:
        outcome = await watched(copying, None)
    except BaseException:
        await _pool.finish(_name, growing, dst)
        raise
    if not outcome["failures"] and not outcome["specials"] and await in_steps(once(_name, growing, dst)):
        return True
    await _pool.finish(remove_tree, growing, True)
    return False


def _make_top(src: Any, dst: Any) -> Any:
    """Makes a directory beside the name, if that is free and the copier serves there."""
    os.scandir(src).close()
    plain = os.fspath(dst)
    kind: Any = os.fsdecode if isinstance(plain, str) else os.fsencode
    place, name = os.path.split(plain.rstrip(kind("/")))
    if os.fsdecode(name) in ("", ".", "..") or os.path.lexists(dst):
        return None
    place = place or kind(".")
    sys.audit("shutil.copytree", src, dst)
    os.makedirs(place, exist_ok=True)
    with suppress(OSError):
        growing = tempfile.mkdtemp(prefix=kind(".copytree-"), dir=place)
        if DEFAULT_LIST not in _attributes(growing):
            return growing
        os.rmdir(growing)
    return None


def _name(growing: Any, dst: Any) -> bool:
    """Gives the copy its name, unless it is taken. (An empty directory is replaced by the kernel.)"""
    try:
        if os.path.lexists(dst):
            return False
        os.rename(growing, dst)
    except OSError:
        return False
    return True


def _attributes(path: Any) -> list[str]:
    try:
        return os.listxattr(path)
    except OSError:
        return []


class Kind(Enum):
    FILE = "copied by the copy function"
    FOLDER = "entered"
    LINK = "made anew"


Entry = tuple[str, "Kind | OSError"]


class Folder:
    """A directory whose copy is not complete yet."""

    def __init__(self, src: Any, dst: Any, place: Place, parent: Folder | None) -> None:
        self.src, self.dst, self.place, self.parent = src, dst, place, parent
        self.entries: Iterator[tuple[int, Entry]] = iter(())
        self.end: Place = place
        # Entries in work, and the walker itself.
        self.open = 1

    def fill(self, entries: list[Entry]) -> None:
        self.entries = iter(enumerate(entries))
        self.end = (*self.place, len(entries))


class Tree:
    """One call of `copytree`."""

    def __init__(
        self, symlinks: bool, ignore: Ignore | None, copy: Copy, skip_dangling: bool, exist_ok: bool
    ) -> None:
        self._symlinks, self._ignore, self._copy = symlinks, ignore, copy
        self._skip_dangling, self._exist_ok = skip_dangling, exist_ok
        self._slots = asyncio.Semaphore(MOST_FILES)
        self._tasks: set[asyncio.Task[None]] = set()
        self._failure: BaseException | None = None
        self._errors: list[tuple[Place, list[Any]]] = []

    async def copy(self, src: Any, dst: Any) -> None:
        """Raises the OSError of the top directory, then `shutil.Error` with those of all others, in order."""
        top = Folder(src, dst, (), None)
        top.fill(await in_steps(once(self._enter, src, dst)))
        try:
            await self._walk(top)
            while self._tasks:
                await asyncio.wait(self._tasks)
            self._check()
        except BaseException:
            await self._stop()
            raise
        if self._errors:
            self._errors.sort(key=lambda error: error[0])
            raise shutil.Error([one for _, errors in self._errors for one in errors])

    async def _walk(self, top: Folder) -> None:
        folders = [top]
        while folders:
            folder = folders[-1]
            found = next(folder.entries, None)
            if found is None:
                folders.pop()
                await self._leave(folder)
                continue
            index, (name, kind) = found
            src, dst = os.path.join(folder.src, name), os.path.join(folder.dst, name)
            place = (*folder.place, index)
            if isinstance(kind, OSError):
                self._note(place, src, dst, kind)
            elif kind is Kind.FOLDER:
                inner = Folder(src, dst, place, folder)
                try:
                    inner.fill(await in_steps(once(self._enter, src, dst)))
                except OSError as error:
                    self._note(place, src, dst, error)
                else:
                    folder.open += 1
                    folders.append(inner)
            else:
                await self._slots.acquire()
                self._check()
                folder.open += 1
                task = asyncio.create_task(self._file(kind, src, dst, place, folder))
                self._tasks.add(task)
                task.add_done_callback(self._done)

    async def _file(self, kind: Kind, src: str, dst: str, place: Place, folder: Folder) -> None:
        try:
            if kind is Kind.LINK:
                await in_steps(once(_copy_link, src, dst))
            else:
                await self._copy(src, dst)
        except OSError as error:
            self._note(place, src, dst, error)
        await self._leave(folder)

    async def _leave(self, folder: Folder | None) -> None:
        """One thing less to do in a directory. After the last it gets its times and permissions."""
        while folder is not None:
            folder.open -= 1
            if folder.open:
                return
            try:
                await in_steps(once(shutil.copystat, folder.src, folder.dst))
            except OSError as error:
                self._note(folder.end, folder.src, folder.dst, error)
            folder = folder.parent

    def _note(self, place: Place, src: Any, dst: Any, error: OSError) -> None:
        # A copy function's own list, as copytree's.
        if isinstance(error, shutil.Error) and error.args and isinstance(error.args[0], list):
            self._errors.append((place, error.args[0]))
        else:
            self._errors.append((place, [(src, dst, str(error))]))

    def _done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        self._slots.release()
        # Asked for of each, or asyncio complains that nobody did.
        failure = asyncio.CancelledError() if task.cancelled() else task.exception()
        self._failure = self._failure or failure

    def _check(self) -> None:
        if self._failure is not None:
            raise self._failure

    async def _stop(self) -> None:
        """Cancels what is in work and waits for it, through all cancellations."""
        for task in self._tasks:
            task.cancel()
        while self._tasks:
            with suppress(asyncio.CancelledError):
                await asyncio.wait(self._tasks)

    # What threads do

    def _enter(self, src: Any, dst: Any) -> list[Entry]:
        """Lists a directory and makes its copy."""
        sys.audit("shutil.copytree", src, dst)
        with os.scandir(src) as found:
            entries = list(found)
        ignored = self._ignore(os.fspath(src), [entry.name for entry in entries]) if self._ignore else ()
        os.makedirs(dst, exist_ok=self._exist_ok)
        kept = [(entry.name, self._kind(entry)) for entry in entries if entry.name not in ignored]
        return [(name, kind) for name, kind in kept if kind is not None]

    def _kind(self, entry: os.DirEntry[str]) -> Kind | OSError | None:
        try:
            if entry.is_symlink():
                if self._symlinks:
                    return Kind.LINK
                if self._skip_dangling and not os.path.exists(entry.path):
                    return None
            return Kind.FOLDER if entry.is_dir() else Kind.FILE
        except OSError as error:
            return error


def _copy_link(src: str, dst: str) -> None:
    os.symlink(os.readlink(src), dst)
    shutil.copystat(src, dst, follow_symlinks=False)
