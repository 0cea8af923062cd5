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


# 1,024 lines: what is decoded at a time.
CHUNK = b"".join(b"%07d\n" % number for number in range(1024))


def test_half_a_character_that_was_read_ahead_stays(run: Run, engine: str, tmp_path: Path) -> None:
    """After a flush, the next step is one of an iteration again, also if its line was decoded before."""
    path = tmp_path / "f"
    text = CHUNK[:-1].decode() + "é\n" + CHUNK.decode()
    path.write_text(text, encoding="utf-8")

    async def main() -> list[str]:
        async with proactor.open(path, "r+", encoding="utf-8", engine=engine) as file:
            first = await file.__anext__()
            await file.flush()
            second = await file.__anext__()
            await file.write("")
            return [first, second, *[line async for line in file]]

    assert "".join(run(main())) == text


def test_chunks_that_a_readline_has_read_are_forgotten(run: Run, engine: str, tmp_path: Path) -> None:
    """Also if an iteration has read those before them; as in `io`."""
    path = tmp_path / "f"
    path.write_bytes(CHUNK * 4)

    async def main() -> list[Any]:
        async with proactor.open(path, "r+", encoding="utf-8", engine=engine) as file:
            first = await file.__anext__()
            await file.flush()
            lines = [await file.readline() for _ in range(1500)]
            await file.write("")
            return [first, *lines, await file.readline()]

    with path.open("r+", encoding="utf-8") as file:
        first = next(file)
        file.flush()
        lines = [file.readline() for _ in range(1500)]
        file.write("")
        expected = [first, *lines, file.readline()]
    assert run(main()) == expected


def test_a_write_goes_behind_as_much_as_io_reads_ahead(run: Run, engine: str, tmp_path: Path) -> None:
    """Which it reckons from the bytes for each character in the chunk before."""
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    three_for_two = b"x\r\n" * 2730 + b"x\n"
    for path in (ours, theirs):
        path.write_bytes(three_for_two + CHUNK * 40)

    async def main() -> list[Any]:
        async with proactor.open(ours, "r+", encoding="utf-8", engine=engine) as file:
            lines: list[Any] = [await file.readline() for _ in range(2731 + 500)]
            return [*lines, await file.read(30_000), await file.write("here")]

    with theirs.open("r+", encoding="utf-8") as file:
        lines = [file.readline() for _ in range(2731 + 500)]
        expected = [*lines, file.read(30_000), file.write("here")]
    assert run(main()) == expected
    assert ours.read_bytes() == theirs.read_bytes()


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
