"""Temporary files and directories: how they are made, and how they go away on every way out.

The loop's engine creates files, for which it waits for a descriptor; threads make directories. What was made
for a caller that was cancelled is removed by whoever has made it. What was handed over is removed by the end
of its context or its `close`, else by a finalizer.
"""

from __future__ import annotations

import contextlib
import errno
import io
import os
import stat
import sys
import tempfile
import warnings
from collections.abc import Coroutine, Generator, Iterator
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any, AnyStr, Generic, Literal, TypeVar
from weakref import finalize

from proactor import _copy, _pool
from proactor._encoding import resolve
from proactor._methods import PLAIN, Methods
from proactor._native import BinaryFile, CreatedFile, create_file, open_binary
from proactor._open import open as open_file
from proactor._open import start_close
from proactor._text import TextFile

if TYPE_CHECKING:
    from types import TracebackType

T = TypeVar("T")
E = TypeVar("E")


class Making(Coroutine[Any, Any, T], Generic[T, E]):
    """Await it for the object, or use it in `async with`. Nothing is made before."""

    def __init__(self, coroutine: Coroutine[Any, Any, T]) -> None:
        self._coroutine = coroutine
        self._made: Any = None

    def __await__(self) -> Generator[Any, Any, T]:
        return self._coroutine.__await__()

    def send(self, value: Any) -> Any:
        return self._coroutine.send(value)

    def throw(self, typ: Any, val: Any = None, tb: Any = None) -> Any:
        if val is None and tb is None:
            return self._coroutine.throw(typ)
        return self._coroutine.throw(typ, val, tb)

    def close(self) -> None:
        self._coroutine.close()

    async def __aenter__(self) -> E:
        self._made = await self._coroutine
        entered: E = await self._made.__aenter__()
        return entered

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self._made.__aexit__(kind, error, traceback)


class Settings:
    """The arguments of `open`, checked at once."""

    def __init__(
        self,
        mode: str,
        buffering: int,
        encoding: str | None,
        errors: str | None,
        newline: str | None,
        engine: str | None,
    ) -> None:
        self.mode: str = mode
        self.buffering: int = buffering
        self.newline: str | None = newline
        self.engine: str | None = engine
        self.is_text: bool = isinstance(mode, str) and "b" not in mode
        if self.is_text:
            encoding = io.text_encoding(encoding, 3)  # type: ignore[attr-defined]
        open_file(os.curdir, mode, buffering, encoding, errors, newline, engine=engine).close()
        self.encoding: str
        self.errors: str
        self.encoding, self.errors = resolve(encoding, errors, newline) if self.is_text else ("", "")

    async def open(self, created: CreatedFile, name: str | bytes | None = None) -> Any:
        """A file over a new disk file. It does not suspend."""
        place = created.fileno() if name is None else name
        buffering = -1 if self.is_text and self.buffering == 1 else self.buffering
        file = await open_binary(place, self.mode, buffering, True, created, engine=self.engine)
        return self._text(file) if self.is_text else file

    def _text(self, file: BinaryFile) -> TextFile:
        return TextFile(
            file, self.encoding, self.errors, self.newline, mode=self.mode, line_buffering=self.buffering == 1
        )


async def parts(suffix: Any, prefix: Any, folder: Any) -> tuple[Any, Any, Any, type]:
    """The standard library's defaults: the prefix, the suffix, the directory and the type of the name."""
    if folder is not None:
        # A number would be taken for a descriptor, and not for a directory's name.
        folder = os.fspath(folder)
    elif tempfile.tempdir is None:
        # The first time it tries the directories.
        await _pool.run(tempfile.gettempdir)
    found: tuple[Any, Any, Any, type] = tempfile._sanitize_params(prefix, suffix, folder)  # type: ignore[attr-defined]
    return found


def paths(prefix: Any, suffix: Any, folder: Any, kind: type) -> Iterator[Any]:
    """The paths that the standard library would try."""
    folder = os.path.abspath(folder)
    names = tempfile._get_candidate_names()  # type: ignore[attr-defined]
    for name in islice(names, tempfile.TMP_MAX):
        path = os.path.join(folder, prefix + (os.fsencode(name) if kind is bytes else name) + suffix)
        sys.audit("tempfile.mkstemp", path)
        yield path


async def created_file(
    path: Any, how: Literal["named", "unlinked", "nameless"], engine: str | None
) -> CreatedFile:
    making, created = create_file(path, how, engine=engine)
    try:
        await making
    except BaseException:
        # The error's traceback keeps this frame, and the frame would keep the file.
        created.discard()
        raise
    return created


async def create(
    candidates: Iterator[Any], how: Literal["named", "unlinked"], engine: str | None
) -> tuple[CreatedFile, Any]:
    """A new file and its path, the first that is free."""
    for path in candidates:
        try:
            return await created_file(path, how, engine), path
        except FileExistsError:
            pass
    raise FileExistsError(errno.EEXIST, "No usable temporary file name found")


async def make_file(
    suffix: Any, prefix: Any, folder: Any, engine: str | None = None
) -> tuple[CreatedFile, Any]:
    """As `mkstemp`. What is not taken is removed."""
    return await create(paths(*await parts(suffix, prefix, folder)), "named", engine)


async def temporary_file(settings: Settings, suffix: Any, prefix: Any, folder: Any) -> Any:
    prefix, suffix, folder, kind = await parts(suffix, prefix, folder)
    try:
        created = await created_file(folder, "nameless", settings.engine)
    except OSError as error:
        if error.errno in (errno.EMFILE, errno.ENFILE):
            raise
        # The file system cannot; or it says below what is wrong.
        created, _ = await create(paths(prefix, suffix, folder, kind), "unlinked", settings.engine)
    return await settings.open(created)


def remove_file(name: str | bytes) -> None:
    """Removes it, if it is still there."""
    with contextlib.suppress(FileNotFoundError):
        os.unlink(name)


# Those of a named file that are its file's own.
METHODS = [*(name for name in vars(Methods) if not name.startswith("_") and name != "close"), *PLAIN]


class NamedFile(Methods[AnyStr]):
    """What `NamedTemporaryFile` gives: a `TextFile` or `BinaryFile`, as `file`, that is deleted in the end.

    `name` is its path. It has all of the file's methods and attributes.
    """

    def __init__(self, file: Any, name: Any, *, delete: bool, delete_on_close: bool) -> None:
        self.file = file
        # In bytes if its parts were given so.
        self.name: str = name
        self._delete = delete
        self._delete_on_close = delete_on_close
        for method in METHODS:
            # Called without a detour.
            if hasattr(file, method):
                setattr(self, method, getattr(file, method))
        binary = file if isinstance(file, BinaryFile) else file.buffer
        self._forgotten: Any = finalize(self, forgotten_file, binary, name, delete, repr(self))

    async def _call(self, name: str, *arguments: Any) -> Any:
        return await getattr(self.file, name)(*arguments)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.file, name)

    async def close(self) -> None:
        """Flushes and closes; then deletes the file, unless `delete` or `delete_on_close` was false.

        A cancelled close goes on by itself, and the file is deleted all the same.
        """
        await self._end(self._delete and self._delete_on_close)

    async def _end(self, delete: bool) -> None:
        try:
            await self.file.close()
        except Exception:
            await self._remove(delete)
            raise
        except BaseException:
            if delete and self._forgotten.detach():
                remove_soon(self.name)
            raise
        await self._remove(delete)

    async def _remove(self, delete: bool) -> None:
        if delete and self._forgotten.detach():
            await _pool.finish(remove_file, self.name)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self._end(self._delete)

    def __repr__(self) -> str:
        return f"<proactor.NamedTemporaryFile {self.name!r}>"


def remove_soon(name: str | bytes) -> None:
    """Removes a file in a thread or, where no loop runs any more, here."""
    try:
        _pool.submit(remove_file, name)
    except RuntimeError:
        remove_file(name)


def forgotten_file(file: BinaryFile, name: str | bytes, delete: bool, what: str) -> None:
    was_open = not file.closed
    try:
        if was_open:
            start_close(file)
    finally:
        if delete:
            remove_file(name)
    if was_open:
        warnings.warn(f"Implicitly cleaning up {what}", ResourceWarning, stacklevel=2)


async def named_file(
    settings: Settings, suffix: Any, prefix: Any, folder: Any, *, delete: bool, delete_on_close: bool
) -> NamedFile[Any]:
    created, name = await make_file(suffix, prefix, folder, settings.engine)
    try:
        file = await settings.open(created, name)
    except BaseException:
        remove_soon(name)
        raise
    return NamedFile(file, name, delete=delete, delete_on_close=delete_on_close)


class Directory(Generic[AnyStr]):
    """What `TemporaryDirectory` gives. `name` is its path, which `async with` gives."""

    def __init__(self, name: AnyStr, *, ignore_cleanup_errors: bool, delete: bool) -> None:
        self.name: AnyStr = name
        self._ignore_errors = ignore_cleanup_errors
        self._delete = delete
        self._forgotten: Any = finalize(self, forgotten_tree, name, ignore_cleanup_errors, repr(self))
        if not delete:
            self._forgotten.detach()

    async def cleanup(self) -> None:
        """Removes the directory with all that is in it; does nothing if it is gone.

        Cancelled, it goes on in the background. Raises OSError, unless `ignore_cleanup_errors` was true.
        """
        self._forgotten.detach()
        await _pool.finish(remove_tree, self.name, self._ignore_errors)

    async def __aenter__(self) -> AnyStr:
        return self.name

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._delete:
            await self.cleanup()

    def __repr__(self) -> str:
        return f"<proactor.TemporaryDirectory {self.name!r}>"


def forgotten_tree(name: Any, ignore_errors: bool, what: str) -> None:
    remove_tree(name, ignore_errors)
    warnings.warn(f"Implicitly cleaning up {what}", ResourceWarning, stacklevel=2)


def remove_tree(name: Any, ignore_errors: bool) -> None:
    """Removes a directory, if it is there, and what is in it, also what its owner has taken rights from."""
    try:
        _empty(name, ignore_errors=False)
    except FileNotFoundError:
        # Also when something in it has been moved meanwhile.
        if os.path.lexists(name):
            remove_tree(name, ignore_errors)
    except OSError:
        if not os.path.islink(name):
            _unlock(name)
        _empty(name, ignore_errors)


def _empty(name: Any, ignore_errors: bool) -> None:
    """`proactor.shutil.rmtree` in one go: the same few descriptors, however deep it is."""

    def failed(function: Any, path: str, error: OSError) -> None:
        if not ignore_errors:
            raise error

    path = os.fsdecode(name) if isinstance(name, bytes) else name
    for _ in _copy.remove_tree(path, None, failed):
        pass


def _unlock(folder: Any) -> None:
    """Gives its owner all rights to a directory and those in it, each before it is listed."""
    with contextlib.suppress(OSError):
        os.chmod(folder, stat.S_IRWXU)
        with os.scandir(folder) as entries:
            inner = [entry.path for entry in entries if entry.is_dir(follow_symlinks=False)]
        for path in inner:
            _unlock(path)


def make_directory(suffix: Any, prefix: Any, folder: Any) -> Any:
    # Before Python 3.12 it is as relative as `folder`.
    return os.path.abspath(tempfile.mkdtemp(suffix, prefix, folder))


async def empty_directory(suffix: Any, prefix: Any, folder: Any) -> Any:
    return await _pool.make(partial(make_directory, suffix, prefix, folder), os.rmdir)


async def temporary_directory(
    suffix: Any, prefix: Any, folder: Any, *, ignore_cleanup_errors: bool, delete: bool
) -> Directory[Any]:
    name = await empty_directory(suffix, prefix, folder)
    return Directory(name, ignore_cleanup_errors=ignore_cleanup_errors, delete=delete)
