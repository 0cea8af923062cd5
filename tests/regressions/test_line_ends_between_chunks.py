"""A line end of two characters that lies in two chunks ends one line, as in `io`.

A search that goes on behind the first of them finds the next line's end instead, and gives two lines as one.
"""

from __future__ import annotations

from pathlib import Path

import proactor
import pytest
from conftest import Run

# The text layer of `io` and ours read by this.
CHUNK_BYTES = 8192
NEWLINES = [None, "", "\n", "\r", "\r\n"]
TAILS = [b"tail\r\n", b"b" * 9000 + b"\r\nlast\r\n", b""]


@pytest.mark.parametrize("newline", NEWLINES)
@pytest.mark.parametrize("chunks", [1, 2, 5])
@pytest.mark.parametrize("before", [b"", b"first\r\n" * 3])
def test_split_line_end(run: Run, tmp_path: Path, newline: str | None, chunks: int, before: bytes) -> None:
    path = tmp_path / "lines"

    async def by_readline() -> list[str]:
        lines = []
        async with proactor.open(path, newline=newline, encoding="ascii") as file:
            while line := await file.readline():
                lines.append(line)
        return lines

    async def by_iteration() -> list[str]:
        async with proactor.open(path, newline=newline, encoding="ascii") as file:
            return [line async for line in file]

    for tail in TAILS:
        # The carriage return is the last byte of a chunk, the line feed the first of the next one.
        path.write_bytes(before + b"a" * (chunks * CHUNK_BYTES - 1 - len(before)) + b"\r\n" + tail)
        with path.open(newline=newline, encoding="ascii") as plain:
            wanted = plain.readlines()
        assert (run(by_readline()), run(by_iteration())) == (wanted, wanted)
