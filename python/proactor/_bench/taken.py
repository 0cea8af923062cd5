"""What a contender has read: how often, how much, how long each took, and a sum over the bytes."""

from __future__ import annotations

import time
import zlib
from dataclasses import dataclass, field
from typing import Any

now_ns = time.perf_counter_ns


@dataclass
class Taken:
    """`verify`: also a sum over the bytes that does not depend on the order of the reads."""

    verify: bool = False
    ops: int = 0
    bytes: int = 0
    checksum: int = 0
    latencies_ns: list[int] = field(default_factory=list)

    def took(self, begin_ns: int, data: Any) -> None:
        """What was read since then."""
        self.latencies_ns.append(now_ns() - begin_ns)
        self.add(data)

    def add(self, data: Any) -> None:
        """What was read, in a time that is not told."""
        self.ops += 1
        self.bytes += len(data)
        if self.verify:
            self.checksum += zlib.crc32(data)
