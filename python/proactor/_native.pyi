"""The native half of the package: what the Rust module exposes, checked by stubtest."""

import sys
from asyncio import Future
from collections.abc import AsyncIterable, AsyncIterator, Callable, Coroutine, Generator, Iterable
from contextlib import AbstractAsyncContextManager
from enum import Enum, IntEnum
from os import stat_result
from types import GenericAlias, TracebackType
from typing import Any, AnyStr, Final, Generic, Literal, Protocol, TypeAlias, TypeVar, final

from _typeshed import FileDescriptorOrPath, GenericPath
from typing_extensions import Buffer, Self, disjoint_base

from proactor._files import StrOrBytesPath

_T_co = TypeVar("_T_co", covariant=True)
_P = TypeVar("_P", bound=StrOrBytesPath)
_V = TypeVar("_V")

__all__ = [
    "RWF_APPEND",
    "RWF_DSYNC",
    "RWF_HIPRI",
    "RWF_NOWAIT",
    "RWF_SYNC",
    "AlignedMemory",
    "BinaryFile",
    "Call",
    "CancelOutcome",
    "Context",
    "Copying",
    "Counters",
    "DirEntry",
    "Event",
    "Fdatasync",
    "FileCall",
    "FileOp",
    "Fsync",
    "LoopDriver",
    "Op",
    "Opening",
    "Poll",
    "Priority",
    "PriorityClass",
    "Read",
    "ReadMany",
    "ReadManyStep",
    "ReadV",
    "ScandirIterator",
    "ScandirStep",
    "StatCall",
    "TextCall",
    "TextCore",
    "Users",
    "Write",
    "WriteV",
    "__version__",
    "aligned",
    "chosen_engine",
    "cli_main",
    "direct_alignment",
    "engines",
    "exists",
    "fstat",
    "is_selinux",
    "isdir",
    "isfile",
    "islink",
    "lexists",
    "lstat",
    "open_binary",
    "path_is",
    "read_bytes",
    "set_descriptor_wait",
    "stat",
    "write_bytes",
]

__version__: Final[str]

class _HasFileno(Protocol):
    def fileno(self) -> int: ...

# What all native coroutines have. No class of its own at run time.
class _Coroutine(Coroutine[Any, Any, _T_co]):
    @property
    def __name__(self) -> str: ...
    @property
    def __qualname__(self) -> str: ...
    def __await__(self) -> Generator[Any, Any, _T_co]: ...
    def __next__(self) -> Any: ...
    def send(self, value: Any) -> Any: ...
    def throw(self, typ: Any, val: Any = None, tb: Any = None) -> Any: ...
    def close(self) -> None: ...

_File: TypeAlias = int | _HasFileno
_Subject: TypeAlias = _File | StrOrBytesPath
_State: TypeAlias = Literal["new", "submitted", "done"]

def cli_main(argv: list[str]) -> int: ...
def is_selinux() -> bool: ...
def engines() -> list[str]: ...
def chosen_engine() -> tuple[str, str]: ...
def set_descriptor_wait(seconds: float) -> None: ...

# proactor.aio

RWF_HIPRI: Final[int]
RWF_DSYNC: Final[int]
RWF_SYNC: Final[int]
RWF_NOWAIT: Final[int]
RWF_APPEND: Final[int]

class PriorityClass(IntEnum):
    NONE = 0
    REALTIME = 1
    BEST_EFFORT = 2
    IDLE = 3

@final
class Priority:
    def __new__(_cls, cls: PriorityClass | int, value: int = 0) -> Self: ...
    @property
    def cls(self) -> PriorityClass: ...
    @property
    def value(self) -> int: ...
    def __eq__(self, other: object, /) -> bool: ...
    def __ne__(self, other: object, /) -> bool: ...
    def __hash__(self) -> int: ...

class CancelOutcome(Enum):
    CANCELLED = "cancelled"
    RUNNING = "running"
    FINISHED = "finished"

@disjoint_base
class Op:
    file: _Subject
    resfd: _File | None
    user_data: Any
    @property
    def state(self) -> _State: ...

class _Transfer(Op):
    offset: int | None
    rw_flags: int
    priority: Priority | None

@final
class Read(_Transfer):
    @property
    def buffer(self) -> Buffer: ...
    @buffer.setter
    def buffer(self, value: Buffer | int) -> None: ...
    def __new__(
        cls,
        file: _Subject,
        buffer: Buffer | int,
        offset: int | None = None,
        *,
        rw_flags: int = 0,
        priority: Priority | None = None,
        resfd: _File | None = None,
        user_data: Any = None,
    ) -> Self: ...

@final
class Write(_Transfer):
    buffer: Buffer
    def __new__(
        cls,
        file: _Subject,
        buffer: Buffer,
        offset: int | None = None,
        *,
        rw_flags: int = 0,
        priority: Priority | None = None,
        resfd: _File | None = None,
        user_data: Any = None,
    ) -> Self: ...

@final
class ReadV(_Transfer):
    @property
    def buffers(self) -> tuple[Buffer, ...]: ...
    @buffers.setter
    def buffers(self, buffers: Iterable[Buffer | int]) -> None: ...
    def __new__(
        cls,
        file: _Subject,
        buffers: Iterable[Buffer | int],
        offset: int | None = None,
        *,
        rw_flags: int = 0,
        priority: Priority | None = None,
        resfd: _File | None = None,
        user_data: Any = None,
    ) -> Self: ...

@final
class WriteV(_Transfer):
    @property
    def buffers(self) -> tuple[Buffer, ...]: ...
    @buffers.setter
    def buffers(self, buffers: Iterable[Buffer]) -> None: ...
    def __new__(
        cls,
        file: _Subject,
        buffers: Iterable[Buffer],
        offset: int | None = None,
        *,
        rw_flags: int = 0,
        priority: Priority | None = None,
        resfd: _File | None = None,
        user_data: Any = None,
    ) -> Self: ...

class _Sync(Op):
    def __new__(
        cls,
        file: _Subject,
        *,
        priority: Priority | None = None,
        resfd: _File | None = None,
        user_data: Any = None,
    ) -> Self: ...

@final
class Fsync(_Sync): ...

@final
class Fdatasync(_Sync): ...

@final
class Poll(Op):
    events: int
    def __new__(
        cls, file: _File, events: int, *, resfd: _File | None = None, user_data: Any = None
    ) -> Self: ...

@final
class Event:
    @property
    def op(self) -> Op: ...
    @property
    def result(self) -> int: ...
    # A tuple of buffers for a vectored op; None for an op without one.
    @property
    def buffer(self) -> Any: ...
    # A memoryview; a tuple of them for a vectored read; None for other ops and after an error.
    @property
    def data(self) -> Any: ...
    @property
    def error(self) -> OSError | None: ...
    @property
    def user_data(self) -> Any: ...
    def check(self) -> int: ...

@final
class Context:
    def __new__(
        cls,
        max_jobs: int = 128,
        *,
        engine: str | None = None,
        sqpoll: bool | float | None = None,
        sqpoll_cpu: int | None = None,
        iopoll: bool = False,
        backlog: int = 0,
        inline: bool = True,
        max_threads: int | None = None,
        shared: bool = False,
    ) -> Self: ...
    @property
    def engine(self) -> str: ...
    @property
    def engine_reason(self) -> str: ...
    @property
    def max_jobs(self) -> int: ...
    @property
    def pending(self) -> int: ...
    @property
    def closed(self) -> bool: ...
    def submit(self, *ops: Op) -> int: ...
    def wait(
        self,
        min: int = 1,  # noqa: A002
        max: int | None = None,  # noqa: A002
        timeout: float | None = None,
        *,
        resume: bool = True,
    ) -> list[Event]: ...
    def cancel(self, op: Op) -> CancelOutcome: ...
    def fileno(self) -> int: ...
    def close(self) -> None: ...
    def __enter__(self) -> Self: ...
    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
        /,
    ) -> None: ...

# The owner of aligned()'s memory, in its memoryview's `obj`.
@final
class AlignedMemory:
    if sys.version_info >= (3, 12):
        def __buffer__(self, flags: int, /) -> memoryview: ...

def aligned(n: int, alignment: int | None = None) -> memoryview: ...
def direct_alignment(file: _File) -> tuple[int, int]: ...

# Whole files

# One awaited operation.
@final
class Call(_Coroutine[_T_co]): ...

def read_bytes(path: StrOrBytesPath, *, engine: str | None = None) -> Coroutine[Any, Any, bytes]: ...
def write_bytes(
    path: StrOrBytesPath,
    data: Buffer,
    *,
    append: bool = False,
    exclusive: bool = False,
    mode: int = 0o666,
    sync: bool = False,
    engine: str | None = None,
) -> Coroutine[Any, Any, int]: ...

# What files are, and directories

# One awaited question about a file: a coroutine to any event loop.
@final
class StatCall(_Coroutine[_T_co]): ...

# A `StatCall`, but for what only the standard library takes or refuses in its own words.
def stat(
    path: FileDescriptorOrPath, *, dir_fd: int | None = None, follow_symlinks: bool = True
) -> Coroutine[Any, Any, stat_result]: ...
def lstat(path: StrOrBytesPath, *, dir_fd: int | None = None) -> Coroutine[Any, Any, stat_result]: ...
def fstat(fd: int) -> Coroutine[Any, Any, stat_result]: ...
def exists(path: FileDescriptorOrPath) -> Coroutine[Any, Any, bool]: ...
def lexists(path: StrOrBytesPath) -> Coroutine[Any, Any, bool]: ...
def isfile(path: FileDescriptorOrPath) -> Coroutine[Any, Any, bool]: ...
def isdir(s: FileDescriptorOrPath) -> Coroutine[Any, Any, bool]: ...
def islink(path: StrOrBytesPath) -> Coroutine[Any, Any, bool]: ...
def path_is(path: StrOrBytesPath, kind: int, follow_symlinks: bool) -> Coroutine[Any, Any, bool]: ...

@final
class DirEntry(Generic[AnyStr]):
    @property
    def name(self) -> AnyStr: ...
    @property
    def path(self) -> AnyStr: ...
    def inode(self) -> int: ...
    def is_dir(self, *, follow_symlinks: bool = True) -> Coroutine[Any, Any, bool]: ...
    def is_file(self, *, follow_symlinks: bool = True) -> Coroutine[Any, Any, bool]: ...
    def is_symlink(self) -> Coroutine[Any, Any, bool]: ...
    def is_junction(self) -> Coroutine[Any, Any, bool]: ...
    def stat(self, *, follow_symlinks: bool = True) -> Coroutine[Any, Any, stat_result]: ...
    def __fspath__(self) -> AnyStr: ...
    def __class_getitem__(cls, key: Any) -> GenericAlias: ...

@final
class ScandirStep(_Coroutine[_T_co]): ...

@final
class ScandirIterator(AsyncIterator[DirEntry[AnyStr]]):
    def __new__(
        cls, path: GenericPath[AnyStr] | int | None = None, *, batch_bytes: int | None = None
    ) -> Self: ...
    def __await__(self) -> Generator[Any, Any, Self]: ...
    def __aenter__(self) -> Coroutine[Any, Any, Self]: ...
    def __aexit__(self, *_exc_info: object) -> Coroutine[Any, Any, None]: ...
    def __aiter__(self) -> Self: ...
    def __anext__(self) -> Coroutine[Any, Any, DirEntry[AnyStr]]: ...
    def _names(self) -> Coroutine[Any, Any, list[AnyStr]]: ...
    def close(self) -> None: ...
    def __class_getitem__(cls, key: Any) -> GenericAlias: ...

# Counts what this process does from construction to stop(): system calls, CPU, context switches.
@final
class Copying:
    def __new__(
        cls,
        sources: Iterable[StrOrBytesPath],
        target: StrOrBytesPath,
        into: bool,
        measures: bool,
        **options: Any,
    ) -> Self: ...
    @staticmethod
    def planning(source: StrOrBytesPath, target: StrOrBytesPath, shards: int, **options: Any) -> Copying: ...
    @staticmethod
    def shard(plan: str, shard: int, measures: bool = False) -> Copying: ...
    @staticmethod
    def finishing(plan: str, measures: bool = False) -> Copying: ...
    def run(self) -> Any: ...
    def stop(self) -> None: ...
    def done(self) -> tuple[int, int, float]: ...

@final
class Counters:
    def __new__(cls, *, system_calls: bool = True, by_name: bool = False) -> Self: ...
    def stop(self) -> dict[str, Any]: ...

# The awaitable of the next file of read_many().
@final
class ReadManyStep(_Coroutine[_T_co]): ...

# The asynchronous iterator of read_many(). Its `__await__` refuses, so type checkers need not know it.
@disjoint_base
class ReadMany(AsyncIterator[tuple[_P, _V]]):
    def __new__(
        cls,
        paths: Iterable[_P],
        *,
        concurrency: int = 64,
        ordered: bool = True,
        return_exceptions: bool = False,
        workers: int = 0,
        engine: str | None = None,
    ) -> Self: ...
    def __anext__(self) -> Coroutine[Any, Any, tuple[_P, _V]]: ...
    def __aiter__(self) -> Self: ...
    def __class_getitem__(cls, types: Any) -> type[Any]: ...
    def _close(self) -> None: ...

# One awaited method of an open file.
@final
class FileCall(_Coroutine[_T_co]):
    @property
    def begun(self) -> bool: ...

# One awaited method of an open file that leaves its position alone.
@final
class FileOp(_Coroutine[_T_co]): ...

# An open file in a binary mode.
@final
class BinaryFile:
    def read(self, size: int | None = None, /) -> Coroutine[Any, Any, bytes]: ...
    def readall(self) -> Coroutine[Any, Any, bytes]: ...
    def read1(self, size: int | None = None, /) -> Coroutine[Any, Any, bytes]: ...
    def _read_chunk(self, count: int) -> Coroutine[Any, Any, bytes]: ...
    def readinto(self, buffer: Buffer, /) -> Coroutine[Any, Any, int]: ...
    def readinto1(self, buffer: Buffer, /) -> Coroutine[Any, Any, int]: ...
    def peek(self, size: int = 0, /) -> Coroutine[Any, Any, bytes]: ...
    def readline(self, size: int | None = None, /) -> Coroutine[Any, Any, bytes]: ...
    def readlines(self, hint: int | None = None, /) -> Coroutine[Any, Any, list[bytes]]: ...
    def write(self, data: Buffer, /) -> Coroutine[Any, Any, int]: ...
    def writelines(self, lines: Iterable[Buffer] | AsyncIterable[Buffer], /) -> Coroutine[Any, Any, None]: ...
    def seek(self, offset: int, whence: int = 0, /) -> Coroutine[Any, Any, int]: ...
    def tell(self) -> Coroutine[Any, Any, int]: ...
    def truncate(self, size: int | None = None, /) -> Coroutine[Any, Any, int]: ...
    def flush(self) -> Coroutine[Any, Any, None]: ...
    def fsync(self) -> Coroutine[Any, Any, None]: ...
    def fdatasync(self) -> Coroutine[Any, Any, None]: ...
    def pread(self, size: int, offset: int, /) -> Coroutine[Any, Any, bytes]: ...
    def preadinto(self, buffer: Buffer, offset: int, /) -> Coroutine[Any, Any, int]: ...
    def preadv(self, buffers: Iterable[Buffer], offset: int, /) -> Coroutine[Any, Any, int]: ...
    def pwrite(self, data: Buffer, offset: int, /) -> Coroutine[Any, Any, int]: ...
    def pwritev(self, buffers: Iterable[Buffer], offset: int, /) -> Coroutine[Any, Any, int]: ...
    def fallocate(self, offset: int, length: int, *, mode: int = 0) -> Coroutine[Any, Any, None]: ...
    def advise(self, advice: int, offset: int = 0, length: int = 0) -> Coroutine[Any, Any, None]: ...
    def copy_range(
        self, dst: Self | _File, count: int, offset_src: int = 0, offset_dst: int = 0
    ) -> Coroutine[Any, Any, int]: ...
    def sendfile(self, out: _File, offset: int, count: int) -> Coroutine[Any, Any, int]: ...
    def lock(
        self, *, exclusive: bool = True, blocking: bool = True, start: int = 0, length: int = 0
    ) -> Coroutine[Any, Any, None]: ...
    def unlock(self, *, start: int = 0, length: int = 0) -> Coroutine[Any, Any, None]: ...
    def close(self) -> Coroutine[Any, Any, None]: ...
    def __aenter__(self) -> Coroutine[Any, Any, Self]: ...
    def __aexit__(self, *exc_info: object) -> Coroutine[Any, Any, None]: ...
    def __aiter__(self) -> Self: ...
    def __anext__(self) -> Coroutine[Any, Any, bytes]: ...
    @property
    def name(self) -> Any: ...
    @property
    def mode(self) -> str: ...
    @property
    def closed(self) -> bool: ...
    def _check_loop(self) -> None: ...
    def fileno(self) -> int: ...
    def readable(self) -> bool: ...
    def writable(self) -> bool: ...
    def seekable(self) -> bool: ...
    def isatty(self) -> bool: ...

# How many calls of a text file have its turn or wait for it.
@disjoint_base
class Users:
    users: int
    _taken: bool
    def __new__(cls) -> Self: ...

# The quick part of a text file; TextFile derives from it.
@disjoint_base
class TextCore:
    _buffer: BinaryFile | None
    _decoded: str
    _used: int
    _ascii_as_is: bool
    _chunks: list[Any]
    _ratio: float
    _iterating: bool
    _snapshot: bool
    @property
    def _turn(self) -> Any: ...
    def __new__(cls, buffer: BinaryFile, turn: Users) -> Self: ...
    def _decode_as_is(self) -> bool | Future[None]: ...
    def _go_on(self) -> None: ...
    def _end_lines_with(self, newline: str | None) -> None: ...
    def _encode_as(self, encoding: str | None) -> None: ...
    def readline(self, size: int = -1, /) -> Coroutine[Any, Any, str]: ...
    def write(self, text: str, /) -> Coroutine[Any, Any, int]: ...
    def __anext__(self) -> Coroutine[Any, Any, str]: ...

# One awaited method of a text file.
@final
class TextCall(_Coroutine[_T_co]): ...

# What open() returns for a binary mode.
@final
class Opening(_Coroutine[BinaryFile]):
    def __aenter__(self) -> Self: ...
    def __aexit__(self, *exc_info: object) -> Coroutine[Any, Any, None]: ...

def open_binary(
    file: int | StrOrBytesPath,
    mode: str,
    buffering: int,
    closefd: bool = True,
    opener: Callable[[str, int], int] | None = None,
    *,
    engine: str | None = None,
    direct: bool = False,
    limiter: AbstractAsyncContextManager[Any] | None = None,
) -> Opening: ...

# The bridge between an event loop and an engine; not made directly.
@final
class LoopDriver:
    def chosen(self) -> tuple[str, str]: ...
