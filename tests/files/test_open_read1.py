"""`read1` and `peek` of a disk file give as many bytes as with `io`, whatever was read before."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any

import proactor
import pytest
from conftest import Run
from proactor.compat import aiofiles

OPENERS = pytest.mark.parametrize("opener", [proactor.open, aiofiles.open], ids=["proactor", "aiofiles"])
SIZES = (0, 5, 4097, 9000, 70_000)
BEFORE: list[tuple[Any, ...]] = [
    ("tell",),
    ("read", 3),
    ("readline", 5),
    ("seek", 2),
    ("seek", 0, 1),
    ("peek",),
    ("readinto", 50),
    ("readinto", 8191),
]
COUNTS: list[tuple[int, ...]] = [(), (-1,), (0,), (1,), (3,), (100,), (8192,), (9000,), (100_000,)]


async def done(file: Any, name: str, *arguments: Any) -> Any:
    if name == "readinto":
        arguments = (bytearray(arguments[0]),)
    value = getattr(file, name)(*arguments)
    return await value if inspect.isawaitable(value) else value


async def program(file: Any, before: tuple[Any, ...], count: tuple[int, ...]) -> list[Any]:
    """What is found, of which the second call begins where the first has left the buffer."""
    found = [await done(file, *before)]
    for _ in range(2):
        found += [await done(file, "read1", *count), await done(file, "tell")]
    found.append(await done(file, "peek"))
    found += [await done(file, "seek", 1), await done(file, "read1", *count)]
    return found


@OPENERS
@pytest.mark.filterwarnings("ignore:line buffering")
@pytest.mark.parametrize("buffering", [-1, 1, 2, 3, 4, 5, 6, 7, 8, 100, 4096, 8192])
def test_as_io(run: Run, tmp_path: Path, opener: Any, buffering: int) -> None:
    path = tmp_path / "file"

    async def main() -> None:
        for size in SIZES:
            path.write_bytes(bytes(i % 251 for i in range(size)))
            for before in BEFORE:
                for count in COUNTS:
                    with open(path, "rb", buffering) as plain:  # noqa: ASYNC230
                        expected = await program(plain, before, count)
                    async with opener(path, "rb", buffering) as file:
                        found = await program(file, before, count)
                    assert found == expected, (size, before, count)

    run(main())


@OPENERS
def test_a_seek_before_the_first_look(run: Run, tmp_path: Path, opener: Any) -> None:
    """What `io` has in its buffer counts from the first read, not from when somebody asks for it."""
    path = tmp_path / "file"
    path.write_bytes(bytes(i % 251 for i in range(11_741)))

    async def main() -> None:
        for read, to in ((2, 1), (2, 0), (5000, 1), (5000, 4999), (100, 9000)):
            for last in ("peek", "read1"):
                with open(path, "rb") as plain:  # noqa: ASYNC230
                    expected = [await done(plain, *call) for call in (("read", read), ("seek", to), (last,))]
                async with opener(path, "rb") as file:
                    found = [await done(file, *call) for call in (("read", read), ("seek", to), (last,))]
                assert found == expected, (read, to, last)

    run(main())


@pytest.mark.parametrize("path", ["/proc/self/status", "/sys/kernel/mm/transparent_hugepage/enabled"])
def test_of_files_that_do_not_say_how_long_they_are(run: Run, path: str) -> None:
    if not Path(path).exists():
        pytest.skip("there is no such file")

    async def main() -> None:
        async with proactor.open(path, "rb") as file:
            assert await file.peek()
            parts = []
            while part := await file.read1(100):
                assert len(part) <= 100
                parts.append(part)
        assert len(b"".join(parts).splitlines()) == len(Path(path).read_bytes().splitlines())  # noqa: ASYNC240

    run(main())
