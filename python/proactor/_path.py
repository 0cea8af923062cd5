"""`Path`: `pathlib.Path`'s names and rules, for event loops.

What asks the system is awaited; what handles names alone is `PurePosixPath`'s own.
"""

from __future__ import annotations

import errno
import grp
import io
import os
import pathlib
import pwd
import stat
import sys
from collections.abc import AsyncGenerator, Callable, Coroutine, Generator
from contextlib import aclosing
from typing import TYPE_CHECKING, Any, overload

from proactor import _files, _native
from proactor._glob import select
from proactor._native import ScandirIterator, path_is
from proactor._open import open as open_file
from proactor._pool import run
from proactor._purepath import PurePosixPath
from proactor._steps import in_slices

if TYPE_CHECKING:
    from _typeshed import OpenBinaryMode, OpenTextMode, ReadableBuffer, StrPath
    from typing_extensions import Self

    from proactor._native import Opening
    from proactor._open import TextOpening

__all__ = ["Path"]

# The Pythons whose pathlib has learned these arguments of `glob`.
_SINCE = {"case_sensitive": (3, 12), "recurse_symlinks": (3, 13)}
# What `exists` and its kin take for an answer and not for a failure, as pathlib does.
_ABSENT = {errno.ENOENT, errno.ENOTDIR, errno.EBADF, errno.ELOOP}


class Path(PurePosixPath):
    """A path whose methods that ask the system are coroutines: the surface of 3.13's `pathlib.Path`.

    It is a `PurePosixPath`: equal to others of the same name, hashed, compared, joined and pickled as they
    are. A subclass's methods give paths of the subclass.

    Errors are pathlib's: OSError with errno and filename, ValueError for a NUL byte. A cancelled call
    leaves at once; what a thread has begun by then is done, and what none has begun is not. See
    `docs/path.md` for each.
    """

    __slots__ = ()
    __module__ = "proactor"

    # What is there

    async def stat(self, *, follow_symlinks: bool = True) -> os.stat_result:
        """As `os.stat`. This and what asks for a kind is answered at once where `proactor.os.stat` is."""
        return await _native.stat(self, follow_symlinks=follow_symlinks)

    async def lstat(self) -> os.stat_result:
        """As `stat`, of a link itself."""
        return await self.stat(follow_symlinks=False)

    def _is(self, kind: int, follow_symlinks: bool = True) -> Coroutine[Any, Any, bool]:
        """Whether it is there and of a kind, S_IFREG and so on, or with 0 of any."""
        if type(self).stat is Path.stat:
            return path_is(self, kind, follow_symlinks)
        return self._is_by_stat(kind, follow_symlinks)

    async def _is_by_stat(self, kind: int, follow_symlinks: bool) -> bool:
        """`_is` for a class with a `stat` of its own."""
        try:
            mode = (await self.stat(follow_symlinks=follow_symlinks)).st_mode
        except OSError as error:
            if error.errno not in _ABSENT:
                raise
        except ValueError:
            pass
        else:
            return kind in (0, stat.S_IFMT(mode))
        return False

    async def exists(self, *, follow_symlinks: bool = True) -> bool:
        """Whether there is anything; without `follow_symlinks`, a dangling link counts."""
        return await self._is(0, follow_symlinks)

    async def is_dir(self, *, follow_symlinks: bool = True) -> bool:
        """Whether it is a directory, or a link to one."""
        return await self._is(stat.S_IFDIR, follow_symlinks)

    async def is_file(self, *, follow_symlinks: bool = True) -> bool:
        """Whether it is a regular file, or a link to one."""
        return await self._is(stat.S_IFREG, follow_symlinks)

    async def is_symlink(self) -> bool:
        """Whether it is a symbolic link, dangling or not."""
        return await self._is(stat.S_IFLNK, False)

    async def is_socket(self) -> bool:
        """Whether it is a socket, or a link to one."""
        return await self._is(stat.S_IFSOCK)

    async def is_fifo(self) -> bool:
        """Whether it is a FIFO, or a link to one."""
        return await self._is(stat.S_IFIFO)

    async def is_block_device(self) -> bool:
        """Whether it is a block device, or a link to one."""
        return await self._is(stat.S_IFBLK)

    async def is_char_device(self) -> bool:
        """Whether it is a character device, or a link to one."""
        return await self._is(stat.S_IFCHR)

    async def is_mount(self) -> bool:
        """Whether something is mounted there."""
        return await run(pathlib.Path(self).is_mount)

    async def is_junction(self) -> bool:
        """False: only Windows has junctions."""
        return False

    async def samefile(self, other_path: StrPath) -> bool:
        """Whether both lead to one file. Raises OSError if either leads nowhere."""
        return await run(os.path.samefile, self, self.with_segments(other_path))

    async def owner(self, *, follow_symlinks: bool = True) -> str:
        """The login name of the file's owner; KeyError if there is none."""
        return await run(_owner, self, follow_symlinks)

    async def group(self, *, follow_symlinks: bool = True) -> str:
        """The name of the file's group; KeyError if there is none."""
        return await run(_group, self, follow_symlinks)

    # Where it is

    @classmethod
    async def cwd(cls) -> Self:
        """The working directory, absolute."""
        return cls(os.getcwd())

    @classmethod
    async def home(cls) -> Self:
        """The user's home directory, as `os.path.expanduser("~")` gives it."""
        return await cls("~").expanduser()

    async def expanduser(self) -> Self:
        """With a leading `~` or `~user` replaced; RuntimeError if there is no such home directory."""
        if not self.parts or not self.parts[0].startswith("~"):
            return self
        # The database of users may be behind a network.
        return self.with_segments(await run(pathlib.Path(self).expanduser))

    async def absolute(self) -> Self:
        """Below the working directory if it was relative; links and `..` stay."""
        return self if self.is_absolute() else self.with_segments(os.getcwd(), self)

    async def resolve(self, strict: bool = False) -> Self:
        """Absolute, without links and `..`; `strict` raises OSError where something is missing.

        A loop of links is pathlib's error: RuntimeError before Python 3.13, then an OSError if `strict`.
        """
        return self.with_segments(await run(pathlib.Path(self).resolve, strict))

    async def readlink(self) -> Self:
        """What the link says."""
        return self.with_segments(await run(os.readlink, self))

    # Directories

    async def iterdir(self) -> AsyncGenerator[Self, None]:
        """What is in the directory, in no order, without `.` and `..`.

        Read as `proactor.os.scandir` does. Raises OSError at the first step.
        """
        async with ScandirIterator(str(self)) as entries:
            while names := await entries._names():
                for name in names:
                    yield self / name

    async def glob(
        self, pattern: StrPath, *, case_sensitive: bool | None = None, recurse_symlinks: bool = False
    ) -> AsyncGenerator[Self, None]:
        """What is there below the path and matches, in no order, by the rules of this Python's pathlib.

        `case_sensitive=False` takes letters of either case; `recurse_symlinks=True` has `**` go into links to
        directories too. Both work on every Python. Bad patterns raise pathlib's errors at the first step.
        Left or cancelled, a thread that is at work goes on to the next match.
        """
        matches = _matches(str(self), "glob", pattern, case_sensitive, recurse_symlinks)
        async with aclosing(in_slices(matches)) as paths:
            async for path in paths:
                yield self.with_segments(path)

    async def rglob(
        self, pattern: StrPath, *, case_sensitive: bool | None = None, recurse_symlinks: bool = False
    ) -> AsyncGenerator[Self, None]:
        """`glob` with `**/` before the pattern."""
        matches = _matches(str(self), "rglob", pattern, case_sensitive, recurse_symlinks)
        async with aclosing(in_slices(matches)) as paths:
            async for path in paths:
                yield self.with_segments(path)

    async def walk(
        self,
        top_down: bool = True,
        on_error: Callable[[OSError], object] | None = None,
        follow_symlinks: bool = False,
    ) -> AsyncGenerator[tuple[Self, list[str], list[str]], None]:
        """Each directory below the path, as `(path, directory names, file names)`.

        - `top_down`: a directory before those in it; the names may then be edited to keep it out of some.
        - `on_error`: called in the loop's thread with the OSError of a directory that cannot be listed. By
          default such a directory is left out.
        - `follow_symlinks`: go into links to directories. Otherwise they count as files. Links that lead
          upwards make it endless.

        One directory is listed at a time, in a thread.
        """
        # Those still to be listed, and, if not `top_down`, those to be given after all that is above them
        # here.
        ahead: list[tuple[Self, tuple[list[str], list[str]] | None]] = [(self, None)]
        while ahead:
            path, names = ahead.pop()
            if names is not None:
                yield path, *names
                continue
            try:
                names = await run(_sorted_out, str(path), follow_symlinks)
            except OSError as error:
                if on_error is not None:
                    on_error(error)
                continue
            if top_down:
                yield path, *names
            else:
                ahead.append((path, names))
            ahead.extend((path / name, None) for name in reversed(names[0]))

    # Changes

    async def chmod(self, mode: int, *, follow_symlinks: bool = True) -> None:
        """Sets the permissions."""
        await run(os.chmod, self, mode, follow_symlinks=follow_symlinks)

    async def lchmod(self, mode: int) -> None:
        """`chmod` of a link itself: NotImplementedError where the system has no such thing."""
        await self.chmod(mode, follow_symlinks=False)

    async def mkdir(self, mode: int = 0o777, parents: bool = False, exist_ok: bool = False) -> None:
        """Makes a directory, with `parents` also those above it; with `exist_ok` it may be there already."""
        await run(pathlib.Path(self).mkdir, mode, parents, exist_ok)

    async def rmdir(self) -> None:
        """Removes an empty directory."""
        await run(os.rmdir, self)

    async def unlink(self, missing_ok: bool = False) -> None:
        """Removes a file or a link; with `missing_ok` it may be gone already."""
        await run(pathlib.Path(self).unlink, missing_ok)

    async def rename(self, target: StrPath) -> Self:
        """Gives it another name, replacing a file of that name, and returns the path of that name."""
        await run(os.rename, self, target)
        return self.with_segments(target)

    async def replace(self, target: StrPath) -> Self:
        """As `rename`."""
        await run(os.replace, self, target)
        return self.with_segments(target)

    async def touch(self, mode: int = 0o666, exist_ok: bool = True) -> None:
        """Creates a file, or sets the times of one; FileExistsError if it is there and not `exist_ok`."""
        await run(pathlib.Path(self).touch, mode, exist_ok)

    async def symlink_to(self, target: StrPath, target_is_directory: bool = False) -> None:
        """Makes it a symbolic link that says `target`. Only Windows needs `target_is_directory`."""
        await run(os.symlink, target, self, target_is_directory)

    async def hardlink_to(self, target: StrPath) -> None:
        """Makes it another name of the file `target`."""
        await run(os.link, target, self)

    # Contents

    @overload
    def open(
        self,
        mode: OpenTextMode = "r",
        buffering: int = -1,
        encoding: str | None = None,
        errors: str | None = None,
        newline: str | None = None,
    ) -> TextOpening: ...
    @overload
    def open(
        self,
        mode: OpenBinaryMode,
        buffering: int = -1,
        encoding: None = None,
        errors: None = None,
        newline: None = None,
    ) -> Opening: ...
    @overload
    def open(
        self,
        mode: str,
        buffering: int = -1,
        encoding: str | None = None,
        errors: str | None = None,
        newline: str | None = None,
    ) -> TextOpening | Opening: ...
    def open(
        self,
        mode: str = "r",
        buffering: int = -1,
        encoding: str | None = None,
        errors: str | None = None,
        newline: str | None = None,
    ) -> TextOpening | Opening:
        """`proactor.open` of the path: `async with path.open() as f:` or `f = await path.open()`."""
        if isinstance(mode, str) and "b" not in mode:
            encoding = _text_encoding(encoding)
        return open_file(str(self), mode, buffering, encoding, errors, newline)

    async def read_bytes(self) -> bytes:
        """All of the file. Does not suspend if it is cached and has at most 1 MiB."""
        return await _files.read_bytes(str(self))

    async def read_text(
        self, encoding: str | None = None, errors: str | None = None, newline: str | None = None
    ) -> str:
        """All of the file, decoded as `open` would."""
        return await _files.read_text(str(self), _text_encoding(encoding), errors, newline)

    async def write_bytes(self, data: ReadableBuffer) -> int:
        """Creates or truncates the file and returns how many bytes it was given.

        Cancelled before a worker has begun, it does nothing; later all is written.
        """
        return await _files.write_bytes(str(self), memoryview(data))

    async def write_text(
        self,
        data: str,
        encoding: str | None = None,
        errors: str | None = None,
        newline: str | None = None,
    ) -> int:
        """`write_bytes` of a text; returns how many characters. If it cannot be encoded, nothing is done."""
        return await _files.write_text(str(self), data, _text_encoding(encoding), errors, newline)


def _text_encoding(encoding: str | None) -> str | None:
    # Its EncodingWarning is to name the line that called our caller.
    return io.text_encoding(encoding, 3)  # type: ignore[attr-defined,no-any-return]


# What threads do


def _owner(path: Path, follow_symlinks: bool) -> str:
    return pwd.getpwuid(os.stat(path, follow_symlinks=follow_symlinks).st_uid).pw_name


def _group(path: Path, follow_symlinks: bool) -> str:
    return grp.getgrgid(os.stat(path, follow_symlinks=follow_symlinks).st_gid).gr_name


def _matches(
    folder: str, method: str, pattern: StrPath, case_sensitive: bool | None, recurse_symlinks: bool
) -> Generator[StrPath, None, None]:
    # True is what None means on Linux.
    case_sensitive = case_sensitive is not False
    text = os.fspath(pattern)
    options: dict[str, Any] = {}
    if not case_sensitive:
        options["case_sensitive"] = False
    if recurse_symlinks:
        options["recurse_symlinks"] = True
    if all(_SINCE[name] <= sys.version_info for name in options):
        yield from getattr(pathlib.Path(folder), method)(text, **options)
    else:
        yield from select(
            folder,
            text,
            recursive=method == "rglob",
            case_sensitive=case_sensitive,
            recurse_symlinks=recurse_symlinks,
        )


def _sorted_out(folder: str, follow_symlinks: bool) -> tuple[list[str], list[str]]:
    """The names of directories, and those of all else."""
    folders: list[str] = []
    others: list[str] = []
    with os.scandir(folder) as entries:
        for entry in entries:
            try:
                is_folder = entry.is_dir(follow_symlinks=follow_symlinks)
            except OSError:
                is_folder = False
            (folders if is_folder else others).append(entry.name)
    return folders, others
