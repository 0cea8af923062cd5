"""Writes to a file that is being iterated.

Users saw the lines lost that a text file had read ahead; an empty write was enough. `io` keeps them from
Python 3.13 on.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import proactor
import pytest
from conftest import Run

LINES = ["a", "b", "", "é☃", "last"]
# With what is decoded natively, and with what is not.
ENCODINGS = ["utf-8", "latin-1", "utf-16-le", "gb18030"]


def text_of(encoding: str, times: int, end: str = "\n") -> str:
    lines = ["a", "b", "", "last"] if encoding == "latin-1" else LINES
    return "".join(line + end for line in lines) * times


@pytest.mark.parametrize("times", [1, 100])
@pytest.mark.parametrize("newline", [None, "", "\n", "\r\n"])
@pytest.mark.parametrize("encoding", ENCODINGS)
def test_every_line_is_seen_and_kept(
    run: Run, engine: str, tmp_path: Path, encoding: str, newline: str | None, times: int
) -> None:
    path = tmp_path / "f"
    end = "\r\n" if newline == "\r\n" else "\n"
    text = text_of(encoding, times, end)
    path.write_bytes(text.encode(encoding))

    async def main() -> None:
        seen = []
        async with proactor.open(path, "r+", encoding=encoding, newline=newline, engine=engine) as file:
            async for line in file:
                seen.append(line)
                # Until it sees what it has written.
                if len(seen) == text.count("\n"):
                    break
                await file.write("")
            assert "".join(seen) == text
            await file.write("more")
        end_of_file = path.read_bytes().decode(encoding)
        assert end_of_file == text + "more"

    run(main())


def test_what_is_written_comes_after_what_was_read(run: Run, engine: str, tmp_path: Path) -> None:
    path = tmp_path / "f"
    path.write_text("a\nb\nc\n")

    async def main() -> None:
        seen: list[Any] = []
        async with proactor.open(path, "r+", engine=engine) as file:
            async for line in file:
                seen.append(line)
                await file.write(line.upper())
        assert seen == ["a\n", "b\n", "c\n"]

    run(main())
    assert path.read_text() == "a\nb\nc\nA\nB\nC\n"


def test_after_a_readline_a_write_forgets_what_was_read_ahead(run: Run, tmp_path: Path) -> None:
    """So does `io`: only an iteration keeps it."""
    path = tmp_path / "f"
    path.write_text("a\nb\nc\n")

    async def main() -> list[str]:
        async with proactor.open(path, "r+") as file:
            first = await file.readline()
            await file.write("")
            return [first, *[line async for line in file]]

    with path.open("r+") as file:
        expected = [file.readline(), file.write(""), *file]
    assert run(main()) == [expected[0], *expected[2:]]


def test_bytes(run: Run, engine: str, tmp_path: Path) -> None:
    """A binary file writes where it is read."""
    path, theirs = tmp_path / "f", tmp_path / "g"
    for target in (path, theirs):
        target.write_bytes(b"a\nb\nc\nd\n")

    async def main() -> None:
        async with proactor.open(path, "r+b", engine=engine) as file:
            async for line in file:
                await file.write(line.upper())

    run(main())
    with theirs.open("r+b") as file:
        for line in file:
            file.write(line.upper())
    assert path.read_bytes() == theirs.read_bytes()
