"""What a stretch of work costs this process, and how late it makes the event loop."""

from __future__ import annotations

import asyncio
import inspect
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, TypeVar

Item = TypeVar("Item")
Measured = dict[str, Any]

# Between two looks at the lateness of a loop. A selector rounds its timeout up to whole milliseconds, so less
# would measure that.
TICK_S = 0.002


@dataclass
class Lateness:
    """How late the event loop runs what is due: a tick each `period_s`, and by how much each was missed.

    A loop that is blocked for a while runs one late tick and none of those that were due meanwhile. They are
    counted as late as they would have been, or a long pause would look like one late tick among good ones.
    """

    period_s: float = TICK_S
    late_s: list[float] = field(default_factory=list)

    @contextmanager
    def watch(self) -> Iterator[None]:
        """Inside a coroutine: around what is measured."""
        loop = asyncio.get_running_loop()
        self._due = loop.time() + self.period_s
        handle = loop.call_at(self._due, self._tick, loop)
        self._handle: asyncio.Handle = handle
        try:
            yield
        finally:
            self._handle.cancel()
            # What was due before the end and never ran.
            self._note(loop.time())

    def _note(self, now: float) -> None:
        while self._due <= now:
            self.late_s.append(now - self._due)
            self._due += self.period_s

    def _tick(self, loop: asyncio.AbstractEventLoop) -> None:
        self._note(loop.time())
        self._handle = loop.call_at(self._due, self._tick, loop)

    @property
    def max_s(self) -> float:
        return max(self.late_s, default=0.0)

    @property
    def p99_s(self) -> float:
        ordered = sorted(self.late_s)
        return ordered[int(len(ordered) * 0.99)] if ordered else 0.0


class Costs:
    """Adds up what stretches of work cost this process: `with costs.counted(): work()`.

    To count system calls makes each take about 0.1 us longer, so what makes many is timed without, and
    counted in a cell of its own.
    """

    def __init__(self, *, system_calls: bool, calls_by_name: bool = False) -> None:
        self._count_system_calls = system_calls
        self._by_name = calls_by_name
        self.wall_s = self.user_s = self.system_s = 0.0
        self.switches = self.voluntary = self.involuntary = self.device_read_bytes = 0
        self.calls_by_name: Measured | None = None
        """Of the last stretch, of this thread and those that it has started meanwhile."""
        self.system_calls: int | None = 0
        self.no_system_calls: str | None = None

    @contextmanager
    def counted(self) -> Iterator[None]:
        from proactor import _native

        counters = _native.Counters(system_calls=self._count_system_calls, by_name=self._by_name)
        start = time.perf_counter()
        try:
            yield
        finally:
            self.wall_s += time.perf_counter() - start
            counts = counters.stop()
            self.user_s += counts["user_s"]
            self.system_s += counts["system_s"]
            self.switches += counts["context_switches"]
            self.voluntary += counts["voluntary"]
            self.involuntary += counts["involuntary"]
            self.calls_by_name = counts["calls_by_name"]
            self.device_read_bytes += counts["device_read_bytes"]
            if counts["system_calls"] is None:
                self.system_calls, self.no_system_calls = None, counts["system_calls_unavailable"]
            elif self.system_calls is not None:
                self.system_calls += counts["system_calls"]

    def as_dict(self) -> Measured:
        return {key: value for key, value in vars(self).items() if not key.startswith("_")}


def timed(
    work: Callable[..., Any],
    *args: Any,
    tick_s: float = TICK_S,
    system_calls: bool = False,
    calls_by_name: bool = False,
) -> tuple[Any, Measured]:
    """What `work(*args)` returns, and what it cost; a coroutine function on a loop, with its lateness."""
    costs = Costs(system_calls=system_calls, calls_by_name=calls_by_name)
    lateness = Lateness(tick_s)

    async def on_a_loop() -> Any:
        with costs.counted(), lateness.watch():
            return await work(*args)

    if inspect.iscoroutinefunction(work):
        found = asyncio.run(on_a_loop())
        return found, {**costs.as_dict(), "late_max_s": lateness.max_s}
    with costs.counted():
        found = work(*args)
    return found, {**costs.as_dict(), "late_max_s": None}


async def by_workers(items: Iterable[Item], count: int, work: Callable[[Item], Awaitable[Any]]) -> list[Any]:
    """`work` on each item, `count` at once: what it returned, in no order."""
    left, found = iter(items), []

    async def worker() -> None:
        for item in left:
            found.append(await work(item))

    await asyncio.gather(*(worker() for _ in range(count)))
    return found
