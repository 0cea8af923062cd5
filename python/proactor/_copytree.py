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

from proactor._copying import watched
from proactor._native import Copying, is_selinux
from proactor._steps import in_steps, once, to_the_end
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
    made: list[Any] = []
    named = False
    try:
        await in_steps(once(_make_top, src, dst, made))
        if made:
            outcome = await watched(_copying(src, made[0], symlinks), None)
            is_whole = not outcome["failures"] and not outcome["specials"]
            named = is_whole and await in_steps(once(_name, made[0], dst))
    except asyncio.CancelledError:
        if made:
            await to_the_end(_name_or_remove, made[0], dst)
        raise
    except Exception:
        if made:
            await to_the_end(remove_tree, made[0], True)
        raise
    if made and not named:
        await to_the_end(remove_tree, made[0], True)
    return named


def _copying(src: Any, growing: Any, symlinks: bool) -> Copying:
    return Copying(
        [src],
        growing,
        False,
        False,
        recursive=True,
        preserve=["mode", "timestamps", "xattr", *(["context"] if is_selinux() else [])],
        dereference="command-line" if symlinks else "always",
        in_place=True,
        journal=False,
    )


def _make_top(src: Any, dst: Any, made: list[Any]) -> None:
    """Makes a directory beside the name and notes it, if that is free and the copier serves there.

    What is wrong with a name, the walker says.
    """
    os.scandir(src).close()
    plain = os.fspath(dst)
    kind: Any = os.fsdecode if isinstance(plain, str) else os.fsencode
    place, name = os.path.split(plain.rstrip(kind("/")))
    place = place or kind(".")
    if os.fsdecode(name) in ("", ".", "..") or not _is_free(dst) or _is_below(place, src):
        return
    sys.audit("shutil.copytree", src, dst)
    with suppress(OSError):
        os.makedirs(place, exist_ok=True)
        growing = tempfile.mkdtemp(prefix=kind(".copytree-"), dir=place)
        if DEFAULT_LIST in _attributes(growing):
            os.rmdir(growing)
        else:
            made.append(growing)


def _is_free(path: Any) -> bool:
    try:
        os.lstat(path)
    except FileNotFoundError:
        return True
    except (OSError, ValueError):
        pass
    return False


def _is_below(path: Any, top: Any) -> bool:
    """Whether a path is a directory or in it. In its own source a copy would be copied once more."""
    inner, outer = (os.path.realpath(os.fsdecode(one)) for one in (path, top))
    return os.path.commonpath([inner, outer]) == outer


def _name_or_remove(growing: Any, dst: Any) -> None:
    if not _name(growing, dst):
        remove_tree(growing, True)


def _name(growing: Any, dst: Any) -> bool:
    """Gives the copy its name, unless it is taken. (An empty directory is replaced by the kernel.)"""
    if not _is_free(dst):
        return False
    try:
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
