"""Text of many chunks in one call where Python decodes: before the first line end, and beyond ASCII."""

from __future__ import annotations

import asyncio
import fcntl
import os
import termios
from pathlib import Path
from typing import Any

import proactor
import pytest
from conftest import Run
from file_helpers import in_time, until
from proactor._text import TextFile

# 256 chunks or more.
LENGTH = 1 << 21
SHORT = "a line, or é\n"


@pytest.fixture
def joins(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How much was decoded each time that more was put behind it: all of that is copied."""
    lengths: list[int] = []
    original = TextFile._decode_more

    async def decode_more(self: TextFile, *arguments: Any, **options: Any) -> bool:
        lengths.append(len(self._decoded))
        return await original(self, *arguments, **options)

    monkeypatch.setattr(TextFile, "_decode_more", decode_more)
    return lengths


@pytest.mark.parametrize("newline", [None, "", "\n", "\r\n"])
@pytest.mark.parametrize("character", ["x", "é"])
def test_a_long_line_is_put_together_once(
    run: Run, tmp_path: Path, joins: list[int], character: str, newline: str | None
) -> None:
    path = tmp_path / "f"
    end = "\r\n" if newline == "\r\n" else "\n"
    path.write_bytes((character * LENGTH + end + "next" + end).encode())

    async def main() -> None:
        async with proactor.open(path, encoding="utf-8", newline=newline) as file:
            assert await file.readline() == character * LENGTH + end
            assert await file.readline() == "next" + end

    run(main())
    assert sum(joins) < 2 * LENGTH


@pytest.mark.parametrize("method", ["read", "readline", "readlines"])
def test_with_a_size(run: Run, tmp_path: Path, joins: list[int], method: str) -> None:
    path = tmp_path / "f"
    line = "é" * 100 + "\n"
    text = "é" * (2 * LENGTH) if method == "readline" else line * (2 * LENGTH // len(line))
    path.write_bytes(text.encode())

    async def main() -> None:
        async with proactor.open(path, encoding="utf-8") as file:
            found = await getattr(file, method)(LENGTH)
        with path.open(encoding="utf-8") as expected:
            assert found == getattr(expected, method)(LENGTH)

    run(main())
    assert sum(joins) < 3 * LENGTH


def unread(pipe: int) -> int:
    return int.from_bytes(fcntl.ioctl(pipe, termios.FIONREAD, bytes(4)), "little")


def test_a_cancelled_long_line_is_still_there(run: Run) -> None:
    async def main() -> None:
        reader, writer = os.pipe()
        async with proactor.open(reader, encoding="utf-8") as file:
            call = asyncio.ensure_future(file.readline())
            for _ in range(5):
                os.write(writer, "é".encode() * 5000)
                await until(lambda: unread(reader) == 0)
            call.cancel()
            await asyncio.gather(call, return_exceptions=True)
            os.write(writer, b"end\nnext\n")
            os.close(writer)
            assert await in_time(file.readline()) == "é" * 25_000 + "end\n"
            assert await in_time(file.readline()) == "next\n"

    run(main())


def test_a_position_in_a_long_line(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "f"
    path.write_bytes(("é" * 100_000 + "\n" + SHORT).encode())

    async def main() -> None:
        async with proactor.open(path, encoding="utf-8") as file:
            for size in (1, 50_000, 30_001):
                await file.read(size)
                mark = await file.tell()
                rest = await file.readline()
                assert await file.readline() == SHORT
                await file.seek(mark)
                assert await file.readline() == rest
                await file.seek(mark)

    run(main())
