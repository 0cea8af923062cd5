"""`proactor._shutil_calls`: the signatures of typeshed's `shutil`, awaited."""

from collections.abc import Callable
from shutil import _ntuple_diskusage
from tarfile import TarInfo
from typing import Any, Literal, overload

from _typeshed import FileDescriptorOrPath, StrOrBytesPath, StrPath

_TarFilter = Literal["fully_trusted", "tar", "data"] | Callable[[TarInfo, str], TarInfo | None]

MODULE: str

async def copymode(src: StrOrBytesPath, dst: StrOrBytesPath, *, follow_symlinks: bool = True) -> None: ...
async def copystat(src: StrOrBytesPath, dst: StrOrBytesPath, *, follow_symlinks: bool = True) -> None: ...
async def disk_usage(path: FileDescriptorOrPath) -> _ntuple_diskusage: ...
async def make_archive(
    base_name: str,
    format: str,
    root_dir: StrPath | None = None,
    base_dir: StrPath | None = None,
    verbose: bool = ...,
    dry_run: bool = ...,
    owner: str | None = None,
    group: str | None = None,
    logger: Any | None = None,
) -> str: ...
async def unpack_archive(
    filename: StrPath,
    extract_dir: StrPath | None = None,
    format: str | None = None,
    *,
    filter: _TarFilter | None = None,
) -> None: ...
@overload
async def which(cmd: StrPath, mode: int = 1, path: StrPath | None = None) -> str | None: ...
@overload
async def which(cmd: bytes, mode: int = 1, path: StrPath | None = None) -> bytes | None: ...
@overload
async def chown(path: FileDescriptorOrPath, user: str | int, group: None = None) -> None: ...
@overload
async def chown(path: FileDescriptorOrPath, user: None = None, *, group: str | int) -> None: ...
@overload
async def chown(path: FileDescriptorOrPath, user: None, group: str | int) -> None: ...
@overload
async def chown(path: FileDescriptorOrPath, user: str | int, group: str | int) -> None: ...
