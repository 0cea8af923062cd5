"""Wrong arguments of an open file's methods: the same class of error as from `io`'s files."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any

import proactor
import pytest
from conftest import Run


class Two:
    def __index__(self) -> int:
        return 2


READS: list[tuple[str, tuple[Any, ...]]] = [
    (name, arguments)
    for name in ("read", "readline", "readlines")
    for arguments in [(2.0,), ("2",), (b"2",), ([],), (object(),), (1, 2), (Two(),), (-1,), (None,)]
]
SEEKS: list[tuple[str, tuple[Any, ...]]] = [
    ("seek", arguments)
    for arguments in [(), ("2",), (0, "0"), (0, 1.5), (0, 9), (-1,), (0, 0, 0), (Two(), 0)]
]
INTO: list[tuple[str, tuple[Any, ...]]] = [
    (name, (target,))
    for name in ("readinto", "readinto1")
    for target in [b"read-only", memoryview(b"read-only"), memoryview(bytearray(8))[::2], "text", 3, None]
]
PLACES = (2**62, 2**63 - 1, 2**63, 2**70, -(2**63), -(2**70))
FAR: list[tuple[str, tuple[Any, ...]]] = [
    ("seek", (place, whence)) for place in PLACES for whence in (0, 1, 2)
]
CASES = [
    *[(mode, -1, *case) for mode in ("r", "r+") for case in (*READS, *SEEKS)],
    *[(mode, -1, *case) for mode in ("rb", "r+b") for case in (*READS, *SEEKS, *INTO, ("read", (-5,)))],
    *[("rb", 0, *case) for case in (*READS, *INTO[:6], ("read", (-5,)))],
    *[("rb", buffering, *case) for buffering in (-1, 0) for case in FAR],
    *[("r", -1, "seek", (place,)) for place in PLACES[:3]],
]


@pytest.fixture(scope="module")
def lines(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("lines") / "file"
    path.write_bytes(b"one\ntwo\nthree\n")
    return path


def test_as_io(run: Run, lines: Path) -> None:
    async def outcome(file: Any, name: str, arguments: tuple[Any, ...]) -> object:
        try:
            value = getattr(file, name)(*arguments)
            return await value if inspect.isawaitable(value) else value
        except Exception as error:
            return type(error), getattr(error, "errno", None)

    async def main() -> None:
        for mode, buffering, name, arguments in CASES:
            with open(lines, mode, buffering) as file:  # noqa: ASYNC230 (what ours is compared with)
                expected = await outcome(file, name, arguments)
            async with proactor.open(lines, mode, buffering) as ours:
                found = await outcome(ours, name, arguments)
            assert found == expected, (mode, buffering, name, arguments)

    run(main())


def test_read1_without_a_buffer(run: Run, lines: Path) -> None:
    """It is not the end of the file as long as there are bytes."""

    async def main() -> None:
        async with proactor.open(lines, "rb", 0) as file:
            assert await file.read1(-1) == b"one\ntwo\nthree\n"
            assert await file.read1(-1) == b""

    run(main())
