"""`proactor.stdin`, `stdout` and `stderr`: on pipes, terminals, disk files and what takes their place."""

from __future__ import annotations

import asyncio
import fcntl
import io
import os
import pty
import select
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TextIO

import proactor
import pytest
from conftest import LoopFactory, Run
from file_helpers import in_time, until

MakeStream = Callable[..., tuple[TextIO, int]]


@pytest.fixture(params=["pipe", "terminal"])
def stream(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[MakeStream]:
    """Makes one of `sys`'s streams a pipe's or terminal's end; gives it and the other end."""
    open_streams: list[TextIO] = []
    ends: list[int] = []

    def make(name: str, **options: Any) -> tuple[TextIO, int]:
        reading = name == "stdin"
        if request.param == "pipe":
            reader, writer = os.pipe()
            ours, theirs = (reader, writer) if reading else (writer, reader)
        else:
            theirs, ours = pty.openpty()
        made = open(ours, "r" if reading else "w", **{"encoding": "utf-8", **options})  # noqa: SIM115
        open_streams.append(made)
        ends.append(theirs)
        monkeypatch.setattr(sys, name, made)
        return made, theirs

    yield make
    monkeypatch.undo()
    for made in open_streams:
        made.close()
    for end in ends:
        try:
            os.close(end)
        except OSError:
            continue  # the test has closed it


def flags(descriptor: int) -> int:
    return fcntl.fcntl(descriptor, fcntl.F_GETFL)


def test_reading(run: Run, stream: MakeStream) -> None:
    stdin, end = stream("stdin")
    before = flags(stdin.fileno())

    async def main() -> None:
        os.write(end, "eins é\nzwei\n".encode())
        assert await proactor.stdin.readline() == "eins é\n"
        assert await proactor.stdin.readline() == "zwei\n"
        waiting = asyncio.ensure_future(proactor.stdin.readline())
        await asyncio.sleep(0.01)
        assert not waiting.done()
        os.write(end, b"dr")
        await asyncio.sleep(0)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        os.write(end, b"ei\n")
        # What the cancelled one would have had is still there.
        assert await proactor.stdin.readline() == "drei\n"
        lines = []
        os.write(end, b"4\n5\n")
        async for line in proactor.stdin:
            lines.append(line)
            if len(lines) == 2:
                break
        assert lines == ["4\n", "5\n"]
        assert flags(stdin.fileno()) == before
        assert (proactor.stdin.fileno(), proactor.stdin.encoding) == (stdin.fileno(), "utf-8")
        assert proactor.stdin.isatty() == os.isatty(stdin.fileno())
        assert proactor.stdin.readable()

    run(in_time(main()))


def test_reading_bytes_to_the_end(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    reader, writer = os.pipe()

    async def main() -> None:
        os.write(writer, b"one\ntwo\r\nthree")
        os.close(writer)
        assert await proactor.stdin_bytes.readline() == b"one\n"
        assert await proactor.stdin_bytes.peek()
        into = bytearray(3)
        assert await proactor.stdin_bytes.readinto(into) == 3
        assert into == b"two"
        assert await proactor.stdin_bytes.read1(2) == b"\r\n"
        assert await proactor.stdin.read() == "three"
        assert await proactor.stdin_bytes.read() == b""

    with open(reader, encoding="utf-8") as stdin:
        monkeypatch.setattr(sys, "stdin", stdin)
        run(in_time(main()))


def test_another_pipe_with_the_same_number(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        numbers = set()
        for text in ("one", "two"):
            reader, writer = os.pipe()
            os.write(writer, text.encode())
            os.close(writer)
            with open(reader) as stdin:  # noqa: ASYNC230
                numbers.add(stdin.fileno())
                monkeypatch.setattr(sys, "stdin", stdin)
                assert await proactor.stdin.readline() == text
            with pytest.raises(ValueError, match="closed file"):
                await proactor.stdin.readline()
        # The lowest that is free is the next to be given away.
        assert len(numbers) == 1

    run(in_time(main()))


def test_universal_newlines(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    reader, writer = os.pipe()
    os.write(writer, "é\r\nzwei\r".encode("latin-1"))
    os.close(writer)

    async def main() -> None:
        assert await proactor.stdin.readlines() == ["é\n", "zwei\n"]

    with open(reader, encoding="latin-1") as stdin:
        monkeypatch.setattr(sys, "stdin", stdin)
        run(in_time(main()))


def read(end: int, count: int) -> bytes:
    data = b""
    while len(data) < count:
        data += os.read(end, count - len(data))
    return data


def test_writing(run: Run, stream: MakeStream, capfd: pytest.CaptureFixture[str]) -> None:
    for name in ("stdout", "stderr"):
        made, end = stream(name, newline="\n")
        before = flags(made.fileno())
        text, data = getattr(proactor, name), getattr(proactor, f"{name}_bytes")

        async def main(made: Any = made, text: Any = text, data: Any = data, end: int = end) -> None:
            print("1", end=" ", file=made)
            assert await text.write("2é ") == 3
            print("3", end=" ", file=made)
            assert await data.write(b"4 ") == 2
            await text.writelines(["5 ", "6 "])
            await text.flush()
            await text.close()
            assert await text.write("") == 0
            await data.writelines([b"7", b"."])
            expected = "1 2é 3 4 5 6 7.".encode()
            assert read(end, len(expected)) == expected
            assert (text.writable(), text.closed) == (True, False)
            assert repr(text).startswith("<proactor.std")

        run(in_time(main()))
        assert flags(made.fileno()) == before


def test_lines_of_many_tasks_stay_whole(run: Run, stream: MakeStream) -> None:
    _, end = stream("stdout", newline="\n")

    async def main() -> None:
        await asyncio.gather(*(proactor.stdout.write(f"{at:04}\n") for at in range(100)))

    run(in_time(main()))
    data = read(end, 500).replace(b"\r", b"")
    assert data.split(b"\n")[:80] == [b"%04d" % at for at in range(80)]


def has_room(fd: int) -> bool:
    return bool(select.select([], [fd], [], 0)[1])


def test_a_reader_that_does_not_read(run: Run, stream: MakeStream) -> None:
    """Only the caller waits, and no longer than it likes. Then the loop ends, and says what is lost."""
    _, end = stream("stdout")

    async def main() -> None:
        writing = asyncio.ensure_future(proactor.stdout.write("x" * 1_000_000))
        await until(lambda: not has_room(sys.stdout.fileno()))
        assert not writing.done()
        writing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await writing

    with pytest.warns(ResourceWarning, match=r"\d+ bytes of a cancelled write"):
        run(in_time(main()))
    assert os.read(end, 1) == b"x"


def test_nobody_reads_any_more(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    reader, writer = os.pipe()
    os.close(reader)

    async def main() -> None:
        with pytest.raises(BrokenPipeError):
            await proactor.stdout.write("x")

    with open(writer, "w", encoding="utf-8") as stdout:
        monkeypatch.setattr(sys, "stdout", stdout)
        run(in_time(main()))


def test_encoding_and_errors(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    reader, writer = os.pipe()

    async def main() -> None:
        with pytest.raises(UnicodeEncodeError):
            await proactor.stdout.write("☃")
        sys.stdout.reconfigure(encoding="latin-1", errors="replace")  # type: ignore[union-attr]
        await proactor.stdout.write("é☃")
        assert proactor.stdout.errors == "replace"

    with open(writer, "w", encoding="ascii") as stdout:
        monkeypatch.setattr(sys, "stdout", stdout)
        run(in_time(main()))
    assert os.read(reader, 10) == b"\xe9?"
    os.close(reader)


def test_disk_files(run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Their positions are shared with everybody: nothing is overwritten."""
    path = tmp_path / "f"

    async def write() -> None:
        print("1")
        await proactor.stdout.write("2\n")
        print("3")
        await proactor.stdout_bytes.write(b"4\n")
        await proactor.stdout.flush()
        os.write(sys.stdout.fileno(), b"5\n")
        await proactor.stdout_bytes.writelines([b"6\n", b"7\n"])
        await proactor.stdout.flush()
        assert path.read_bytes() == b"1\n2\n3\n4\n5\n6\n7\n"
        print("8")

    async def read_back() -> None:
        assert await proactor.stdin.readline() == "1\n"
        place = await proactor.stdin.tell()
        assert [line async for line in proactor.stdin][-1] == "8\n"
        await proactor.stdin.seek(place)
        assert await proactor.stdin.readline() == "2\n"

    with path.open("w+") as file:
        monkeypatch.setattr(sys, "stdout", file)
        run(in_time(write()))
    assert path.read_text().split() == list("12345678")
    with path.open() as file:
        monkeypatch.setattr(sys, "stdin", file)
        run(in_time(read_back()))


def test_what_takes_their_place(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """Looked up at each use, as `print` and `input` do."""

    class Odd:
        encoding = "odd"

        def __init__(self) -> None:
            self.written: list[str] = []

        def write(self, text: str) -> int:
            self.written.append(text)
            return len(text)

        def flush(self) -> None:
            self.written.append("flushed")

    async def main() -> None:
        first, second, third = io.StringIO(), io.TextIOWrapper(io.BytesIO(), "utf-8"), Odd()
        for stream in (first, second, third):
            monkeypatch.setattr(sys, "stdout", stream)
            print("printed", end=" ")
            assert await proactor.stdout.write("ours") == 4
        assert first.getvalue() == "printed ours"
        second.flush()
        assert second.buffer.getvalue() == b"printed ours"
        assert third.written == ["printed", " ", "flushed", "ours"]
        assert proactor.stdout.encoding == "odd"
        monkeypatch.setattr(sys, "stdin", io.StringIO("one\ntwo\n"))
        assert await proactor.stdin.readline() == "one\n"
        assert [line async for line in proactor.stdin] == ["two\n"]
        with pytest.raises(AttributeError, match="buffer"):
            await proactor.stdin_bytes.read()
        monkeypatch.setattr(sys, "stdin", None)
        with pytest.raises(RuntimeError, match=r"lost sys\.stdin"):
            await proactor.stdin.read()

    run(main())


def test_capsys(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    async def main() -> None:
        print("1", end=" ")
        await proactor.stdout.write("2 ")
        print("3")
        await proactor.stderr_bytes.write(b"4\n")

    run(main())
    assert capsys.readouterr() == ("1 2 3\n", "4\n")


def test_capfd(run: Run, capfd: pytest.CaptureFixture[str]) -> None:
    async def main() -> None:
        print("1", end=" ")
        await proactor.stdout.write("2 ")
        os.write(1, b"3 ")
        print("4")
        await proactor.stderr.write("5\n")

    run(main())
    assert capfd.readouterr() == ("1 2 3 4\n", "5\n")


def test_one_loop_after_the_other(
    event_loop_factory: LoopFactory, stream: MakeStream, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, end = stream("stdin")

    async def ask() -> str:
        os.write(end, b"answer\n")
        return await proactor.stdin.readline()

    for _ in range(3):
        loop = event_loop_factory()
        assert loop.run_until_complete(in_time(ask())) == "answer\n"
        loop.close()
