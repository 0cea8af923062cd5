"""Lines that are much longer than a buffer, read as a whole, with a hint or in pieces.

Users saw `readlines()` of one line of 32 MB take nine seconds: every block looked at the whole line again.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import proactor
import pytest
from conftest import Run

KIB = 1 << 10
SHORT_BYTES = 512 * KIB
TIMES_LONGER = 16


async def all_lines(file: Any) -> None:
    assert len(await file.readlines()) == 2


async def lines_with_hint(file: Any) -> None:
    assert len(await file.readlines(1)) == 1


async def one_line(file: Any) -> None:
    assert (await file.readline())[-1:] in ("\n", b"\n")


async def iteration(file: Any) -> None:
    assert len([line async for line in file]) == 2


WAYS = [all_lines, lines_with_hint, one_line, iteration]
MODES: list[dict[str, Any]] = [
    {"mode": "rb"},
    {"mode": "r", "encoding": "utf-8"},
    {"mode": "r", "encoding": "utf-8", "newline": ""},
    {"mode": "r", "encoding": "utf-8", "newline": "\r\n"},
    {"mode": "r", "encoding": "utf-16-le"},
]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("mode", MODES, ids=lambda mode: "-".join(map(repr, mode.values())))
def test_a_long_line_takes_time_by_its_length(
    run: Run, tmp_path: Path, mode: dict[str, Any], way: Callable[[Any], Awaitable[None]]
) -> None:
    def made(length: int) -> Path:
        path = tmp_path / str(length)
        text = "x" * length + "\r\n" + "end\r\n"
        path.write_bytes(text.encode(mode.get("encoding", "utf-8")))
        return path

    async def seconds(path: Path) -> float:
        async with proactor.open(path, **mode) as file:
            begun = time.process_time()
            await way(file)
            return time.process_time() - begun

    short, long = made(SHORT_BYTES), made(TIMES_LONGER * SHORT_BYTES)
    # The best of some: others use the machine. A quadratic search takes TIMES_LONGER squared.
    base = min(run(seconds(short)) for _ in range(5))
    assert any(run(seconds(long)) < 5 * TIMES_LONGER * max(base, 1e-3) for _ in range(3))
