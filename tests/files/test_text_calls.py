"""The quick calls of a text file: what they leave alone, and what may take their place."""

from __future__ import annotations

import gc
import warnings
from pathlib import Path
from typing import Any

import proactor
import pytest
from conftest import Run


def test_a_call_that_is_not_awaited_does_nothing(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "f"
    path.write_text("first\nsecond\n")

    async def main() -> None:
        async with proactor.open(path, "r+") as file:
            await file.readline()
            with pytest.warns(RuntimeWarning, match="TextFile.__anext__' was never awaited"):
                file.__anext__()  # type: ignore[unused-coroutine]
            assert await file.readline() == "second\n"
            with pytest.warns(RuntimeWarning, match="TextFile.write' was never awaited"):
                file.write("lost")  # type: ignore[unused-coroutine]
            await file.write("third\n")

    run(main())
    assert path.read_text() == "first\nsecond\nthird\n"


def test_in_the_order_of_awaiting(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "f"

    async def main() -> None:
        async with proactor.open(path, "w") as file:
            made_first, made_second = file.write("a"), file.write("b")
            assert await made_second == 1
            assert await made_first == 1
            with pytest.raises(RuntimeError, match="already awaited"):
                await made_first

    run(main())
    assert path.read_text() == "ba"


@pytest.mark.parametrize("length", [1, 2, 3, 4095, 4096, 4097, 20_000])
def test_lines_of_every_length(run: Run, tmp_path: Path, length: int) -> None:
    path = tmp_path / "f"
    line = "x" * (length - 1) + "\n"

    async def main() -> None:
        async with proactor.open(path, "w") as file:
            for _ in range(40):
                assert await file.write(line) == length
        async with proactor.open(path) as file:
            assert [found async for found in file] == [line] * 40
            assert await file.tell() == 40 * length

    run(main())


def test_a_circle_with_a_call_is_found(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "f"

    async def main() -> None:
        async with proactor.open(path, "w") as file:
            text = Text("text")
            text.call = file.write(text)
            seen = gc.get_referents(text.call)
            assert any(it is file for it in seen)
            text.call.close()

    run(main())


class Text(str):
    call: Any


class Doubled(proactor.TextFile):
    """Says everything twice, and never stops."""

    async def __anext__(self) -> str:
        return 2 * await super().readline()

    async def write(self, text: str, /) -> int:
        return await super().write(2 * text)


class Derived(proactor.TextFile):
    pass


def test_a_derived_class_has_its_own_way(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "f"

    async def main() -> None:
        async with proactor.open(path, "wb") as raw:
            assert await Doubled(raw, "utf-8", "strict", None, mode="w").write("ab") == 4
            assert await Derived(raw, "utf-8", "strict", None, mode="w").write("c\n") == 2
        async with proactor.open(path, "rb") as raw:
            assert await anext(Doubled(raw, "utf-8", "strict", None, mode="r")) == "ababc\nababc\n"
            await raw.seek(0)
            assert [line async for line in Derived(raw, "utf-8", "strict", None, mode="r")] == ["ababc\n"]

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        run(main())


def test_methods_of_other_objects_are_refused() -> None:
    with pytest.raises(TypeError):
        proactor.TextFile.write("not a file", "text")  # type: ignore[unused-coroutine, arg-type]


@pytest.mark.parametrize(
    ("arguments", "error"),
    [((None,), TypeError), ((1.5,), TypeError), ((1, 2), TypeError), ((1 << 80,), OverflowError)],
)
def test_sizes_that_are_none(run: Run, tmp_path: Path, arguments: Any, error: type[Exception]) -> None:
    path = tmp_path / "f"
    path.write_text("a line\n")

    async def main() -> None:
        async with proactor.open(path) as file:
            with pytest.raises(error):
                file.readline(*arguments)  # type: ignore[unused-coroutine]
            assert await file.readline(True) == "a"
            assert await file.readline(-1) == " line\n"

    run(main())


class Shout(proactor.TextFile):
    async def write(self, text: str, /) -> int:
        return await super().write(text.upper())


class Quiet(proactor.TextFile):
    pass


class Numbered:
    async def readline(self, size: int = -1, /) -> str:
        line: str = await super().readline(size)  # type: ignore[misc]
        return "1: " + line


@pytest.mark.parametrize("bases", [(Shout,), (Quiet, Shout), (Shout, Quiet)])
def test_derived_from_one_with_methods_of_its_own(run: Run, tmp_path: Path, bases: tuple[type, ...]) -> None:
    kind: Any = type("Derived", bases, {})
    path = tmp_path / "f"

    async def main() -> None:
        buffer = await proactor.open(path, "w+b")
        async with kind(buffer, "utf-8", "strict", None, mode="w+") as file:
            assert await file.write("text\n") == 5
            await file.seek(0)
            assert await file.readline() == "TEXT\n"

    run(main())


@pytest.mark.parametrize("last", [proactor.TextFile, Quiet])
def test_a_mixin_before_a_text_file(run: Run, tmp_path: Path, last: type) -> None:
    kind: Any = type("Mixed", (Numbered, last), {})
    path = tmp_path / "f"
    path.write_text("line\n")

    async def main() -> None:
        buffer = await proactor.open(path, "r+b")
        async with kind(buffer, "utf-8", "strict", None, mode="r+") as file:
            assert await file.readline() == "1: line\n"
            assert await file.write("more\n") == 5

    run(main())
    assert path.read_text() == "line\nmore\n"


def test_derived_classes_have_the_quick_methods() -> None:
    class Mixin:
        def write(self) -> None: ...

    class After(Quiet, Mixin):  # type: ignore[misc]
        pass

    for kind in (Quiet, After, type("Deep", (Quiet,), {})):
        assert {"write", "readline"} <= vars(kind).keys()
        assert type(vars(kind)["write"]) is type(vars(Quiet)["readline"])
    assert "write" not in vars(type("Deep", (Shout,), {}))


def driven(call: Any) -> StopIteration:
    """What ends a call that need not wait, driven by hand."""
    try:
        call.__next__()
    except StopIteration as stopped:
        return stopped
    raise AssertionError


def test_results_that_somebody_keeps(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "f"
    lines = [f"line {number}\n" for number in range(100)]
    path.write_text("".join(lines))

    async def main() -> None:
        async with proactor.open(path) as file:
            kept = [driven(file.readline()) for _ in lines]
            assert [stopped.value for stopped in kept] == lines
            await file.seek(0)
            for line in lines:
                stopped = driven(file.readline())
                assert stopped.value == line
                # It was raised once, whatever was raised before.
                assert stopped.__traceback__ is not None
                assert stopped.__traceback__.tb_next is None
                del stopped

    run(main())
