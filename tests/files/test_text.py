"""`read_text` and `write_text`: whatever pathlib does, text or exception, is what proactor does."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import proactor
import pytest
from conftest import Run
from file_helpers import (
    content,
    failure,
    warns_here,
)

pytest_plugins = ["file_fixtures"]

ENCODINGS: list[dict[str, Any]] = [
    {},
    {"encoding": "utf-8"},
    {"encoding": "utf-8-sig"},
    {"encoding": "utf-16"},
    {"encoding": "utf-16-le"},
    {"encoding": "utf-32"},
    {"encoding": "latin-1"},
    {"encoding": "ascii", "errors": "replace"},
    {"encoding": "ascii", "errors": "surrogateescape"},
    {"encoding": "utf-8", "errors": "surrogateescape"},
    {"encoding": "locale"},
]
TEXTS = ["", "plain\n", "a\r\nb\rc\nd", "\ufeffbom", "naïve ☃ 𝄞", "sur\udc80rogate"]


def outcome(call: Callable[[], Any]) -> Any:
    """What it returns, or its exception's class and text."""
    try:
        return call()
    except Exception as error:
        return type(error), str(error)


class TestParityWithPathlib:
    """The same on both: whatever pathlib does, text or exception, is what proactor does."""

    @pytest.mark.parametrize("text", TEXTS, ids=ascii)
    @pytest.mark.parametrize("options", ENCODINGS, ids=str)
    def test_text(self, run: Run, tmp_path: Path, options: dict[str, Any], text: str) -> None:
        if options.get("encoding") == "locale" and sys.version_info < (3, 11):
            options = {}
        theirs, ours = tmp_path / "theirs", tmp_path / "ours"

        async def write() -> Any:
            return await proactor.write_text(ours, text, **options)

        async def read() -> Any:
            return await proactor.read_text(theirs, **options)

        expected = outcome(lambda: theirs.write_text(text, **options))
        assert outcome(lambda: run(write())) == expected
        if isinstance(expected, tuple):
            theirs.write_bytes(text.encode("utf-8", "surrogatepass"))
        else:
            assert ours.read_bytes() == theirs.read_bytes()
        assert outcome(lambda: run(read())) == outcome(lambda: theirs.read_text(**options))

    @pytest.mark.parametrize("newline", [None, "", "\n", "\r", "\r\n"])
    def test_newline(self, run: Run, tmp_path: Path, newline: str | None) -> None:
        theirs, ours = tmp_path / "theirs", tmp_path / "ours"
        text = "a\nb\r\nc\rd\n"

        async def main() -> str:
            await proactor.write_text(ours, text, encoding="utf-8", newline=newline)
            return await proactor.read_text(theirs, encoding="utf-8", newline=newline)

        with theirs.open("w", encoding="utf-8", newline=newline) as file:
            file.write(text)
        with theirs.open(encoding="utf-8", newline=newline) as file:
            expected = file.read()
        assert run(main()) == expected
        assert ours.read_bytes() == theirs.read_bytes()

    @pytest.mark.parametrize(
        "options",
        [{"encoding": "no-such"}, {"errors": "no-such"}, {"newline": "x"}, {"encoding": 5}, {"newline": 5}],
        ids=str,
    )
    def test_bad_options(self, run: Run, path: Path, options: Any) -> None:
        async def read() -> Any:
            return await proactor.read_text(path, **options)

        async def write() -> Any:
            return await proactor.write_text(path, "new", **options)

        def theirs(mode: str) -> None:
            with path.open(mode, **options):
                raise AssertionError("pathlib takes it")

        def kind(call: Callable[[], Any]) -> Any:
            result = outcome(call)
            return result[0] if isinstance(result, tuple) else result

        before = path.read_bytes()
        if "errors" not in options:  # which only the interpreter's development mode looks at
            assert kind(lambda: run(read())) == kind(lambda: theirs("r"))
            assert kind(lambda: run(write())) == kind(lambda: theirs("r+"))
            assert path.read_bytes() == before

    @pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-32-be", "ascii", "gb18030"])
    @pytest.mark.parametrize("length", [10, 300_000])
    def test_text_that_cannot_be_decoded(self, run: Run, path: Path, encoding: str, length: int) -> None:
        """The error names its place in the file, however long that is."""
        # Half of a surrogate pair, or a character that is none.
        path.write_bytes(("a" * length).encode(encoding) + b"\xff\xdc\xff\xff" + b"b" * 12)

        async def main() -> None:
            await proactor.read_text(path, encoding)

        with pytest.raises(UnicodeDecodeError) as expected:
            path.read_text(encoding)
        with pytest.raises(UnicodeDecodeError) as found:
            run(main())
        assert found.value.args == expected.value.args

    def test_text_that_cannot_be_encoded_leaves_the_file(self, run: Run, path: Path) -> None:
        """Better than pathlib, which truncates first."""

        async def main() -> None:
            with pytest.raises(UnicodeEncodeError):
                await proactor.write_text(path, "☃", encoding="ascii")

        run(main())
        assert path.read_bytes() == content(10_000)

    @pytest.mark.parametrize("text", [b"bytes", None, 5], ids=repr)
    def test_not_text(self, run: Run, path: Path, text: Any) -> None:
        async def main() -> None:
            await proactor.write_text(path, text)

        with pytest.raises(TypeError, match="data must be str"):
            run(main())
        with pytest.raises(TypeError, match="data must be str"):
            path.write_text(text)

    @pytest.mark.parametrize("name", ["missing", "", "x" * 300, "file/below"])
    def test_failures(self, run: Run, path: Path, name: str) -> None:
        bad = path.parent / name

        def told(error: Any) -> Any:
            return type(error), error.errno, os.fspath(error.filename)

        def theirs(call: Callable[[], Any]) -> Any:
            with pytest.raises(OSError, match="Errno") as caught:
                call()
            return told(caught.value)

        assert told(failure(run, lambda: proactor.read_bytes(bad))) == theirs(bad.read_bytes)
        assert told(failure(run, lambda: proactor.read_text(bad))) == theirs(bad.read_text)
        if name != "missing":
            assert told(failure(run, lambda: proactor.write_bytes(bad, b""))) == theirs(
                lambda: bad.write_bytes(b"")
            )
            assert told(failure(run, lambda: proactor.write_text(bad, ""))) == theirs(
                lambda: bad.write_text("")
            )

    def test_counts(self, run: Run, tmp_path: Path) -> None:
        async def main() -> tuple[int, int]:
            return (
                await proactor.write_bytes(tmp_path / "a", b"12345"),
                await proactor.write_text(tmp_path / "b", "naïve\n", encoding="utf-8"),
            )

        a, b = Path(tmp_path / "c"), Path(tmp_path / "d")
        assert run(main()) == (a.write_bytes(b"12345"), b.write_text("naïve\n", encoding="utf-8"))


def test_the_encoding_warning_names_the_callers_line(tmp_path: Path) -> None:
    code = """
import asyncio, sys, warnings
import proactor

async def main(path):
    await proactor.write_text(path, "a")  # here
    await proactor.read_text(path)  # here
    await proactor.write_text(path, "a", "locale")
    await proactor.read_text(path, "utf-8")

with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    asyncio.run(main(sys.argv[1]))
print([one.lineno for one in caught if one.category is EncodingWarning and one.filename == "<string>"])
"""
    warns_here(code, tmp_path / "file")
