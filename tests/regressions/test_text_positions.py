"""Positions of text files, against those of `io`: they are the same numbers.

Users saw positions in stateful encodings and among carriage returns that `io` refused, and positions of `io`
that led to another place here.
"""

from __future__ import annotations

import itertools
import random
from pathlib import Path
from typing import Any

import proactor
import pytest
from conftest import Run

ENCODINGS = [
    *("utf-8", "utf-8-sig", "utf-16", "utf-16-be", "utf-32", "utf-7", "ascii", "latin-1", "cp1252"),
    *("gb18030", "shift_jis", "euc_jp", "hz", "big5"),
]
NEWLINES = [None, "", "\n", "\r", "\r\n"]
LETTERS = {"utf": "ab é☃😀", "ascii": "ab ~", "latin-1": "abé", "cp1252": "ab€"}
# Steps that end within a chunk, at its end, and behind the next.
STEPS: list[tuple[str, int]] = [
    *[("read", size) for size in (0, 1, 2, 3, 7, 100, 5000, 9000, 20000)],
    *[("readline", size) for size in (-1, -1, -1, 0, 3)],
]


def made(encoding: str, seed: int) -> bytes:
    rng = random.Random(seed)
    letters = LETTERS.get("utf" if encoding.startswith("utf") else encoding, "ab~日本")
    ends = ["\n", "\r\n", "\r", "\n\n", "\r\r\n", "\n\r"]
    parts = []
    for _ in range(900):
        parts.append("".join(rng.choices(letters, k=rng.randrange(40))) + rng.choice(ends))
    return "".join(parts).encode(encoding)


@pytest.mark.parametrize("newline", NEWLINES)
@pytest.mark.parametrize("encoding", ENCODINGS)
def test_the_same_numbers(run: Run, tmp_path: Path, encoding: str, newline: str | None) -> None:
    path = tmp_path / "f"
    path.write_bytes(made(encoding, 1))
    rng = random.Random(f"{encoding} {newline!r}")
    options: dict[str, Any] = {"encoding": encoding, "newline": newline}

    async def main() -> None:
        places = [0]
        async with proactor.open(path, **options) as ours:
            with path.open(**options) as theirs:
                for _ in range(150):
                    name, size = rng.choice(STEPS)
                    assert await getattr(ours, name)(size) == getattr(theirs, name)(size)
                    if rng.random() < 0.5:
                        place = theirs.tell()
                        assert await ours.tell() == place, (name, size)
                        places.append(place)
                    if rng.random() < 0.4:
                        place = rng.choice(places)
                        assert await ours.seek(place) == theirs.seek(place) == place

    run(main())


@pytest.mark.parametrize(
    ("encoding", "errors"),
    [
        *itertools.product(["utf-8", "ascii", "gb18030"], ["replace", "ignore", "surrogateescape"]),
        *itertools.product(["utf-8", "utf-16-le"], ["ignore", "backslashreplace"]),
    ],
)
def test_among_bytes_that_are_no_characters(run: Run, tmp_path: Path, encoding: str, errors: str) -> None:
    path = tmp_path / "f"
    rng = random.Random(2)
    content = bytearray(made(encoding, 3)[:3000])
    for _ in range(60):
        content[rng.randrange(len(content))] = rng.randrange(128, 256)
    path.write_bytes(content)

    async def main() -> None:
        async with proactor.open(path, encoding=encoding, errors=errors) as ours:
            with path.open(encoding=encoding, errors=errors) as theirs:
                while (text := theirs.read(rng.randrange(1, 6))) and (place := theirs.tell()) is not None:
                    assert await ours.read(len(text)) == text
                    assert await ours.tell() == place
                    assert await ours.seek(place) == theirs.seek(place)

    run(main())


def test_a_position_has_the_layout_of_io(run: Run, tmp_path: Path) -> None:
    """Bytes to be fed and characters to be skipped: between the two of one step of the decoder."""
    path = tmp_path / "f"
    path.write_bytes(b"ab\xe4\xbdc\n")

    async def main() -> None:
        with path.open(encoding="utf-8", errors="replace", newline="\n") as theirs:
            theirs.read(3)
            place = theirs.tell()
            assert place >> 64
        async with proactor.open(path, encoding="utf-8", errors="replace", newline="\n") as ours:
            assert await ours.read(3) == "ab\ufffd"
            assert await ours.tell() == place
            await ours.seek(0)
            await ours.seek(place)
            assert await ours.read() == "c\n"
            for wrong in (-1, 1 << 168):
                with pytest.raises((ValueError, OverflowError)):
                    await ours.seek(wrong)

    run(main())


def test_after_a_step_of_an_iteration_there_is_a_position_all_the_same(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "f"
    path.write_bytes(made("utf-8", 4))

    async def main() -> None:
        async with proactor.open(path, encoding="utf-8") as file:
            places, lines = [], []
            async for line in file:
                lines.append(line)
                places.append(await file.tell())
            for at in (0, 5, 300, 700):
                await file.seek(places[at])
                assert await file.readline() == lines[at + 1]

    run(main())
