"""The native half of the package: what the Rust module exposes, checked by stubtest."""

from collections.abc import Iterable
from enum import Enum, IntEnum
from types import TracebackType
from typing import Any, Final, Literal, NamedTuple, Protocol, TypeAlias, final

from typing_extensions import Buffer, Self

__version__: Final[str]

class _HasFileno(Protocol):
    def fileno(self) -> int: ...

_File: TypeAlias = int | _HasFileno
_State: TypeAlias = Literal["new", "submitted", "done"]

def engines() -> list[str]: ...

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

class Priority(NamedTuple):
    cls: PriorityClass
    value: int = 0

class CancelOutcome(Enum):
    CANCELLED = ...
    RUNNING = ...
    FINISHED = ...

class Op:
    file: _File
    resfd: _File | None
    user_data: Any
    @property
    def state(self) -> _State: ...

class _Prioritised(Op):
    priority: Priority | None

class _Transfer(_Prioritised):
    offset: int | None
    rw_flags: int

@final
class Read(_Transfer):
    buffer: Buffer
    def __init__(
        self,
        file: _File,
        buffer: Buffer | int,
        offset: int | None = None,
        *,
        rw_flags: int = 0,
        priority: Priority | None = None,
        resfd: _File | None = None,
        user_data: Any = None,
    ) -> None: ...

@final
class Write(_Transfer):
    buffer: Buffer
    def __init__(
        self,
        file: _File,
        buffer: Buffer,
        offset: int | None = None,
        *,
        rw_flags: int = 0,
        priority: Priority | None = None,
        resfd: _File | None = None,
        user_data: Any = None,
    ) -> None: ...

@final
class ReadV(_Transfer):
    buffers: tuple[Buffer, ...]
    def __init__(
        self,
        file: _File,
        buffers: Iterable[Buffer | int],
        offset: int | None = None,
        *,
        rw_flags: int = 0,
        priority: Priority | None = None,
        resfd: _File | None = None,
        user_data: Any = None,
    ) -> None: ...

@final
class WriteV(_Transfer):
    buffers: tuple[Buffer, ...]
    def __init__(
        self,
        file: _File,
        buffers: Iterable[Buffer],
        offset: int | None = None,
        *,
        rw_flags: int = 0,
        priority: Priority | None = None,
        resfd: _File | None = None,
        user_data: Any = None,
    ) -> None: ...

@final
class Fsync(_Prioritised):
    def __init__(
        self,
        file: _File,
        *,
        priority: Priority | None = None,
        resfd: _File | None = None,
        user_data: Any = None,
    ) -> None: ...

@final
class Fdatasync(_Prioritised):
    def __init__(
        self,
        file: _File,
        *,
        priority: Priority | None = None,
        resfd: _File | None = None,
        user_data: Any = None,
    ) -> None: ...

@final
class Poll(Op):
    events: int
    def __init__(
        self, file: _File, events: int, *, resfd: _File | None = None, user_data: Any = None
    ) -> None: ...

@final
class Event:
    @property
    def op(self) -> Op: ...
    @property
    def result(self) -> int: ...
    # For vectors the tuple of buffers; None for an op without one.
    @property
    def buffer(self) -> Any: ...
    # The bytes that a read has put into its buffer. For vectors a tuple, one entry a buffer.
    @property
    def data(self) -> Any: ...
    @property
    def error(self) -> OSError | None: ...
    @property
    def user_data(self) -> Any: ...
    def check(self) -> int: ...

@final
class Context:
    def __init__(
        self,
        max_jobs: int = 128,
        *,
        engine: str | None = None,
        sqpoll: bool | float = False,
        sqpoll_cpu: int | None = None,
        iopoll: bool = False,
        backlog: int = 0,
        inline: bool = True,
    ) -> None: ...
    @property
    def engine(self) -> str: ...
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
    ) -> None: ...

def aligned(n: int, alignment: int | None = None) -> memoryview: ...
