"""A copy in shards, for trees that are too big for one machine: plan, run each shard somewhere, finish."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

from proactor._copying import CopyError, CopyProgress, CopyReport, Preserved, as_list, in_its_turn
from proactor._files import StrOrBytesPath
from proactor._native import Copying


@dataclass(frozen=True)
class CopyPlan:
    """A copy of one directory, in parts for machines that have the same files under the same paths.

    It is a value: it can be stored and sent as `json`, pickled and compared, and is small, whatever the tree.
    What else it has is read from that, with a ValueError where that is not the plan of a copy.
    """

    json: str
    """All of it."""

    @cached_property
    def _fields(self) -> dict[str, Any]:
        # Made and not run, which checks all of it.
        Copying.finishing(self.json)
        fields = json.loads(self.json)
        assert isinstance(fields, dict)
        return fields

    @property
    def shards(self) -> int:
        """How many there are, known as 0, 1 and so on."""
        return len(self._fields["shards"])

    @property
    def source(self) -> str:
        return _path(self._fields["source"])

    @property
    def target(self) -> str:
        return _path(self._fields["target"])

    @property
    def entries(self) -> int:
        """What was there when it was planned."""
        return sum(shard["entries"] for shard in self._fields["shards"])

    @property
    def bytes(self) -> int:
        """The same, of the contents of files."""
        return sum(shard["bytes"] for shard in self._fields["shards"])


def _path(text: str | list[int]) -> str:
    return os.fsdecode(bytes(text)) if isinstance(text, list) else text


async def copy_plan(
    src: StrOrBytesPath,
    dst: StrOrBytesPath,
    *,
    shards: int = 64,
    preserve: Preserved = ("all",),
    exclude: Iterable[str | bytes] = (),
    include: Iterable[str | bytes] = (),
    dereference: Literal["never", "command-line", "always"] = "never",
    link: Literal["none", "hard", "symbolic"] = "none",
    sparse: Literal["auto", "always", "never"] = "auto",
    reflink: Literal["auto", "always", "never"] = "auto",
    fsync: Literal["none", "end", "each"] = "none",
    one_file_system: bool = False,
    attributes_only: bool = False,
    verify: bool = False,
    bwlimit: int = 0,
    jobs: int = 0,
    engine: Literal["auto", "threads", "uring", "io_uring"] = "auto",
) -> CopyPlan:
    """Walks the directory `src`, and plans how to copy it to the name `dst`, in at most so many `shards`.

    `dst` must be free and is the copy's name, never a directory to copy into. Its directories are made, under
    a name beside it. Two to three shards for each worker keep all of them busy until the end; a file is
    never split.

    The options are those of `copy`; `jobs` and `bwlimit` are for each shard, when it is run. Cancelled,
    nothing is left.

    Raises:
        OSError: the source is not to be read, is no directory (NotADirectoryError), or the target exists
            (FileExistsError). What cannot be read below the source is told by the shard that meets it.
        ValueError: an option that does not exist.
    """
    planning = Copying.planning(
        src,
        dst,
        shards,
        preserve=as_list(preserve),
        exclude=as_list(exclude),
        include=as_list(include),
        dereference=dereference,
        link=link,
        sparse=sparse,
        reflink=reflink,
        fsync=fsync,
        one_file_system=one_file_system,
        attributes_only=attributes_only,
        verify=verify,
        bwlimit=bwlimit,
        jobs=jobs,
        engine=engine,
    )
    planned = await in_its_turn(planning, dst, None)
    assert isinstance(planned, str)
    return CopyPlan(planned)


async def copy_shard(
    plan: CopyPlan,
    shard: int,
    *,
    progress: Callable[[CopyProgress], object] | None = None,
    check: bool = True,
) -> CopyReport:
    """Copies a shard of a plan.

    One that is done has its report returned at once. One that was ended in the middle, wherever it was, goes
    on; one that failed in part tries that again. It may be run twice at the same time.

    Cancelled, it ends in order, and is not done.

    Raises:
        CopyError: something was not copied, and the rest was; with `check=False` only the report says so. The
            shard is done all the same.
        OSError: source or target cannot be reached, or are not those of the plan: is anything mounted there?
        ValueError: not a plan, or one without such a shard.
    """
    return await _report(Copying.shard(plan.json, shard, progress is not None), plan, progress, check)


async def copy_finish(
    plan: CopyPlan,
    *,
    progress: Callable[[CopyProgress], object] | None = None,
    check: bool = True,
) -> CopyReport:
    """Gives the directories of a copy their metadata and the tree its name, when all shards are done.

    The report counts what all shards have done; its `errors` are those of this step. Cancelled, it ends in
    order, and can be called again.

    Raises:
        CopyError: something could not be done here; with `check=False` only the report says so.
        OSError: EBUSY if shards are not done (the message has which), or what `copy_shard` raises.
        ValueError: not a plan.
    """
    return await _report(Copying.finishing(plan.json, progress is not None), plan, progress, check)


async def _report(
    copying: Copying, plan: CopyPlan, progress: Callable[[CopyProgress], object] | None, check: bool
) -> CopyReport:
    report = CopyReport(**await in_its_turn(copying, plan.target, progress))
    if check and report.errors:
        raise CopyError(report)
    return report
