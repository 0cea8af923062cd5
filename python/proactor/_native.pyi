"""The native half of the package: what the Rust module exposes, checked by stubtest."""

import sys
from asyncio import Future
from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable, Coroutine, Generator, Iterable
from contextlib import AbstractAsyncContextManager
from enum import Enum, IntEnum
from os import stat_result
from types import GenericAlias, TracebackType
from typing import Any, AnyStr, Final, Generic, Literal, Protocol, TypeAlias, TypeVar, final

from _typeshed import FileDescriptorOrPath, GenericPath
from typing_extensions import Buffer, Self, disjoint_base

from proactor._files import StrOrBytesPath

_T_co = TypeVar("_T_co", covariant=True)
_P = TypeVar("_P")
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
    "CreatedFile",
    "DirEntry",
    "Event",
    "Fdatasync",
    "FileCall",
    "FileOp",
    "Fsync",
    "LoopDriver",
    "NetStream",
    "Network",
    "Op",
    "Opening",
    "Poll",
    "Priority",
    "PriorityClass",
    "Read",
    "ReadMany",
    "ReadManyStep",
    "ReadV",
    "Reservation",
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
    "create_file",
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
    "network",
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

def cli_main(argv: list[str]) -> int:
    """Runs the `proactor` command with `argv`, the program's name first. Returns the exit status."""

def is_selinux() -> bool:
    """Whether contexts can be preserved here."""

def engines() -> list[str]:
    """The names of the engines that work here, best first; the simulator is not among them.

    Each was tried with a real op.
    """

def chosen_engine() -> tuple[str, str]:
    """The engine that is used when none is named, and why: `(name, reason)`.

    `PROACTOR_ENGINE` names one; ValueError if it is unknown, OSError if it cannot be had.
    """

def set_descriptor_wait(seconds: float) -> None:
    """Sets for how many seconds ops wait for a descriptor while none gets one, before they fail with
    EMFILE; 30 by default. For tests.
    """

# proactor.aio

RWF_HIPRI: Final[int]
RWF_DSYNC: Final[int]
RWF_SYNC: Final[int]
RWF_NOWAIT: Final[int]
RWF_APPEND: Final[int]

class PriorityClass(IntEnum):
    """Scheduling class of a `Priority`, as in ioprio_set(2).

    - NONE: the submitting thread's own priority.
    - REALTIME: first access to the device, always. Without CAP_SYS_NICE or CAP_SYS_ADMIN an event with
      EPERM.
    - BEST_EFFORT: the default.
    - IDLE: only when nobody else wants the device.
    """

    NONE = 0
    REALTIME = 1
    BEST_EFFORT = 2
    IDLE = 3

@final
class Priority:
    """An I/O priority: a class, and within it a value from 0 (first) to 7 (last).

    Raises ValueError where the kernel would ignore or refuse it: an unknown class, a value outside 0 to
    7, or one other than 0 for the classes NONE and IDLE, which have none. Immutable, hashable, equal by
    value.
    """
    def __new__(_cls, cls: PriorityClass | int, value: int = 0) -> Self: ...
    @property
    def cls(self) -> PriorityClass:
        """The scheduling class."""
    @property
    def value(self) -> int:
        """0 (first) to 7 (last)."""
    def __eq__(self, other: object, /) -> bool: ...
    def __ne__(self, other: object, /) -> bool: ...
    def __hash__(self) -> int: ...

class CancelOutcome(Enum):
    """What became of a request to cancel.

    - CANCELLED: it was stopped. Its event, with ECANCELED, will come from `wait`.
    - RUNNING: it is being worked on and was asked to stop; its event says how that ended.
    - FINISHED: it is complete: its event waits or was taken.
    """

    CANCELLED = "cancelled"
    RUNNING = "running"
    FINISHED = "finished"

@disjoint_base
class Op:
    """One thing to do; the base of Read, Write, ReadV, WriteV, Fsync, Fdatasync and Poll, and not made
    itself.

    An op may be submitted again once its event has been taken. While it is submitted, nothing about it
    can be changed (RuntimeError), and its buffers are exported: a bytearray, for one, refuses to be
    resized (BufferError). Ops are equal and hash by identity. A number that is no open descriptor is an
    event with EBADF; a file object that is closed raises ValueError at `submit`. A path (str, bytes,
    path-like; not for `Poll`) is opened by `submit` for this one time, for writing by a write and for
    reading by all others, never created, and closed when the op is done; `submit` raises the OSError of
    that.
    """

    file: _Subject
    resfd: _File | None
    user_data: Any
    @property
    def state(self) -> _State:
        """ "new", "submitted" or "done"."""

class _Transfer(Op):
    offset: int | None
    rw_flags: int
    priority: Priority | None

@final
class Read(_Transfer):
    """Read into `buffer`: a writable, contiguous buffer (bytearray, memoryview, mmap, array, NumPy), or a
    size in bytes. For a size there is memory aligned to a page, as O_DIRECT wants it, which another
    read may have used before: what it holds beyond `Event.data` means nothing. It may read less;
    `Event.data` is what it has read.

    - `offset`: where in the file, in bytes, 0 to 2**63 - 1; None is the file's position. Pipes and
      sockets ignore it.
    - `rw_flags`: `RWF_*` flags; an event with EOPNOTSUPP where kernel or file system lack one, and
      ValueError for a read with those of writes (`RWF_DSYNC`, `RWF_SYNC`, `RWF_APPEND`).
    - `priority`: a `Priority`; None is the submitting thread's own.
    - `resfd`: an eventfd (int or object with `fileno()`) to which one is added when the op is complete.
    - `user_data`: anything; the event has it too.
    """
    @property
    def buffer(self) -> Buffer:
        """The buffer that was given, or a memoryview of the memory for the size."""
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
    """Write `buffer`: any contiguous object with the buffer protocol. It may write less than all; see
    `Event.result`.

    - `offset`: where in the file, in bytes, 0 to 2**63 - 1; None is the file's position. Pipes and
      sockets ignore it.
    - `rw_flags`: `RWF_*` flags; an event with EOPNOTSUPP where kernel or file system lack one, and
      ValueError for a read with those of writes (`RWF_DSYNC`, `RWF_SYNC`, `RWF_APPEND`).
    - `priority`: a `Priority`; None is the submitting thread's own.
    - `resfd`: an eventfd (int or object with `fileno()`) to which one is added when the op is complete.
    - `user_data`: anything; the event has it too.
    """

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
    """Read into several buffers, or sizes, in order: at most 1024 (ValueError).

    - `offset`: where in the file, in bytes, 0 to 2**63 - 1; None is the file's position. Pipes and
      sockets ignore it.
    - `rw_flags`: `RWF_*` flags; an event with EOPNOTSUPP where kernel or file system lack one, and
      ValueError for a read with those of writes (`RWF_DSYNC`, `RWF_SYNC`, `RWF_APPEND`).
    - `priority`: a `Priority`; None is the submitting thread's own.
    - `resfd`: an eventfd (int or object with `fileno()`) to which one is added when the op is complete.
    - `user_data`: anything; the event has it too.
    """
    @property
    def buffers(self) -> tuple[Buffer, ...]:
        """A tuple of the buffers. Any iterable may be assigned."""
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
    """Write several buffers in order: at most 1024 (ValueError).

    - `offset`: where in the file, in bytes, 0 to 2**63 - 1; None is the file's position. Pipes and
      sockets ignore it.
    - `rw_flags`: `RWF_*` flags; an event with EOPNOTSUPP where kernel or file system lack one, and
      ValueError for a read with those of writes (`RWF_DSYNC`, `RWF_SYNC`, `RWF_APPEND`).
    - `priority`: a `Priority`; None is the submitting thread's own.
    - `resfd`: an eventfd (int or object with `fileno()`) to which one is added when the op is complete.
    - `user_data`: anything; the event has it too.
    """
    @property
    def buffers(self) -> tuple[Buffer, ...]:
        """A tuple of the buffers. Any iterable may be assigned."""
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
class Fsync(_Sync):
    """Bring a file's data and metadata to the device: fsync(2).

    `resfd` and `user_data` are as for `Read`. A `priority` raises ValueError, for the kernel would
    ignore it.
    """

@final
class Fdatasync(_Sync):
    """Bring a file's data to the device, and the metadata needed to read it: fdatasync(2).

    `resfd` and `user_data` are as for `Read`. A `priority` raises ValueError, for the kernel would
    ignore it.
    """

@final
class Poll(Op):
    """Wait, once, until a descriptor is ready for `events` (`select.POLLIN` and so on). `Event.result` is
    the event mask.

    `resfd` and `user_data` are as for `Read`.
    """

    events: int
    def __new__(
        cls, file: _File, events: int, *, resfd: _File | None = None, user_data: Any = None
    ) -> Self: ...

@final
class Event:
    """The end of one op. `Context.wait` makes it; it never changes, but shows the op as it is now: look
    before the op is changed or submitted again.
    """
    @property
    def op(self) -> Op:
        """The op, which may be submitted again."""
    @property
    def result(self) -> int:
        """Bytes transferred, or the events of a poll; -errno after a failure."""
    # A tuple of buffers for a vectored op; None for an op without one.
    @property
    def buffer(self) -> Any:
        """The op's buffer; a tuple of them for a vectored op; None for an op without one."""
    # A memoryview; a tuple of them for a vectored read; None for other ops and after an error.
    @property
    def data(self) -> Any:
        """What a read has filled: a memoryview of the first `result` bytes of the buffer, format "B"; for
        a vectored read a tuple of such views, one for each buffer. None for other ops and after an
        error.

        The view pins its buffer as any memoryview does.
        """
    @property
    def error(self) -> OSError | None:
        """The OSError (with errno, filename and op), or None."""
    @property
    def user_data(self) -> Any:
        """What the op was given as `user_data`."""
    def check(self) -> int:
        """The result; raises the error if there was one."""

@final
class Context:
    """A queue of ops, used by the thread that made it, and a context manager that closes it.

    - `max_jobs`: how many ops may be submitted and not yet be taken by `wait`, 1 to 32768.
    - `engine`: "io_uring", "linux_aio", "posix_aio", "threads", "sim"; None or "auto" for the best that
      works here, or what PROACTOR_ENGINE names. An unknown name raises ValueError, one that cannot be
      had OSError.
    - `sqpoll`: let a kernel thread poll the submission queue (io_uring, Linux 5.13 without privilege):
      True for an idle time of 1 s, or that many seconds; None or False for none. `sqpoll_cpu` binds it
      to a processor.
    - `iopoll`: poll the device for completions (io_uring, O_DIRECT, devices with poll queues). With
      another engine that is named, it and `sqpoll` raise ValueError; with one that was chosen,
      RuntimeWarning.
    - `backlog`: ops accepted beyond `max_jobs`, which wait in user space.
    - `inline`: finish at once what needs no waiting, such as reads of cached pages.
    - `max_threads`: the most worker threads for what the engine has no other way to do, 1 to 1024; None
      is 8 per processor, at most 64. They start with the first such op, and end when idle.
    - `shared`: any thread may use the context, one call at a time; while one waits, others may submit.
      Not on io_uring.

    io_uring is there since Linux 5.10 and Linux AIO in every Linux; where neither may be used, threads
    do it all.

    Another thread's call raises RuntimeError unless it is shared, as does a forked child's: make a
    context in each. The attributes may be read by any. A context that is dropped closes itself; dropped
    in another thread, its own thread does that at its next use of a context, or at its end. In a forked
    child a copy can be dropped or closed, and touches nothing of the parent's.
    """
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
    def engine(self) -> str:
        """The name of the engine."""
    @property
    def engine_reason(self) -> str:
        """Why it is this engine."""
    @property
    def max_jobs(self) -> int:
        """How many ops may be pending."""
    @property
    def pending(self) -> int:
        """Ops submitted whose events have not been taken."""
    @property
    def closed(self) -> bool:
        """Whether `close()` was called."""
    def submit(self, *ops: Op) -> int:
        """Submits ops in order and returns how many were accepted; the rest is untouched. Fewer than all:
        `max_jobs + backlog` ops are pending (take events with `wait`, then submit the rest), or the
        next one is refused.

        Raises ValueError for an op that is submitted already or can never succeed, and OSError for one
        whose path cannot be opened, if it is the first; otherwise such an op ends the count.
        """
    def wait(
        self,
        min: int = 1,  # noqa: A002
        max: int | None = None,  # noqa: A002
        timeout: float | None = None,
        *,
        resume: bool = True,
    ) -> list[Event]:
        """Takes events: at least `min`, at most `max` (None: all there are), unless `timeout` seconds pass
        first.

        `timeout` 0 only looks; None waits for ever. Never waits for more events than ops are pending,
        unless the context is shared: then another thread may submit more. A signal's Python handler
        runs meanwhile; if it raises, no event is lost. After it the wait goes on; with `resume=False`
        it raises InterruptedError.

        Raises ValueError for a negative number, NaN, or `max` below `min`.
        """
    def cancel(self, op: Op) -> CancelOutcome:
        """Asks for one op to stop and says what came of it. Its event comes all the same.

        Raises ValueError for an op that was never submitted, or is submitted to another context.
        """
    def fileno(self) -> int:
        """A descriptor for another event loop, readable while events wait. Do not read from it or close
        it: `wait` does what is needed. Ask for it before there are ops: on linux_aio, the first call
        waits for the transfers in flight.
        """
    def close(self) -> None:
        """Ends the context: writes and syncs run to their end, everything else is cancelled, and the call
        returns when the kernel has let go of all buffers. Events that were not taken are lost. May be
        called twice.
        """
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
    """The owner of the memory, which its memoryviews keep alive."""

    if sys.version_info >= (3, 12):
        def __buffer__(self, flags: int, /) -> memoryview: ...

def aligned(n: int, alignment: int | None = None) -> memoryview:
    """Memory for O_DIRECT: a writable `memoryview` of `n` zero bytes whose address is a multiple of
    `alignment`.

    `alignment` is a power of two in bytes, at most 2**30; by default the size of a page, which suits
    every file system whose blocks are no larger. `direct_alignment(file)` asks the kernel.

    Raises ValueError for a negative size or another alignment, MemoryError for too much.
    """

def direct_alignment(file: _File) -> tuple[int, int]:
    """What O_DIRECT needs of `file` (an int or an object with `fileno()`): `(memory, offset)` alignment in
    bytes.

    From `statx(STATX_DIOALIGN)` since Linux 6.1, before that the file system's block size, which is
    always enough. Raises OSError (EINVAL) for a file that cannot be used with O_DIRECT.
    """

# Whole files

# One awaited operation.
@final
class Call(_Coroutine[_T_co]):
    """The awaitable of one file operation. Await it once."""

def read_bytes(path: StrOrBytesPath, *, engine: str | None = None) -> Coroutine[Any, Any, bytes]:
    """Reads a whole file and returns its bytes.

    `path` is str, bytes or path-like. A file whose pages are cached is read at once, in the calling
    thread and without suspending; otherwise open, size, read and close are one op of the engine. Files
    above 1 MiB always suspend.

    Raises OSError (with errno, filename and op) on await; ValueError or TypeError for a bad path at
    once. When cancelled, the read is abandoned and its descriptor closed.
    """

def write_bytes(
    path: StrOrBytesPath,
    data: Buffer,
    *,
    append: bool = False,
    exclusive: bool = False,
    mode: int = 0o666,
    sync: bool = False,
    engine: str | None = None,
) -> Coroutine[Any, Any, int]:
    """Creates or truncates a file, writes `data` (any bytes-like object, without a copy) and returns its
    length in bytes.

    `append` writes at the end instead; `exclusive` fails with FileExistsError if the file exists;
    `mode` is the permission of a new file before the umask; `sync` brings data and size to the device
    before it returns. `data` is exported until the write is done.

    Raises OSError on await. When cancelled before a worker has begun, nothing was done; after that the
    write runs to its end in the background.
    """

# What files are, and directories

# One awaited question about a file: a coroutine to any event loop.
@final
class StatCall(_Coroutine[_T_co]):
    """The awaitable of one question. Await it once."""

# A `StatCall`, but for what only the standard library takes or refuses in its own words.
def stat(
    path: FileDescriptorOrPath, *, dir_fd: int | None = None, follow_symlinks: bool = True
) -> Coroutine[Any, Any, stat_result]:
    """What `os.stat` says of a path or descriptor.

    A coroutine. It does not suspend if the path is in the kernel's cache, or `path` is a descriptor,
    and the file system is a local one (ext4, XFS, Btrfs, F2FS, tmpfs, overlay), but gives the loop its
    turn after 1 ms of such calls. Otherwise the loop's engine asks; cancelled, its answer is dropped.
    Raises what `os.stat` does.
    """

def lstat(path: StrOrBytesPath, *, dir_fd: int | None = None) -> Coroutine[Any, Any, stat_result]:
    """What `os.lstat` says: `stat` of a link itself."""

def fstat(fd: int) -> Coroutine[Any, Any, stat_result]:
    """What `os.fstat` says: `stat` of a descriptor. Its errors have no filename."""

def exists(path: FileDescriptorOrPath) -> Coroutine[Any, Any, bool]:
    """Whether there is such a file; False for a broken link, and for a path that cannot be asked for. A
    coroutine, as `stat`.
    """

def lexists(path: StrOrBytesPath) -> Coroutine[Any, Any, bool]:
    """Whether there is such a file, or a link, broken or not. A coroutine, as `stat`."""

def isfile(path: FileDescriptorOrPath) -> Coroutine[Any, Any, bool]:
    """Whether it is a regular file, or a link to one. A coroutine, as `stat`."""

def isdir(s: FileDescriptorOrPath) -> Coroutine[Any, Any, bool]:
    """Whether it is a directory, or a link to one. A coroutine, as `stat`."""

def islink(path: StrOrBytesPath) -> Coroutine[Any, Any, bool]:
    """Whether it is a symbolic link, broken or not. A coroutine, as `stat`."""

def path_is(path: StrOrBytesPath, kind: int, follow_symlinks: bool) -> Coroutine[Any, Any, bool]:
    """Whether a path is of this kind (`stat.S_IFREG` and so on), or with 0 whether there is anything, by
    `pathlib`'s rules.
    """

@final
class DirEntry(Generic[AnyStr]):
    """What `scandir` finds: `os.DirEntry` with its questions as coroutines.

    The directory says what an entry is, and whether it is a link; what is behind a link, and `stat`,
    are `proactor.os.stat`'s answers. As with `os.DirEntry` they are asked for once and kept.
    """
    @property
    def name(self) -> AnyStr:
        """The entry's name in its directory."""
    @property
    def path(self) -> AnyStr:
        """The path given to `scandir`, joined with the name."""
    def inode(self) -> int:
        """The entry's inode number, which the directory has."""
    def is_dir(self, *, follow_symlinks: bool = True) -> Coroutine[Any, Any, bool]:
        """Whether it is a directory, or a link to one. A missing file is none. A coroutine."""
    def is_file(self, *, follow_symlinks: bool = True) -> Coroutine[Any, Any, bool]:
        """Whether it is a regular file, or a link to one. A missing file is none. A coroutine."""
    def is_symlink(self) -> Coroutine[Any, Any, bool]:
        """Whether it is a symbolic link, broken or not. A coroutine."""
    def is_junction(self) -> Coroutine[Any, Any, bool]:
        """False: Linux has none. A coroutine."""
    def stat(self, *, follow_symlinks: bool = True) -> Coroutine[Any, Any, stat_result]:
        """As `os.stat` of the path, asked for once. Raises OSError as it does. A coroutine."""
    def __fspath__(self) -> AnyStr: ...
    def __class_getitem__(cls, key: Any) -> GenericAlias: ...

@final
class ScandirStep(_Coroutine[_T_co]):
    """The awaitable of one step of `scandir`. Await it once."""

@final
class ScandirIterator(AsyncIterator[DirEntry[AnyStr]]):
    """What `scandir` returns: await it, iterate over it, or use it in `async with`.

    The directory is opened when it is awaited, entered or first iterated over. A worker reads 32 KiB of
    entries, then 128 KiB at a time; iterating over what it has read does not suspend, but gives the
    loop its turn after 1 ms of such steps. A cancelled step loses no entry: what is being read is the
    next step's.
    """
    def __new__(
        cls, path: GenericPath[AnyStr] | int | None = None, *, batch_bytes: int | None = None
    ) -> Self: ...
    def __await__(self) -> Generator[Any, Any, Self]: ...
    def __aenter__(self) -> Coroutine[Any, Any, Self]: ...
    def __aexit__(self, *_exc_info: object) -> Coroutine[Any, Any, None]: ...
    def __aiter__(self) -> Self: ...
    def __anext__(self) -> Coroutine[Any, Any, DirEntry[AnyStr]]: ...
    def _names(self) -> Coroutine[Any, Any, list[AnyStr]]:
        """The names of the next entries, up to 512, and none at the end: for `listdir` and its like."""
    def close(self) -> None:
        """Closes the directory as soon as no worker is reading it; iterating ends. Twice is harmless."""
    def __class_getitem__(cls, key: Any) -> GenericAlias: ...

# Counts what this process does from construction to stop(): system calls, CPU, context switches.
@final
class Copying:
    """A copy, or a step of one in shards, that has not begun, is under way, or has ended."""
    def __new__(
        cls,
        sources: Iterable[StrOrBytesPath],
        target: StrOrBytesPath,
        into: bool,
        measures: bool,
        **options: Any,
    ) -> Self: ...
    @staticmethod
    def planning(source: StrOrBytesPath, target: StrOrBytesPath, shards: int, **options: Any) -> Copying:
        """staticmethod(function) -> method

        Convert a function to be a static method.

        A static method does not receive an implicit first argument. To declare a static method, use
        this idiom:

        class C: @staticmethod def f(arg1, arg2, argN): ...

        It can be called either on the class (e.g. C.f()) or on an instance (e.g. C().f()). Both the
        class and the instance are ignored, and neither is passed implicitly as the first argument to
        the method.

        Static methods in Python are similar to those found in Java or C++. For a more advanced concept,
        see the classmethod builtin.
        """
    @staticmethod
    def shard(plan: str, shard: int, measures: bool = False) -> Copying:
        """staticmethod(function) -> method

        Convert a function to be a static method.

        A static method does not receive an implicit first argument. To declare a static method, use
        this idiom:

        class C: @staticmethod def f(arg1, arg2, argN): ...

        It can be called either on the class (e.g. C.f()) or on an instance (e.g. C().f()). Both the
        class and the instance are ignored, and neither is passed implicitly as the first argument to
        the method.

        Static methods in Python are similar to those found in Java or C++. For a more advanced concept,
        see the classmethod builtin.
        """
    @staticmethod
    def finishing(plan: str, measures: bool = False) -> Copying:
        """staticmethod(function) -> method

        Convert a function to be a static method.

        A static method does not receive an implicit first argument. To declare a static method, use
        this idiom:

        class C: @staticmethod def f(arg1, arg2, argN): ...

        It can be called either on the class (e.g. C.f()) or on an instance (e.g. C().f()). Both the
        class and the instance are ignored, and neither is passed implicitly as the first argument to
        the method.

        Static methods in Python are similar to those found in Java or C++. For a more advanced concept,
        see the classmethod builtin.
        """
    def run(self) -> Any:
        """Copies. Returns when nothing is left to do, or soon after `stop`: the report's numbers by name,
        the errors and the warnings. MemoryError where there is none to copy anything.
        """
    def stop(self) -> None:
        """Asks the copy to end in order. May be called from any thread, at any time."""
    def done(self) -> tuple[int, int, float]:
        """Files and bytes that were dealt with up to now, and about what part of the whole that is."""

@final
class Counters:
    """Counts from its construction until `stop()`: CPU, context switches, page faults and, unless
    `system_calls` is false, system calls of all threads. To count those makes each of them slower while
    it lasts. With `by_name` also the system calls by name, of the calling thread and those that it
    starts meanwhile.
    """
    def __new__(cls, *, system_calls: bool = True, by_name: bool = False) -> Self: ...
    def stop(self) -> dict[str, Any]:
        """Ends counting and returns a dict: `wall_s`, `user_s`, `system_s`, `context_switches`,
        `minor_faults`, `major_faults`, `device_read_bytes`, `max_rss_bytes`, and `system_calls` or,
        where that is None, the reason in `system_calls_unavailable`. `voluntary` and `involuntary` are
        the context switches apart; `calls_by_name` is a dict with `total`, `by_name` and `other`, or
        None where they were not asked for or cannot be counted.

        Raises RuntimeError the second time.
        """

# The awaitable of the next file of read_many().
@final
class ReadManyStep(_Coroutine[_T_co]):
    """The awaitable of the next file of `read_many`. Await it once."""

# The asynchronous iterator of read_many(). Its `__await__` refuses, so type checkers need not know it.
@disjoint_base
class ReadMany(AsyncIterator[tuple[_P, _V]]):
    """The asynchronous iterator of `read_many`."""
    def __new__(
        cls,
        paths: Iterable[_P],
        *,
        concurrency: int = 64,
        ordered: bool = True,
        return_exceptions: bool = False,
        workers: int = 0,
        engine: str | None = None,
        into: Callable[[int], Any] | None = None,
        progress: Callable[[int, int], object] | None = None,
        given: bool = False,
    ) -> Self: ...
    def __anext__(self) -> Coroutine[Any, Any, tuple[_P, _V]]: ...
    def __aiter__(self) -> Self: ...
    def __class_getitem__(cls, types: Any) -> type[Any]: ...
    def _next(self, event_loop: Any) -> tuple[_P, _V]:
        """The next pair, without a running loop: `event_loop` runs until each future that has to come
        first is done.
        """
    def _close(self) -> None:
        """Gives up what is in flight and what was read ahead: there is no next file."""

# One awaited method of an open file.
@final
class FileCall(_Coroutine[_T_co]):
    """The awaitable of one method of an open file. Await it once."""
    @property
    def begun(self) -> bool:
        """A write longer than the buffer is under way, or done: it goes on when this is cancelled."""

# One awaited method of an open file that leaves its position alone.
@final
class FileOp(_Coroutine[_T_co]):
    """The awaitable of one method of an open file that does not use its position. Await it once."""

# An open file in a binary mode.
@final
class BinaryFile:
    """What `proactor.open` gives for a binary mode: the methods of `io.BufferedReader`, `BufferedWriter`,
    `BufferedRandom` or, without buffering, `FileIO`, as coroutines. It belongs to the loop that opened
    it.

    Calls that use the position run one after the other, in the order in which they were awaited. A
    cancelled read consumes nothing; a cancelled write has either taken all of its data or none of it.

    Methods raise ValueError once it is closed, `io.UnsupportedOperation` (an OSError and a ValueError)
    where the mode or a pipe has no such thing, RuntimeError on another loop than its own, and OSError
    with errno, filename and op. Sizes, offsets and lengths are in bytes, from 0 to 2^63 - 1: OSError
    (EINVAL) below, OverflowError above.
    """
    def read(self, size: int | None = None, /) -> Coroutine[Any, Any, bytes]:
        """Reads `size` bytes, fewer only at the end of the file; all that is left if it is None or -1.
        Without buffering it is one read of at most `size` bytes. b"" is the end.
        """
    def readall(self) -> Coroutine[Any, Any, bytes]:
        """Reads to the end of the file."""
    def read1(self, size: int | None = None, /) -> Coroutine[Any, Any, bytes]:
        """Reads at most `size` bytes (a buffer's worth if None or negative) with at most one read of the
        file.
        """
    def _read_chunk(self, count: int) -> Coroutine[Any, Any, bytes]:
        """What a text file decodes at a time."""
    def readinto(self, buffer: Buffer, /) -> Coroutine[Any, Any, int]:
        """Reads into a writable buffer and returns the number of bytes: as many as it has room for, fewer
        only at the end.
        """
    def readinto1(self, buffer: Buffer, /) -> Coroutine[Any, Any, int]:
        """As `readinto`, with at most one read of the file."""
    def peek(self, size: int = 0, /) -> Coroutine[Any, Any, bytes]:
        """What is in the buffer, after one read if it was empty; the position stays. `size` is ignored, as
        `io` does.
        """
    def readline(self, size: int | None = None, /) -> Coroutine[Any, Any, bytes]:
        """Reads one line with its end, b"\\n", or at most `size` bytes of it. b"" is the end of the file."""
    def readlines(self, hint: int | None = None, /) -> Coroutine[Any, Any, list[bytes]]:
        """Reads all lines that are left, or lines until they have more than `hint` bytes together."""
    def write(self, data: Buffer, /) -> Coroutine[Any, Any, int]:
        """Writes any bytes-like object and returns its length. It is in the kernel's hands when the buffer
        is full, and at the latest after `flush` or `close`. An error of such a write is raised by the
        next call.
        """
    def writelines(self, lines: Iterable[Buffer] | AsyncIterable[Buffer], /) -> Coroutine[Any, Any, None]:
        """Writes bytes-like objects one after the other, from an iterable or an asynchronous one."""
    def seek(self, offset: int, whence: int = 0, /) -> Coroutine[Any, Any, int]:
        """Goes to a place: `offset` bytes from the start, the position (`whence` 1) or the end (2), or to
        the next data (3) or hole (4) from `offset` on. Returns it. OSError for a place before the
        start, or beyond what the file system has (EINVAL), and for no such data or hole (ENXIO).
        """
    def tell(self) -> Coroutine[Any, Any, int]:
        """The position in bytes."""
    def truncate(self, size: int | None = None, /) -> Coroutine[Any, Any, int]:
        """Sets the file's length to `size` bytes, by default the position, which stays. Returns it.
        OSError (EINVAL) if it is negative; EFBIG if the file system has no such length.
        """
    def flush(self) -> Coroutine[Any, Any, None]:
        """Brings what was written to the kernel (not to the device)."""
    def fsync(self) -> Coroutine[Any, Any, None]:
        """Flushes, and brings data and metadata to the device: fsync(2)."""
    def fdatasync(self) -> Coroutine[Any, Any, None]:
        """Flushes, and brings the data to the device, with the metadata needed to read it: fdatasync(2)."""
    def pread(self, size: int, offset: int, /) -> Coroutine[Any, Any, bytes]:
        """Reads `size` bytes at `offset`, fewer only at the end of the file. The position stays, and calls
        of this kind wait for no turn: any number of them may run at once. Data written before are with
        the kernel first. OSError (ESPIPE) for a pipe.
        """
    def preadinto(self, buffer: Buffer, offset: int, /) -> Coroutine[Any, Any, int]:
        """As `pread`, into a writable buffer, which is exported until the last op on it has ended, even if
        the call is cancelled before. Returns the number of bytes.
        """
    def preadv(self, buffers: Iterable[Buffer], offset: int, /) -> Coroutine[Any, Any, int]:
        """As `preadinto`, into any number of buffers, one after the other."""
    def pwrite(self, data: Buffer, offset: int, /) -> Coroutine[Any, Any, int]:
        """Writes all of a bytes-like object at `offset` and returns its length. The position stays, as
        with `pread`. In an append mode the kernel ignores the offset and appends. When cancelled, all
        is written in the background or, if data written before were not with the kernel yet, nothing.
        """
    def pwritev(self, buffers: Iterable[Buffer], offset: int, /) -> Coroutine[Any, Any, int]:
        """As `pwrite`, from any number of bytes-like objects, one after the other. More than 1,024 of
        them, or 2 GiB, take more than one system call, between which another's write may come.
        """
    def fallocate(self, offset: int, length: int, *, mode: int = 0) -> Coroutine[Any, Any, None]:
        """Reserves or changes the space of a part of the file: fallocate(2), with its `FALLOC_FL_*` as
        `mode`. Nothing is emulated: OSError (EOPNOTSUPP) where the file system cannot. When cancelled,
        it may have happened.
        """
    def advise(self, advice: int, offset: int = 0, length: int = 0) -> Coroutine[Any, Any, None]:
        """Announces how a part of the file will be used: `advice` is one of `os.POSIX_FADV_*`; a `length`
        of 0 is to the end. OSError (EINVAL) for another one, ESPIPE for a pipe.
        """
    def copy_range(
        self, dst: Self | _File, count: int, offset_src: int = 0, offset_dst: int = 0
    ) -> Coroutine[Any, Any, int]:
        """Copies at most `count` bytes to another file (an open one of ours, a descriptor or an object
        with `fileno()`), or to another part of this one, and returns how many: fewer only at the end of
        this file. The kernel does it if it can, perhaps without moving any (copy_file_range(2), between
        file systems from Linux 5.3 on); if not, a worker reads and writes. Positions stay. OSError
        (EINVAL) for overlapping parts of one file. When cancelled, a part may have been copied.
        """
    def sendfile(self, out: _File, offset: int, count: int) -> Coroutine[Any, Any, int]:
        """Sends `count` bytes from `offset` on to a socket or a pipe (a descriptor or an object with
        `fileno()`), and returns how many: fewer only at the end of this file. It waits for a slow peer,
        in a thread of its own. When cancelled, a part may have been sent.
        """
    def lock(
        self, *, exclusive: bool = True, blocking: bool = True, start: int = 0, length: int = 0
    ) -> Coroutine[Any, Any, None]:
        """Locks `length` bytes from `start` on (0: to the end, wherever that is by then) against other
        open files of any process that ask for a lock; shared if not `exclusive`. An advisory lock of
        this open file: it goes when the file is closed, and a second `lock` of the same bytes replaces
        it. What was read ahead is dropped.

        It waits for its turn in a thread of its own; BlockingIOError at once if not `blocking`. When
        cancelled, this call holds no lock (and a lock that the file had there before may be gone too).
        OSError (EBADF) if the file is not open for writing or, with a shared one, for reading.
        F_OFD_SETLK of fcntl(2), there since Linux 3.15.
        """
    def unlock(self, *, start: int = 0, length: int = 0) -> Coroutine[Any, Any, None]:
        """Brings what was written to the kernel, then gives up the lock on these bytes, if there is one.
        An error of the flush is raised when the lock is gone. When cancelled before that, the lock
        stays.
        """
    def close(self) -> Coroutine[Any, Any, None]:
        """Flushes and closes; does nothing the second time. An error of the flush is raised after the file
        is closed. A cancelled close goes on by itself.
        """
    def __aenter__(self) -> Coroutine[Any, Any, Self]: ...
    def __aexit__(self, *exc_info: object) -> Coroutine[Any, Any, None]: ...
    def __aiter__(self) -> Self: ...
    def __anext__(self) -> Coroutine[Any, Any, bytes]: ...
    @property
    def name(self) -> Any:
        """The file's name as it was given to `open`: a path, or a descriptor."""
    @property
    def mode(self) -> str:
        """The mode, as `io` writes it: "rb", "rb+", "wb", "xb", "ab" ..."""
    @property
    def closed(self) -> bool:
        """Whether it is closed."""
    def _check_loop(self) -> None:
        """RuntimeError on another loop than the file's own, unless it is closed."""
    def fileno(self) -> int:
        """The descriptor. Raises ValueError when the file is closed."""
    def readable(self) -> bool:
        """Whether the mode allows reading. Raises ValueError when the file is closed."""
    def writable(self) -> bool:
        """Whether the mode allows writing. Raises ValueError when the file is closed."""
    def seekable(self) -> bool:
        """Whether it has positions, which pipes and terminals have not. Raises ValueError when the file is
        closed.
        """
    def isatty(self) -> bool:
        """Whether it is a terminal."""

# How many calls of a text file have its turn or wait for it.
@disjoint_base
class Users:
    """How many calls of a text file have its turn or wait for it. `_text_base.py` derives `Turn` from it,
    which lets them wait.
    """

    users: int
    _taken: bool
    def __new__(cls) -> Self: ...

# The quick part of a text file; TextFile derives from it.
@disjoint_base
class TextCore:
    """A text file's state. `_text.py` derives `TextFile` from it."""

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
    def _decode_as_is(self) -> bool | Future[None]:
        """Decodes one more chunk if it is that simple, and says whether; the caller has the turn of the
        file. Or what is to be awaited before it is asked again: the loop has to go round.
        """
    def _go_on(self) -> None:
        """A call that has let the loop go round has its turn."""
    def _end_lines_with(self, newline: str | None) -> None:
        """What ends a line: `open`'s argument `newline`."""
    def _encode_as(self, encoding: str | None) -> None:
        """How short strings are encoded: "utf-8", "ascii" (for all encodings that have it within) or None
        for in Python.
        """
    def readline(self, size: int = -1, /) -> Coroutine[Any, Any, str]:
        """Reads one line with its end, or at most `size` characters of it. "" is the end of the file."""
    def write(self, text: str, /) -> Coroutine[Any, Any, int]:
        """Writes a string and returns its length in characters."""
    def __anext__(self) -> Coroutine[Any, Any, str]: ...

# One awaited method of a text file.
@final
class TextCall(_Coroutine[_T_co]):
    """The awaitable of one method of a text file. Await it once."""

# What open() returns for a binary mode.
@final
class Opening(_Coroutine[BinaryFile]):
    """What `proactor.open` returns: await it, or use it in `async with`. Nothing is opened before."""
    def __aenter__(self) -> Self: ...
    def __aexit__(self, *exc_info: object) -> Coroutine[Any, Any, None]: ...

def open_binary(
    file: int | StrOrBytesPath,
    mode: str,
    buffering: int,
    closefd: bool = True,
    opener: Callable[[str, int], int] | CreatedFile | None = None,
    *,
    engine: str | None = None,
    direct: bool = False,
    limiter: AbstractAsyncContextManager[Any] | None = None,
) -> Opening:
    """Opens a binary file, whatever the mode says of text. See `proactor.open`."""

# A new file, removed unless it is taken: by `detach`, or by `open_binary` in place of an opener.
@final
class CreatedFile:
    """A file that `create_file` has made. It is closed and removed if nobody takes it: `detach` does, and
    `open_binary`, to which it is given in place of an opener.
    """
    def fileno(self) -> int:
        """The descriptor, which stays with this."""
    def discard(self) -> None:
        """Removes and closes it, now or when it has been created."""
    def detach(self) -> int:
        """The descriptor, which is the caller's from now on."""

# The right to open some descriptors: taken at once, or waited for.
@final
class Reservation:
    """The right to open some descriptors: taken at once, or waited for in the line of the engine's ops."""
    def __new__(cls, count: int) -> Self: ...
    def take(self) -> bool:
        """Whether they could be had without waiting."""
    def wait(self, path: StrOrBytesPath) -> Coroutine[Any, Any, int]:
        """A coroutine that waits for them. `path` is for its error, EMFILE."""
    def opened(self) -> None:
        """Says that they are open."""
    def release(self) -> None:
        """Gives them back."""

def create_file(
    path: StrOrBytesPath, how: Literal["named", "unlinked", "nameless"], *, engine: str | None = None
) -> tuple[Coroutine[Any, Any, int], CreatedFile]:
    """Creates a file that only its owner may use: a coroutine, and what then has the file.

    `how` is "named" (FileExistsError if the name is taken), "unlinked" (its name is removed at once) or
    "nameless" (by O_TMPFILE, in the directory `path`).
    """

# The bridge between an event loop and an engine; not made directly.
@final
class LoopDriver:
    """The bridge between an event loop and an engine driver. Made by the first call on a loop; not for
    direct use.
    """
    def chosen(self) -> tuple[str, str]:
        """The name of the engine and the reason for it."""

# What `proactor.net` stands on; not for direct use.
@final
class Network:
    """The sockets of one event loop. Made by `network`; not for direct use."""
    def listen(
        self,
        address: Any,
        backlog: int,
        reuse_port: bool,
        accepted: Callable[[NetStream], object],
        failed: Callable[[OSError], object],
    ) -> tuple[int, Any]:
        """Listens. `accepted` is called with each connection's `NetStream`, `failed` with an error while
        none can be accepted. Returns a number for `close_listener`, and the address.
        """
    def close_listener(self, listener: int) -> None:
        """Stops listening."""
    def connect(self, address: Any) -> tuple[NetStream, Awaitable[None]]:
        """Begins to connect. Returns the stream and a future that is done when it is connected or closed."""
    def chosen(self) -> tuple[str, str]:
        """What the sockets are on, and why not on io_uring: `(name, reason)`; the reason is empty for
        io_uring.
        """
    def connections(self) -> int:
        """Connections that are open."""

@final
class NetStream:
    """A connection: unread bytes, and calls that never wait. Made by `Network`; `proactor.net.Stream`
    stands on it.
    """
    def take(self, most: int) -> bytes | None:
        """At most `most` unread bytes, all if it is negative. `b""` at the end, None if nothing is there
        yet.
        """
    def take_exactly(self, count: int) -> bytes | None:
        """Exactly `count` unread bytes; None if there are fewer yet."""
    def find(self, separator: Buffer, anew: bool) -> int:
        """The number of unread bytes up to the end of the first `separator`, or -1. `anew` is for another
        separator than the last search's.
        """
    def unread(self) -> int:
        """Unread bytes."""
    def ended(self) -> bool:
        """Whether the peer has sent its last byte, or the connection is closed. Unread bytes may be left."""
    def closed(self) -> bool:
        """Whether the descriptor is closed."""
    def check(self) -> None:
        """Raises what ended the connection, if it was an error."""
    def set_most_unread(self, most: int) -> None:
        """Unread bytes from which on nothing is received."""
    def wait_readable(self, wanted: int) -> Awaitable[None]:
        """A future that is done when there are at least `wanted` unread bytes or the last one has come."""
    def wait_writable(self) -> Awaitable[None] | None:
        """A future that is done when there is room to send; None if there is room now."""
    def wait_closed(self) -> Awaitable[None] | None:
        """A future that is done when the descriptor is closed; None if it is."""
    def send(self, data: Buffer) -> bool:
        """Sends bytes, in order: what the kernel does not take at once is kept. False if more is unsent
        than the bound allows.
        """
    def unsent(self) -> int:
        """Bytes that the kernel has not taken yet."""
    def close(self) -> None:
        """Closes the connection when everything is sent."""
    def abort(self) -> None:
        """Closes the connection at once; the peer gets a reset."""
    def shutdown(self) -> None:
        """Shuts the sending side down when everything is sent."""
    def peer(self) -> Any:
        """The peer's address, or None."""
    def local(self) -> Any:
        """The own address, or None."""

def network(engine: str) -> Network:
    """The running loop's sockets, on io_uring if `engine` is "auto" and that works here, on epoll if it is
    "epoll".
    """
