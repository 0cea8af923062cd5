"""After text that cannot be decoded, a file is where that of `io` is, and reads on as it does."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any

import proactor
import pytest
from conftest import Run
from proactor.compat import aiofiles

# An encoding, and bytes that are no text in it.
ENCODINGS = [
    ("utf-8", b"\xff"),
    ("utf-8-sig", b"\xff"),
    ("utf-16", b"\x00\xdc\x00\xdc"),
    ("utf-16-le", b"\x00\xdc"),
    ("utf-32", b"\xff\xff\xff\xff"),
    ("shift_jis", b"\x81\x20\xff"),
    ("ascii", b"\xff"),
]
FAILING: list[list[tuple[Any, ...]]] = [
    [("read",)],
    [("read", 5)],
    [("read", 20_000)],
    [("readline",), ("read",)],
    [("readline",), ("read", 20_000)],
    [("readline",)] * 3,
    [("readline", 300)] * 30,
    [("read", 8192), ("read", 8192)],
    [("seek", 16), ("read", 7000), ("readline",), ("readline",)],
]
AFTER: list[tuple[Any, ...]] = [
    ("tell",),
    ("readline",),
    ("tell",),
    ("read", 10),
    ("seek", 0, 1),
    ("read", 10),
    ("tell",),
    ("seek", 0),
    ("read", 2),
    ("tell",),
    ("seek", 0, 2),
    ("read",),
    ("tell",),
]
# `io` has no positions during an iteration.
ITERATING: list[list[tuple[Any, ...]]] = [
    [("readlines",)],
    [("readlines", 9000)],
    [("readline",), ("readlines",)],
]
AFTER_ITERATING: list[tuple[Any, ...]] = [("readline",), ("read", 10), ("seek", 0), ("read", 2), ("tell",)]
PROGRAMS = [*([*ops, *AFTER] for ops in FAILING), *([*ops, *AFTER_ITERATING] for ops in ITERATING)]


def content(encoding: str, bad: bytes, before: int) -> bytes:
    """A line of so many characters, what is no text, and two more lines."""
    pattern = "ab" if encoding == "ascii" else "a日"
    text = (pattern * before)[:before] + "\n"
    more = "next\n" + "b" * 9000 + "\n"
    return text.encode(encoding) + bad + more.encode(encoding.removesuffix("-sig"))


async def done(file: Any, name: str, *arguments: Any) -> Any:
    try:
        value = getattr(file, name)(*arguments)
        return await value if inspect.isawaitable(value) else value
    except UnicodeError as error:
        return error.args
    except (OSError, ValueError) as error:
        return type(error)


@pytest.mark.parametrize("opener", [proactor.open, aiofiles.open], ids=["proactor", "aiofiles"])
@pytest.mark.parametrize(("encoding", "bad"), ENCODINGS)
@pytest.mark.parametrize("mode", ["r", "r+", "a+"])
def test_as_io(run: Run, tmp_path: Path, opener: Any, encoding: str, bad: bytes, mode: str) -> None:
    path = tmp_path / "file"

    async def main() -> None:
        for before in (0, 20, 8191, 20_000):
            path.write_bytes(content(encoding, bad, before))
            for newline in (None, "", "\n"):
                options: dict[str, Any] = {"encoding": encoding, "newline": newline}
                for ops in PROGRAMS:
                    with open(path, mode, **options) as plain:  # noqa: ASYNC230
                        plain.seek(0)
                        expected = [await done(plain, *op) for op in ops]
                    async with opener(path, mode, **options) as file:
                        await file.seek(0)
                        found = [await done(file, *op) for op in ops]
                    assert found == expected, (before, newline, ops)

    run(main())


@pytest.mark.parametrize("where", ["read", "reconfigure"])
def test_what_comes_after_is_read(run: Run, tmp_path: Path, where: str) -> None:
    """A position in text that was read after the error leads back to it."""
    path = tmp_path / "file"
    path.write_bytes(b"a" * 9000 + b"\xff" + "é\n".encode() * 9000)

    async def main() -> None:
        with open(path, encoding="utf-8") as plain:  # noqa: ASYNC230
            async with proactor.open(path, encoding="utf-8") as file:
                for one in (plain, file):
                    assert isinstance(await done(one, "readline"), tuple)
                if where == "reconfigure":
                    plain.reconfigure(errors="replace")
                    await file.reconfigure(errors="replace")
                assert await file.read(3) == plain.read(3)
                place = plain.tell()
                assert await file.tell() == place
                text = await file.read()
                assert text == plain.read()
                await file.seek(place)
                assert await file.read() == text

    run(main())
