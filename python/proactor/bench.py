"""`proactor bench` from Python: which way of doing I/O, for this work, on this machine?

    report = proactor.bench.run(engine=["sync", "io_uring"], iodepth=[1, 64], runtime=1)
    for verdict in report.verdicts:
        print(verdict.work, verdict.text)
    frame = pandas.DataFrame(report.rows())

The measurement is a process of its own, so that neither this interpreter's memory nor its threads are in its
numbers.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias, TypeVar

__all__ = ["BenchError", "Cell", "Entry", "Report", "Round", "Verdict", "load", "run", "run_cp", "run_files"]

_T = TypeVar("_T")
_Some: TypeAlias = _T | Sequence[_T] | None

FORMAT = "proactor-bench-1"


class BenchError(Exception):
    """What was asked for cannot be done here, in the command's words."""


@dataclass(frozen=True)
class Round:
    """One round of a cell. Times are in seconds."""

    elapsed_s: float
    ios: int
    bytes: int
    iops: float
    bytes_per_s: float
    p50_s: float
    p90_s: float
    p99_s: float
    p999_s: float
    max_s: float
    user_s: float
    system_s: float
    voluntary: int
    involuntary: int
    device_read_bytes: int | None
    """Bytes that the device was asked for on behalf of the process; None where the kernel does not tell."""
    submissions: int | None
    """How often ops were handed over to the engine, together or one by one; None of what is no engine."""
    peak_rss_bytes: int | None
    raw: Mapping[str, Any] = field(repr=False, compare=False)
    """All of it, as in the report's JSON."""


@dataclass(frozen=True)
class Cell:
    """One engine doing one kind of work."""

    engine: str
    rw: str
    size: int
    bs: int
    iodepth: int
    numjobs: int
    direct: bool
    rounds: tuple[Round, ...]
    failed: str | None
    """Why there are no more rounds."""
    calls_per_op: float | None
    """System calls for each read or write; None where they were not counted."""
    calls: Mapping[str, int]
    """System calls of the round that was counted, by name; `other` are those without one here."""
    raw: Mapping[str, Any] = field(repr=False, compare=False)
    """All of it, as in the report's JSON."""

    @property
    def iops(self) -> float:
        """The median of the rounds. Raises `statistics.StatisticsError` if there is none."""
        return statistics.median(each.iops for each in self.rounds)

    @property
    def bytes_per_s(self) -> float:
        """The median of the rounds. Raises `statistics.StatisticsError` if there is none."""
        return statistics.median(each.bytes_per_s for each in self.rounds)

    @property
    def p99_s(self) -> float:
        """The median of the rounds. Raises `statistics.StatisticsError` if there is none."""
        return statistics.median(each.p99_s for each in self.rounds)


@dataclass(frozen=True)
class Entry:
    """A package or a program with a task: of `run_files` and `run_cp`."""

    contender: str
    task: str
    cache: str
    """What each round found in the page cache: `dropped`, `warmed` or `left`."""
    rounds: tuple[Round, ...]
    failed: str | None
    """Why there are no more rounds."""
    calls_per_op: float | None
    """System calls for each file, read or line; None where they were not counted."""
    calls: Mapping[str, int]
    """System calls of the round that was counted, by name; `other` are those without one here."""
    raw: Mapping[str, Any] = field(repr=False, compare=False)
    """All of it, as in the report's JSON."""

    @property
    def elapsed_s(self) -> float:
        """The median of the rounds. Raises `statistics.StatisticsError` if there is none."""
        return statistics.median(each.elapsed_s for each in self.rounds)


@dataclass(frozen=True)
class Verdict:
    """Which engine for one kind of work."""

    work: str
    measure: str
    best: tuple[str, ...]
    """The engines that no other one is shown to beat, the best median first."""
    text: str


@dataclass(frozen=True)
class Report:
    """All that was measured."""

    cells: tuple[Cell, ...]
    """Of `run`."""
    entries: tuple[Entry, ...]
    """Of `run_files` and `run_cp`."""
    verdicts: tuple[Verdict, ...]
    environment: Mapping[str, Any]
    command: tuple[str, ...]
    interrupted: bool
    raw: Mapping[str, Any] = field(repr=False, compare=False)
    """All of it, as `proactor bench io --json` writes it."""

    def rows(self) -> list[dict[str, Any]]:
        """A flat dictionary for each round of each cell or entry: what a data frame is made of."""
        rows = []
        every: list[Cell | Entry] = [*self.cells, *self.entries]
        for cell in every:
            work = {name: cell.raw["cell"][name] for name in cell.raw["cell"]}
            for number, each in enumerate(cell.rounds, 1):
                numbers = {name: value for name, value in vars(each).items() if name != "raw"}
                rows.append({**work, "round": number, **numbers, "calls_per_op": cell.calls_per_op})
        return rows


def run(
    *,
    preset: str | None = None,
    task: str | None = None,
    job_file: str | os.PathLike[str] | None = None,
    engine: _Some[str] = None,
    rw: _Some[str] = None,
    size: _Some[str | int] = None,
    bs: _Some[str | int] = None,
    bs_of_writes: str | int | None = None,
    iodepth: _Some[int] = None,
    numjobs: _Some[int] = None,
    direct: _Some[bool] = None,
    iodepth_batch: int | None = None,
    iodepth_batch_complete_max: int | None = None,
    thinktime: _Some[int] = None,
    fsync: int | None = None,
    end_fsync: bool | None = None,
    rwmixread: int | None = None,
    io_size: str | int | None = None,
    loops: int | None = None,
    rate_iops: int | None = None,
    norandommap: bool = False,
    runtime: float | None = None,
    time_based: bool | None = None,
    ramp_time: float | None = None,
    rounds: int | None = None,
    quick: bool = False,
    directory: str | os.PathLike[str] | None = None,
    filename: str | os.PathLike[str] | None = None,
    use_existing: bool = False,
    invalidate: bool | None = None,
    pre_read: bool | None = None,
    verify: bool = False,
    seed: int | None = None,
    counters: str = "auto",
) -> Report:
    """Measures, and returns the report.

    The options are those of `proactor bench io` (docs/bench.md), and so are the defaults; several values
    mean every combination. `runtime` and `ramp_time` are in seconds, `thinktime` in microseconds, sizes in
    bytes or as fio writes them.

    Blocks until it is done. Raises BenchError if what was asked for cannot be done here, before anything is
    written; a cell that fails on the way says so in `failed`. KeyboardInterrupt ends the measurement, and
    nothing is left.
    """
    options = {
        "preset": preset,
        "task": task,
        "engine": engine,
        "rw": rw,
        "size": size,
        "bs": bs,
        "bs_of_writes": bs_of_writes,
        "iodepth": iodepth,
        "numjobs": numjobs,
        "direct": direct,
        "iodepth_batch": iodepth_batch,
        "iodepth_batch_complete_max": iodepth_batch_complete_max,
        "thinktime": thinktime,
        "fsync": fsync,
        "end_fsync": end_fsync,
        "rwmixread": rwmixread,
        "io_size": io_size,
        "loops": loops,
        "rate_iops": rate_iops,
        "runtime": _milliseconds(runtime),
        "time_based": time_based,
        "ramp_time": _milliseconds(ramp_time),
        "rounds": rounds,
        "directory": directory,
        "filename": filename,
        "invalidate": invalidate,
        "pre_read": pre_read,
        "seed": seed,
        "counters": counters,
    }
    flags = {"norandommap": norandommap, "quick": quick, "use-existing": use_existing, "verify": verify}
    arguments = _arguments(options, flags)
    if job_file is not None:
        arguments += ["--", os.fspath(job_file)]
    return _measured("io", arguments)


def run_files(
    *,
    task: _Some[str] = None,
    only: _Some[str] = None,
    verify: bool = False,
    rounds: int | None = None,
    quick: bool = False,
    directory: str | os.PathLike[str] | None = None,
    cache: str | None = None,
    seed: int | None = None,
    counters: str = "auto",
) -> Report:
    """Measures asyncio's ways to files, ours and those installed here, and returns the report.

    The options are those of `proactor bench files` (docs/bench.md), and so are the defaults. Blocks until it
    is done. Raises BenchError if what was asked for cannot be done here; one that fails on the way says so in
    `failed`. KeyboardInterrupt ends the measurement, and nothing is left.
    """
    options = {
        "task": task,
        "only": only,
        "rounds": rounds,
        "directory": directory,
        "cache": cache,
        "seed": seed,
        "counters": counters,
    }
    return _measured("files", _arguments(options, {"verify": verify, "quick": quick}))


def run_cp(
    *,
    tree: _Some[str] = None,
    source: str | os.PathLike[str] | None = None,
    only: _Some[str] = None,
    also: Sequence[str] = (),
    end_fsync: bool | None = None,
    rounds: int | None = None,
    quick: bool = False,
    directory: str | os.PathLike[str] | None = None,
    cache: str | None = None,
    seed: int | None = None,
    counters: str = "auto",
) -> Report:
    """Measures the copiers of trees that are here, and returns the report.

    The options are those of `proactor bench cp` (docs/bench.md), and so are the defaults; `also` are commands
    to which source and target are appended. Blocks until it is done. Raises BenchError if what was asked for
    cannot be done here; a copier that fails, or whose copy is wrong, says so in `failed`. KeyboardInterrupt
    ends the measurement, and nothing is left.
    """
    options = {
        "tree": tree,
        "source": source,
        "only": only,
        "end_fsync": end_fsync,
        "rounds": rounds,
        "directory": directory,
        "cache": cache,
        "seed": seed,
        "counters": counters,
    }
    arguments = [f"--also={command}" for command in also]
    return _measured("cp", [*arguments, *_arguments(options, {"quick": quick})])


def load(path: str | os.PathLike[str]) -> Report:
    """What `proactor bench io --json=path` has written. Raises OSError, and ValueError for another file."""
    with open(path, encoding="utf-8") as file:
        raw = json.load(file)
    if not isinstance(raw, dict) or raw.get("format") != FORMAT:
        raise ValueError(f"{os.fspath(path)}: no report in the format {FORMAT}")
    try:
        return _report(raw)
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"{os.fspath(path)}: a report that is damaged: {error!r}") from error


def _arguments(options: Mapping[str, object], flags: Mapping[str, bool]) -> list[str]:
    arguments = [f"--{name}={_text(value)}" for name, value in options.items() if value is not None]
    return arguments + [f"--{name}" for name, wanted in flags.items() if wanted]


def _measured(what: str, arguments: Sequence[str]) -> Report:
    command = [sys.executable, "-m", "proactor", "bench", what, "--json", "--progress=never", *arguments]
    with subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        # A terminal's Ctrl-C would reach it too, and a second signal ends it before it has tidied up.
        start_new_session=True,
    ) as process:
        try:
            report, said = process.communicate()
        except BaseException:
            # It removes what it has made; a kill would leave that, and another Ctrl-C is one.
            process.terminate()
            try:
                process.communicate()
            finally:
                process.kill()
            raise
    if not report:
        raise BenchError(said.strip() or f"the benchmark ended with {process.returncode}")
    return _report(json.loads(report))


def _milliseconds(seconds: float | None) -> str | None:
    return None if seconds is None else f"{round(seconds * 1000)}ms"


def _text(value: object) -> str:
    """As the command takes it."""
    if isinstance(value, bool):
        return str(int(value))
    if isinstance(value, (str, int)):
        return str(value)
    if isinstance(value, (bytes, os.PathLike)):
        return os.fsdecode(value)
    if isinstance(value, Sequence):
        return ",".join(map(_text, value))
    raise TypeError(f"{value!r}: neither a value nor a sequence of them")


def _report(raw: dict[str, Any]) -> Report:
    return Report(
        cells=tuple(_cell(each) for each in raw["cells"] if "engine" in each["cell"]),
        entries=tuple(_entry(each) for each in raw["cells"] if "contender" in each["cell"]),
        verdicts=tuple(
            Verdict(each["work"], each["measure"], tuple(each["best"]), each["text"])
            for each in raw["verdicts"]
        ),
        environment=raw["environment"],
        command=tuple(raw["command"]),
        interrupted=raw["interrupted"],
        raw=raw,
    )


def _cell(raw: dict[str, Any]) -> Cell:
    what = raw["cell"]
    return Cell(
        **{name: what[name] for name in ("engine", "rw", "size", "bs", "iodepth", "numjobs", "direct")},
        rounds=tuple(_round(each) for each in raw["rounds"]),
        **_common(raw),
    )


def _entry(raw: dict[str, Any]) -> Entry:
    what = raw["cell"]
    return Entry(
        **{name: what[name] for name in ("contender", "task", "cache")},
        rounds=tuple(_round(each) for each in raw["rounds"]),
        **_common(raw),
    )


def _common(raw: dict[str, Any]) -> dict[str, Any]:
    counted = raw["counted"]
    calls = {**counted["calls"]["by_name"], "other": counted["calls"]["other"]} if counted else {}
    return {
        "failed": raw["failed"],
        "calls_per_op": counted["calls"]["total"] / max(counted["ios"], 1) if counted else None,
        "calls": calls,
        "raw": raw,
    }


def _round(raw: dict[str, Any]) -> Round:
    every, used = raw["all"], raw["used"]
    times = {name: every[name] for name in ("p50_s", "p90_s", "p99_s", "p999_s", "max_s")}
    costs = ("user_s", "system_s", "voluntary", "involuntary", "peak_rss_bytes")
    return Round(
        elapsed_s=raw["elapsed_s"],
        ios=every["ios"],
        bytes=every["bytes"],
        iops=every["iops"],
        bytes_per_s=every["bytes_per_s"],
        **times,
        **{name: used[name] for name in costs},
        device_read_bytes=used["process_read_bytes"],
        submissions=raw.get("submissions"),
        raw=raw,
    )
