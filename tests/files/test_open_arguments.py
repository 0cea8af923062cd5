"""One wrong argument at a time: `open` says of it what `io.open` says."""

from __future__ import annotations

import io
import os
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import proactor
import pytest
from conftest import Run


class Number:
    def __init__(self, value: int) -> None:
        self.value = value

    def __index__(self) -> int:
        return self.value


class Text(str):
    pass


def fails(*_: object) -> int:
    raise RuntimeError("no opener")


# A descriptor that nobody has.
FREE = 1_000_000
VALUES: dict[str, list[Any]] = {
    "file": [None, -1, FREE, Number(FREE), 1 << 31, 10**30, 3.5, "", b"", "a\0b", [], bytearray(b"x")],
    "mode": ["", "é", "\ud800", "r\0", "rw", "rr", "rbt", "bt", "+", "r++", "R", b"r", None, 3, Text("r")],
    "buffering": [0, 1, 2, -2, True, Number(5), Number(1 << 70), 1 << 31, -(1 << 70), 1.0, "1", None],
    "encoding": ["nope", "", "a\0b", "\ud800", "hex", "locale", 3, b"utf-8", Text("utf-8")],
    "errors": ["nope", "", "a\0b", "\ud800", 3, b"strict"],
    "newline": ["x", "\r\r", "\0", "\n\0", "\ud800", 3, b"\n", Text("\r\n")],
    "closefd": [0, 1, False, None, "", [], "x"],
    "opener": [3, fails, *((lambda *_, given=given: given) for given in (-1, -5, FREE, 10**20, None, 2.5))],
}  # fmt: skip


def outcome(use: Callable[[], object]) -> object:
    try:
        return use()
    except Exception as error:
        return type(error), str(error), getattr(error, "filename", None)


@pytest.mark.filterwarnings("ignore:line buffering")
@pytest.mark.parametrize("mode", ["r", "rb"])
@pytest.mark.parametrize("name", VALUES)
def test_said_as_io_says_it(run: Run, tmp_path: Path, name: str, mode: str) -> None:
    (tmp_path / "file").write_bytes(b"content")

    async def ours(arguments: dict[str, Any]) -> str:
        file: Any
        async with proactor.open(**arguments) as file:
            return str(file.mode)

    def theirs(arguments: dict[str, Any]) -> str:
        with io.open(**arguments) as file:  # noqa: UP020
            return str(file.mode)

    with pytest.MonkeyPatch.context() as patched:
        patched.chdir(tmp_path)
        for value in VALUES[name]:
            arguments = {"file": "file", "mode": mode, name: value}
            expected = outcome(partial(theirs, arguments))
            assert outcome(lambda: run(ours(arguments))) == expected, repr(value)  # noqa: B023


def test_at_once(tmp_path: Path) -> None:
    """Nothing has to be awaited to hear of it, and nothing was created."""
    for arguments in ({"encoding": 3}, {"newline": "x"}, {"buffering": 0}, {"buffering": 1 << 31}):
        with pytest.raises((TypeError, ValueError, OverflowError)) as caught:
            proactor.open(tmp_path / "file", "w", **arguments)
        assert caught.value.__suppress_context__ or caught.value.__context__ is None
    assert os.listdir(tmp_path) == []


def test_an_opener_is_not_asked_for_a_refusal(tmp_path: Path) -> None:
    def opener(*_: object) -> int:
        raise AssertionError("it was asked")

    arguments: Any = {"mode": "rb", "encoding": "utf-8"}
    with pytest.raises(ValueError, match="binary mode"):
        proactor.open(tmp_path / "file", opener=opener, **arguments)
