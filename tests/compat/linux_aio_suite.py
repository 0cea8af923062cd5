"""What the tests of `proactor.compat.linux_aio` share."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any, ClassVar

import pytest
import rivals
from proactor.compat import linux_aio as ours
from rivals import rival

SHORT_NS = 10_000_000


def run(context: Any, *blocks: Any) -> list[Any]:
    """Submit and wait for all."""
    assert context.submit(*blocks) == len(blocks)
    events: list[Any] = []
    while len(events) < len(blocks):
        events += context.get_events(1, len(blocks))
    return events


def _patient(context: Any) -> Any:
    """The original's context, waiting again where anything interrupts it: the kernel's work on a ring that an
    earlier test has closed does."""

    class Patient(context):  # type: ignore[misc]
        def get_events(self, *args: Any, **kwargs: Any) -> Any:
            while True:
                try:
                    return super().get_events(*args, **kwargs)
                except InterruptedError:
                    continue

    return Patient


class Parity(rivals.Parity):
    ours: ClassVar[Any] = ours
    original = "linux_aio"

    def theirs(self) -> Any:
        """The package's public names, with the constants that the original keeps in its binding."""
        package = rival("linux_aio", "linux_aio package")
        binding = rival("linux_aio_bind", "linux_aio package")
        constants = (
            "IOCBFlag",
            "IOCBRWFlag",
            "IOCBPriorityClass",
            "IOCBCMD",
            "IOPRIO_CLASS_SHIFT",
            "gen_io_priority",
        )
        found = {name: getattr(package, name) for name in dir(package) if not name.startswith("_")}
        found |= {name: getattr(binding, name) for name in constants}
        found |= {"AIOEvent": package.aio_event.AIOEvent, "AIOBlock": package.block.AIOBlock}
        found["AIOContext"] = _patient(package.AIOContext)
        return SimpleNamespace(**found)

    @pytest.fixture
    def context(self, package: Any) -> Iterator[Any]:
        with package.AIOContext(8) as context:
            yield context
