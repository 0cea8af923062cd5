"""`compat.aiofile` went on for ever, or told of a StopIteration, where a context answered a write with 0 or
a negative number.
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest
from proactor.compat import aiofile

Run = Callable[[Coroutine[Any, Any, Any]], Any]


class Answers:
    """A context that says of each write what it was told to say."""

    def __init__(self, *answers: int) -> None:
        self.answers = list(answers)

    async def write(self, payload: bytes, fd: int, offset: int) -> int:
        return self.answers.pop(0)

    async def fdsync(self, fd: int) -> None:
        pass


@pytest.mark.parametrize("before", [(), (3,)])
def test_zero(run: Run, tmp_path: Path, before: tuple[int, ...]) -> None:
    async def main() -> None:
        async with aiofile.AIOFile(tmp_path / "file", "w", context=Answers(*before, 0)) as file:
            with pytest.raises(RuntimeError, match="returned 0"):
                await file.write("aiofile")

    run(main())


@pytest.mark.parametrize("before", [(), (3,)])
def test_negative(run: Run, tmp_path: Path, before: tuple[int, ...]) -> None:
    async def main() -> None:
        async with aiofile.AIOFile(tmp_path / "file", "w", context=Answers(*before, -errno.EFBIG)) as file:
            with pytest.raises(OSError, match="File too large") as refused:
                await file.write("aiofile")
            assert refused.value.filename == str(tmp_path / "file")

    run(main())
