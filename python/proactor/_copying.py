"""`proactor.copy`: files and whole trees, with all that belongs to them."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from proactor._files import StrOrBytesPath
from proactor._native import Copying, Reservation
from proactor._pool import alone, run
from proactor._steps import ended

Preserved: TypeAlias = Iterable[
    Literal["mode", "ownership", "timestamps", "links", "context", "xattr", "flags", "all"]
]

# How often a progress callback hears of it.
INTERVAL_S = 0.1
# How many descriptors the copy of one file has open at most, and then some.
DESCRIPTORS = 8
# How many copies of this process are under way, steps of one in shards among them.
_running = 0


@dataclass(frozen=True)
class CopyProgress:
    """How far a copy has come."""

    files: int
    """Everything but directories that has its final contents."""
    bytes: int
    """Of the contents of files: written, shared with the source, or passed over as holes."""
    fraction: float
    """About how much of the whole is done, from 0 to 1: all sources count the same, and so do all entries of
    a directory, however large they are."""


@dataclass(frozen=True)
class CopyReport:
    """What a copy has done."""

    files: int
    """Regular files copied."""
    directories: int
    """Directories made or merged into."""
    symlinks: int
    hard_links: int
    """Further names given to files that have one. What is such a name already is not counted."""
    specials: int
    """FIFOs, sockets and devices."""
    verified: int
    """Regular files that were read back and are the same as their sources (`verify`)."""
    skipped: int
    """Left as they are, because the target exists (`update`)."""
    resumed: int
    """Files that an earlier copy had finished (`resume`)."""
    excluded: int
    """Left out, because of a pattern (`exclude`); what is below such a directory is not counted."""
    failures: int
    """Not copied as asked, each with an error."""
    bytes: int
    """Written."""
    shared_bytes: int
    """Shared with the source, by reflinks."""
    hole_bytes: int
    """Left out, as holes."""
    duration: float
    """In seconds."""
    errors: tuple[OSError, ...]
    """The first 1,000 failures, with errno, strerror, filename and, where there are two, filename2."""
    warnings: tuple[str, ...]
    """The first 1,000."""
    partial: tuple[str, ...]
    """Trees that were not finished and keep their partial name."""


class CopyError(OSError):
    """Something was not copied. errno, strerror and the filenames are those of the first error."""

    def __init__(self, report: CopyReport) -> None:
        first = report.errors[0]
        super().__init__(first.errno, first.strerror, first.filename, None, first.filename2)
        self.report = report
        """What was copied all the same, and every error."""

    def __str__(self) -> str:
        if self.report.failures == 1:
            return super().__str__()
        return f"{super().__str__()} (and {self.report.failures - 1} more)"

    def __reduce__(self) -> tuple[type[CopyError], tuple[CopyReport]]:
        return CopyError, (self.report,)


async def copy(
    src: StrOrBytesPath | Iterable[StrOrBytesPath],
    dst: StrOrBytesPath,
    *,
    into: bool | None = None,
    recursive: bool = True,
    preserve: Preserved = ("all",),
    exclude: Iterable[str | bytes] = (),
    include: Iterable[str | bytes] = (),
    dereference: Literal["never", "command-line", "always"] = "never",
    update: Literal["all", "none", "none-fail", "older"] = "all",
    backup: Literal["none", "simple", "numbered", "existing"] = "none",
    link: Literal["none", "hard", "symbolic"] = "none",
    sparse: Literal["auto", "always", "never"] = "auto",
    reflink: Literal["auto", "always", "never"] = "auto",
    fsync: Literal["none", "end", "each"] = "none",
    force: bool = False,
    in_place: bool = False,
    resume: bool = False,
    one_file_system: bool = False,
    attributes_only: bool = False,
    keep_directory_symlink: bool = False,
    dry_run: bool = False,
    verify: bool = False,
    bwlimit: int = 0,
    jobs: int = 0,
    engine: Literal["auto", "threads", "uring", "io_uring"] = "auto",
    progress: Callable[[CopyProgress], object] | None = None,
    check: bool = True,
) -> CopyReport:
    """Copies files and trees with all that belongs to them, as `proactor cp -a` does.

    `src` is one path, or several, which then go into the directory `dst`. One goes into `dst` if that is a
    directory (`into=None`), always (`into=True`), or never: then `dst` is the copy's name (`into=False`).

    A new tree grows under a name beside `dst` and appears when it is whole. In a tree that exists each file
    appears whole or not at all, unless `in_place`. Nothing is read or written through a symbolic link inside
    the trees.

    - `preserve`: what is kept. "all" is everything but "flags", as far as privileges and file systems allow;
      what is named alone must be kept or is a failure. `()` is contents, and permissions less the umask.
      "flags" are those of chattr, and are never kept unless they are named: docs/copy.md has the reason.
    - `exclude`: patterns of what is left out, such as "*.o", "/build" or "cache/"; an excluded directory is
      not read. docs/copy.md has the rules.
    - `include`: patterns of what is copied although `exclude` has it; not without `exclude`.
    - `dereference`: which symbolic links of the source are followed.
    - `update`: which existing files are replaced; with "none-fail" each one is a failure.
    - `resume`: go on where a copy with the same paths and options was killed or cancelled, without copying
      again what it had finished; begin if there was none. What has changed since is copied again.
    - `keep_directory_symlink`: a directory is copied into what a link of its name in `dst` leads to.
    - `dry_run`: nothing is made or changed; the report and the errors are those that a copy would have, as
      far as looking tells: holes count as bytes, nothing is verified, and no disk is full.
    - `verify`: what was written is read back, from the disk where the kernel can, and compared with the
      source. A file that differs is a failure with errno EIO, and does not appear.
    - `bwlimit`: bytes that are written in a second; 0 (the default) is as many as can be.
    - `jobs`: threads; 0 (the default) is one for each CPU, 8 at most, and while sources are not in memory
      16, but of small files twice as many as CPUs, from 4 to 8.
    - `engine`: "threads", "uring" (a ring of io_uring for each thread, with up to 64 small and medium files
      in it; without io_uring nothing is copied, and the CopyError says why there is none), or "auto", the
      default: rings for `fsync="each"` and `verify`, where there are any, and threads for all else.
    - `progress`: called in the loop's thread every 0.1 s while the copy goes on, and once at its end. What it
      raises ends the copy.

    The copy has threads of its own and the loop goes on meanwhile. Cancelled, it ends in order: no file is
    left half written, and CancelledError comes when all threads have ended.

    Raises:
        CopyError: something was not copied, and the rest was; with `check=False` only the report says so.
        ValueError: a value that an option cannot have, here or together with another one.
        TypeError: a path of another type; a `progress` that would have to be awaited.
    """
    several = not isinstance(src, (str, bytes, os.PathLike))
    sources = [src] if isinstance(src, (str, bytes, os.PathLike)) else list(src)
    if into is None:
        into = several or await run(os.path.isdir, dst)
    elif several and not into:
        raise ValueError("several sources go into a directory")
    copying = Copying(
        sources,
        dst,
        into,
        progress is not None,
        recursive=recursive,
        preserve=as_list(preserve),
        exclude=as_list(exclude),
        include=as_list(include),
        dereference=dereference,
        update=update,
        backup=backup,
        link=link,
        sparse=sparse,
        reflink=reflink,
        fsync=fsync,
        force=force,
        in_place=in_place,
        resume=resume,
        one_file_system=one_file_system,
        attributes_only=attributes_only,
        keep_directory_symlink=keep_directory_symlink,
        dry_run=dry_run,
        verify=verify,
        bwlimit=bwlimit,
        jobs=jobs,
        engine=engine,
    )
    report = CopyReport(**await in_its_turn(copying, dst, progress))
    if check and report.errors:
        raise CopyError(report)
    return report


def as_list(words: Any) -> list[Any]:
    """One word is not taken for its letters."""
    return [words] if isinstance(words, (str, bytes)) else list(words)


async def in_its_turn(
    copying: Copying, dst: StrOrBytesPath, progress: Callable[[CopyProgress], object] | None
) -> Any:
    """Runs it once there are descriptors for it.

    The only copy, and one that has waited in vain, are tried all the same.
    """
    global _running
    descriptors = Reservation(DESCRIPTORS)
    try:
        if not descriptors.take() and _running > 0:
            with contextlib.suppress(OSError):
                await descriptors.wait(dst)
        _running += 1
        try:
            return await watched(copying, progress)
        finally:
            _running -= 1
    finally:
        descriptors.release()


async def watched(copying: Copying, progress: Callable[[CopyProgress], object] | None) -> Any:
    """Runs it in a thread of its own. Cancelled, it ends in order before this raises."""
    if progress is not None:
        if not callable(progress):
            raise TypeError(f"progress is a function, not {progress!r}")
        if any(map(inspect.iscoroutinefunction, (progress, type(progress).__call__))):
            raise TypeError("progress is called and not awaited: a coroutine function would never run")
    running = alone(copying.run)
    try:
        while not running.done():
            await asyncio.wait({running}, timeout=INTERVAL_S if progress else None)
            if progress:
                progress(CopyProgress(*copying.done()))
    except GeneratorExit:
        # Nobody is there to wait any more.
        copying.stop()
        raise
    except BaseException:
        copying.stop()
        await ended(running)
        raise
    return running.result()
