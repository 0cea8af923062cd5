"""Text files: what `io` has no counterpart for. (test_open_parity.py has the rest.)"""

from __future__ import annotations

import asyncio
import random
from pathlib import Path
from typing import Any

import proactor
import pytest
from conftest import Run


class TestText:
    def test_lines(self, run: Run, engine: str, tmp_path: Path) -> None:
        path = tmp_path / "f"

        async def main() -> None:
            async with proactor.open(path, "w", encoding="utf-8", engine=engine) as file:
                for at in range(10_000):
                    assert await file.write(f"zeile {at} é\n") == len(f"zeile {at} é\n")
            async with proactor.open(path, encoding="utf-8", engine=engine) as file:
                at = 0
                async for line in file:
                    assert line == f"zeile {at} é\n"
                    if at % 997 == 0:
                        mark = await file.tell()
                        assert await file.readline() == f"zeile {at + 1} é\n"
                        assert await file.seek(mark) == mark
                    at += 1
                assert at == 10_000

        run(main())

    def test_line_buffering(self, run: Run, engine: str, tmp_path: Path) -> None:
        path = tmp_path / "f"

        async def main() -> None:
            async with proactor.open(path, "w", buffering=1, engine=engine) as file:
                await file.write("one\n")
                assert path.read_text() == "one\n"
                await file.write("two")
                assert path.read_text() == "one\n"

        run(main())

    def test_async_writelines(self, run: Run, tmp_path: Path) -> None:
        path = tmp_path / "f"

        async def lines() -> Any:
            for at in range(5):
                await asyncio.sleep(0)
                yield f"{at}\n"

        async def main() -> None:
            async with proactor.open(path, "w") as file:
                await file.writelines(lines())
                await file.writelines(["5\n", "6\n"])
            async with proactor.open(path, "ab") as binary:
                await binary.writelines([b"7\n"])

                async def more() -> Any:
                    yield b"8\n"

                await binary.writelines(more())

        run(main())
        assert path.read_text().split() == [str(at) for at in range(9)]

    def test_reconfigure_and_detach(self, run: Run, tmp_path: Path) -> None:
        path = tmp_path / "f"

        async def main() -> None:
            file = await proactor.open(path, "w+", encoding="utf-8", newline="\n")
            await file.write("é\n")
            await file.reconfigure(encoding="latin-1", newline="\r\n")
            await file.write("é\n")
            binary = await file.detach()
            with pytest.raises(ValueError, match="detached"):
                await file.read()
            assert await binary.seek(0) == 0
            assert await binary.read() == b"\xc3\xa9\n\xe9\r\n"
            await binary.close()

        run(main())

    @pytest.mark.parametrize("encoding", ["utf-16", "utf-8-sig", "utf-32", "utf-8"])
    def test_begun_in_the_middle(self, run: Run, tmp_path: Path, encoding: str) -> None:
        """A saved position is enough: there is one byte order mark, and it need not have been seen."""
        path = tmp_path / "f"
        path.write_text("eins\nzwei\n", encoding=encoding)
        with open(path, encoding=encoding) as file:
            file.readline()
            place = file.tell()

        async def main() -> None:
            async with proactor.open(path, "r+", encoding=encoding) as file:
                await file.seek(place)
                assert await file.readline() == "zwei\n"
                await file.write("drei\n")
            async with proactor.open(path, "r+", encoding=encoding) as file:
                await file.seek(place)
                await file.write("ZWEI\n")
            async with proactor.open(path, "r+", encoding=encoding) as file:
                await file.seek(0, 2)
                await file.write("vier\n")

        run(main())
        assert path.read_text(encoding=encoding) == "eins\nZWEI\ndrei\nvier\n"

    def test_reconfigured_after_seeking(self, run: Run, tmp_path: Path) -> None:
        path = tmp_path / "f"
        path.write_bytes("é\né\n".encode("latin-1"))

        async def main() -> None:
            async with proactor.open(path, encoding="latin-1") as file:
                assert await file.readline() == "é\n"
                with pytest.raises(OSError, match="after the first read"):
                    await file.reconfigure(encoding="cp437")
                await file.seek(2)
                await file.reconfigure(encoding="cp437")
                assert await file.read() == b"\xe9\n".decode("cp437")

        run(main())


ERRORS = [
    "strict",
    "ignore",
    "replace",
    "surrogateescape",
    "surrogatepass",
    "backslashreplace",
    "namereplace",
]


@pytest.mark.parametrize("encoding", ["utf-8", "ascii", "latin-1", "utf-16"])
@pytest.mark.parametrize("errors", ERRORS)
def test_what_the_encoding_has_not_is_the_error_handlers(
    run: Run, tmp_path: Path, errors: str, encoding: str
) -> None:
    """Short texts, too, which are encoded by other code than long ones."""
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    texts = ["plain", "\udcff", "a\udc80b\ud800", "é\udcff", "☃"]

    async def main() -> list[str]:
        outcomes = []
        async with proactor.open(ours, "w", encoding=encoding, errors=errors) as file:
            for text in texts:
                try:
                    outcomes.append(str(await file.write(text)))
                except UnicodeEncodeError as error:
                    outcomes.append(str(error))
        return outcomes

    expected = []
    with theirs.open("w", encoding=encoding, errors=errors) as plain:
        for text in texts:
            try:
                expected.append(str(plain.write(text)))
            except UnicodeEncodeError as error:
                expected.append(str(error))
    assert run(main()) == expected
    assert ours.read_bytes() == theirs.read_bytes()


READS: dict[str, list[tuple[str, int]]] = {
    "nothing": [],
    "the first line": [("readline", -1)],
    "all lines": [("readline", -1)] * 2,
    "all lines, and the end": [("readline", -1)] * 4,
    "some of a line": [("readline", 2)],
    "some": [("read", 2)],
    "the rest": [("read", -1)],
    "the rest in lines": [("readlines", -1)],
    "more lines than there are": [("readlines", 100)],
}


@pytest.mark.parametrize("reads", READS.values(), ids=READS)
@pytest.mark.parametrize("content", [b"abc\ndef", b"abc\ndef\n", b"abc\nd\xc3"], ids=repr)
def test_reconfigured_after_reading(
    run: Run, tmp_path: Path, content: bytes, reads: list[tuple[str, int]]
) -> None:
    """Where nothing is left that was decoded, all of it can be changed, as in `io`.

    (Which refuses it after `read` has come to the end with a size.)
    """
    path = tmp_path / "f"
    path.write_bytes(content)

    async def main() -> None:
        with path.open(encoding="utf-8", errors="replace") as plain:
            async with proactor.open(path, encoding="utf-8", errors="replace") as file:
                for method, size in reads:
                    assert await getattr(file, method)(size) == getattr(plain, method)(size)
                changes: list[dict[str, Any]] = [
                    {"encoding": "latin-1"},
                    {"errors": "strict"},
                    {"newline": ""},
                ]
                for change in changes:
                    try:
                        plain.reconfigure(**change)
                    except OSError:
                        with pytest.raises(OSError, match="after the first read"):
                            await file.reconfigure(**change)
                    else:
                        await file.reconfigure(**change)

    run(main())


@pytest.mark.parametrize("read", ["readline", "read", "iterate"])
def test_another_encoding_behind_the_end(run: Run, tmp_path: Path, read: str) -> None:
    path = tmp_path / "f"
    path.write_bytes(b"abc")

    async def main() -> None:
        async with proactor.open(path, "a+", encoding="utf-8") as file:
            await file.seek(0)
            if read == "iterate":
                assert [line async for line in file] == ["abc"]
            else:
                assert await getattr(file, read)(10) == "abc"
            await file.reconfigure(encoding="utf-16")
            await file.write("d")

    run(main())
    # Without a byte order mark.
    assert path.read_bytes() == b"abc" + "d".encode("utf-16")[2:]


def test_numbers_that_are_no_positions(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "f"
    path.write_bytes(b"abc")

    async def main() -> None:
        async with proactor.open(path, encoding="utf-8") as file:
            assert await file.read(1) == "a"
            for number in (1 << 257, 1 << 300, 1 << 300 | 2):
                with pytest.raises(OverflowError, match="int too big to convert"):
                    await file.seek(number)
            for wrong in (1.5, "1", None):
                with pytest.raises(TypeError, match="cannot be interpreted as an integer"):
                    await file.seek(wrong)  # type: ignore[arg-type]
            assert await file.tell() == 1
            found = await file.seek(True)
            assert (found, type(found)) == (1, int)
            assert await file.read() == "bc"

    run(main())


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16", "shift_jis", "iso2022_jp"])
@pytest.mark.parametrize("newline", [None, ""])
def test_a_position_told_after_a_seek(run: Run, tmp_path: Path, encoding: str, newline: str | None) -> None:
    """It has the decoder's state: a carriage return that is held back, or a set of characters."""
    path = tmp_path / "file"
    dice = random.Random(0)
    path.write_bytes("".join(dice.choices("ab\n\r\u3042\u30ab ", k=3_000)).encode(encoding))
    whole = path.read_bytes().decode(encoding)
    if newline is None:
        whole = whole.replace("\r\n", "\n").replace("\r", "\n")

    async def main() -> None:
        async with proactor.open(path, encoding=encoding, newline=newline) as file:
            at, positions = 0, {0: 0}
            for _ in range(600):
                found = await (
                    file.read(dice.choice([0, 1, 3, 50])) if dice.random() < 0.8 else file.readline()
                )
                assert found == whole[at : at + len(found)]
                at += len(found)
                positions[at] = await file.tell()
                if dice.random() < 0.4:
                    at = dice.choice(list(positions))
                    await file.seek(positions[at])
                    positions[at] = await file.tell()

    run(main())
