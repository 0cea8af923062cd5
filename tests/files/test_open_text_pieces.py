"""Texts that are decoded, cut into lines and encoded in pieces: as `io` does it at once, or nothing of it."""

from __future__ import annotations

import asyncio
import fcntl
import os
from pathlib import Path
from typing import Any

import proactor
import pytest
from conftest import Run
from file_helpers import in_time, turns
from proactor._encoding import PIECE

# Its characters have every length, and its pieces end anywhere in it.
PATTERN = "a line, é\r\nor ☃ two\nand 😀\r"
TEXT = PATTERN * (3 * PIECE // len(PATTERN) + 1) + "no end"
ENCODINGS = ["utf-8", "utf-16", "utf-8-sig", "gb18030", "utf-7"]
NEWLINES = [None, "", "\n", "\r", "\r\n"]
METHODS = ["read", "readlines"]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "file"


@pytest.mark.parametrize("method", METHODS)
def test_a_long_read_lets_the_loop_go_round(run: Run, path: Path, method: str) -> None:
    path.write_bytes(("é" * 50 + "\n").encode() * (8 << 20 >> 7))
    pieces = path.stat().st_size // PIECE

    async def main() -> None:
        async with proactor.open(path, encoding="utf-8") as file:
            with turns() as count:
                assert await getattr(file, method)()
                assert count() >= pieces

    run(in_time(main()))


@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_a_long_write_lets_the_loop_go_round(run: Run, path: Path, newline: str) -> None:
    """All of these turns come while it encodes: it fails at the end, with the error of `io`."""
    text = "é\n" * (4 * PIECE) + "\udc80"

    async def main() -> None:
        with pytest.raises(UnicodeEncodeError) as expected:
            Path(os.devnull).write_text(text, encoding="utf-8", newline=newline)  # noqa: ASYNC240
        async with proactor.open(path, "w", encoding="utf-8", newline=newline) as file:
            with turns() as count:
                with pytest.raises(UnicodeEncodeError) as found:
                    await file.write(text)
                assert count() >= 8
            assert found.value.args == expected.value.args
            assert await file.tell() == 0

    run(in_time(main()))
    assert path.read_bytes() == b""


@pytest.mark.parametrize("newline", NEWLINES)
@pytest.mark.parametrize("encoding", ENCODINGS)
def test_as_io(run: Run, path: Path, encoding: str, newline: str | None) -> None:
    theirs = path.with_name("theirs")
    options: dict[str, Any] = {"encoding": encoding, "newline": newline}
    with theirs.open("w", **options) as plain:
        plain.write(TEXT)
        plain.write(TEXT)

    async def main() -> None:
        async with proactor.open(path, "w", **options) as file:
            assert await file.write(TEXT) == len(TEXT)
            assert await file.write(TEXT) == len(TEXT)
        async with proactor.open(path, **options) as file:
            for method in METHODS:
                with path.open(**options) as plain:
                    await file.seek(0)
                    assert await file.readline() == plain.readline()
                    assert await getattr(file, method)() == getattr(plain, method)()
                    assert file.newlines == plain.newlines
                    assert await file.tell() == plain.tell()

    run(in_time(main()))
    assert path.read_bytes() == theirs.read_bytes()


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("place", [3, PIECE + 3])
def test_what_cannot_be_decoded(run: Run, path: Path, place: int, method: str) -> None:
    """The error names its place in what `io` decodes at once: all of the bytes, or a chunk. It is used up."""
    path.write_bytes("é".encode() * PIECE)
    with path.open("r+b") as raw:
        raw.seek(2 * place)
        raw.write(b"\xff")

    async def main() -> None:
        async with proactor.open(path, encoding="utf-8") as file:
            with path.open(encoding="utf-8") as plain:
                with pytest.raises(UnicodeDecodeError) as expected:
                    getattr(plain, method)()
                with pytest.raises(UnicodeDecodeError) as found:
                    await getattr(file, method)()
                assert found.value.args == expected.value.args
                assert found.value.__context__ is None
                raw: Any = plain.buffer
                assert await file.buffer.tell() == raw.tell()
                assert await file.read() == plain.read()

    run(in_time(main()))


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("encoding", ["utf-8", "utf-16"])
@pytest.mark.parametrize("lines", [0, 1])
def test_a_cancelled_read_takes_nothing(run: Run, path: Path, lines: int, encoding: str, method: str) -> None:
    path.write_bytes(TEXT.encode(encoding))

    async def main() -> None:
        async with proactor.open(path, encoding=encoding) as file:
            with path.open(encoding=encoding) as plain:
                expected = [plain.readline() for _ in range(lines)], plain.read()
            assert [await file.readline() for _ in range(lines)] == expected[0]
            place, in_bytes = await file.tell(), await file.buffer.tell()
            ended = False
            for rounds in range(1, 1000, 4):
                task = asyncio.ensure_future(getattr(file, method)())
                for _ in range(rounds):
                    await asyncio.sleep(0)
                ended = task.done()
                if ended:
                    break
                task.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await task
                assert (await file.tell(), await file.buffer.tell()) == (place, in_bytes)
            assert ended
            assert "".join(await task) == expected[1]

    run(in_time(main()))


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16"])
def test_a_cancelled_write_is_all_or_nothing(run: Run, path: Path, encoding: str) -> None:
    async def write(rounds: int) -> None:
        async with proactor.open(path, "w", encoding=encoding, newline="\r\n") as file:
            task = asyncio.ensure_future(file.write(TEXT))
            for _ in range(rounds):
                await asyncio.sleep(0)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            await file.write("end")

    for rounds in range(8):
        run(in_time(write(rounds)))
        with path.open(encoding=encoding, newline="") as plain:
            text = plain.read()
        # The pieces come one to a turn, and nothing is written before the last.
        allowed = ["end"] if rounds <= 3 else ["end", TEXT.replace("\n", "\r\n") + "end"]
        assert text in allowed


def test_others_wait_behind_it(run: Run, path: Path) -> None:
    async def main() -> None:
        async with proactor.open(path, "w+", encoding="utf-8", newline="") as file:
            await asyncio.gather(file.write(TEXT), file.write("1"), file.write(TEXT), file.seek(0))
            found = await asyncio.gather(file.read(), file.read(1))
            assert list(found) == [TEXT + "1" + TEXT, ""]

    run(in_time(main()))


@pytest.mark.parametrize("method", METHODS)
def test_a_pipe(run: Run, method: str) -> None:
    """It has no positions to go back to, so this is decoded at once."""
    text = "é\n" * 200_000

    async def main() -> None:
        reader, writer = os.pipe()
        assert fcntl.fcntl(writer, fcntl.F_SETPIPE_SZ, 1 << 20) > len(text.encode()) > PIECE
        assert os.write(writer, text.encode()) == len(text.encode())
        os.close(writer)
        async with proactor.open(reader, encoding="utf-8") as file:
            assert "".join(await getattr(file, method)()) == text

    run(in_time(main()))


def test_a_read_that_is_cancelled_twice_gives_its_bytes_back(run: Run, path: Path) -> None:
    """Also while it gives them back."""
    path.write_text(TEXT, encoding="utf-8", newline="")

    async def main() -> None:
        async with proactor.open(path, encoding="utf-8") as file:

            class Slow:
                """A buffer whose `seek` has to wait, as behind other tasks."""

                async def seek(self, *args: Any) -> int:
                    for _ in range(3):
                        await asyncio.sleep(0)
                    return await file.buffer.seek(*args)

            data = await file.buffer.read()
            slow: Any = Slow()
            task = asyncio.ensure_future(file._decode_long(slow, file._make_decoder(), data, False))
            for _ in range(3):
                await asyncio.sleep(0)
                task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert await file.buffer.tell() == 0

    run(in_time(main()))


def test_error_of_a_long_write_text(run: Run, path: Path) -> None:
    text = "a" * (PIECE + 5) + "€" + "b" * PIECE

    async def main() -> None:
        with pytest.raises(UnicodeEncodeError) as expected:
            Path(os.devnull).write_text(text, encoding="latin-1")  # noqa: ASYNC240
        with pytest.raises(UnicodeEncodeError) as found:
            await proactor.write_text(path, text, encoding="latin-1")
        assert found.value.args == expected.value.args

    run(in_time(main()))
    assert not path.exists()


@pytest.mark.parametrize("newline", NEWLINES)
@pytest.mark.parametrize("method", ["readline", "__anext__"])
def test_line_ends_between_two_chunks(run: Run, path: Path, newline: str | None, method: str) -> None:
    """`io` decodes 8 KiB at a time."""

    async def lines_of() -> list[str]:
        async with proactor.open(path, encoding="ascii", newline=newline) as file:
            if method == "__anext__":
                return [line async for line in file]
            lines = []
            while line := await file.readline():
                lines.append(line)
            return lines

    async def main() -> None:
        for end in (b"\r\n", b"\r", b"\n", b"\n\r"):
            for shift in range(-2, 2):
                content = b"first" + end
                for chunk in range(1, 5):
                    content = content.ljust(chunk * 8192 + shift, b"a") + end
                path.write_bytes(content + b"last")  # noqa: ASYNC240
                with path.open(encoding="ascii", newline=newline) as expected:
                    assert await lines_of() == list(expected)

    run(in_time(main()))
