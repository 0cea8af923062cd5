# ruff: noqa: ASYNC240 (what the file system has is looked at synchronously)
"""`proactor.compat.aiofile`, its readers and writers: parity with the original where it is followed."""

from __future__ import annotations

import asyncio
import csv
import hashlib
import io
import os
from pathlib import Path
from typing import Any

import pytest
from aiofile_suite import DATA, TEXT, Parity
from conftest import Run


class TestHelpersParity(Parity):
    """True of both packages, for readers and writers."""

    def test_reader(self, run: Run, package: Any, path: Path) -> None:
        async def main() -> None:
            async with package.AIOFile(path) as text, package.AIOFile(path, "rb") as binary:
                reader = package.Reader(text, chunk_size=9, offset=1)
                assert reader.__aiter__() is reader
                assert (reader.file, reader.encoding) == (text, "utf-8")
                chunks = [chunk async for chunk in reader]
                assert chunks == ["ello wör", "ld\nline2\n", "\nline4"]
                assert await reader.read_chunk() == ""
                reader = package.Reader(binary, 0, 7)
                assert await reader.read_chunk() == DATA[:7]
                assert await reader.__anext__() == DATA[7:14]
                assert "".join([c async for c in package.Reader(text, 0, 1)]) == TEXT
                assert package.Reader.CHUNK_SIZE == 32768

        run(main())

    def test_writer(self, run: Run, package: Any, path: Path) -> None:
        async def main() -> None:
            async with package.AIOFile(path, "w+") as file:
                writer = package.Writer(file, 2)
                assert await writer("hé") is None
                await asyncio.gather(writer("l"), writer("lo"), writer(b"!"))
                assert path.read_bytes() == "\0\0héllo!".encode()

        run(main())

    def test_line_reader(self, run: Run, package: Any, path: Path) -> None:
        async def main() -> None:
            lines = TEXT.splitlines(keepends=True)
            async with package.AIOFile(path) as text, package.AIOFile(path, "rb") as binary:
                for size in (1, 3, 4192):
                    assert [line async for line in package.LineReader(text, chunk_size=size)] == lines
                reader = package.LineReader(text, 6)
                assert reader.__aiter__() is reader
                assert [await reader.readline(), await reader.__anext__()] == ["wörld\n", "line2\n"]
                assert await package.LineReader(binary, 13).readline() == b"line2\n"
                assert package.LineReader.CHUNK_SIZE == 4192
                path.write_bytes(b"")
                assert await package.LineReader(text).readline() == ""

        run(main())

    @pytest.mark.parametrize(
        ("size", "offset", "expected"),
        [(5, 0, (5, "hello")), (8, 0, (9, "hello wö")), (9, 1, (9, "ello wör")), (100, 20, (5, "line4"))],
    )
    def test_unicode_reader(
        self, run: Run, package: Any, path: Path, size: int, offset: int, expected: tuple[int, str]
    ) -> None:
        async def main() -> None:
            read = package.utils.unicode_reader
            async with package.AIOFile(path) as file:
                assert await read(file, size, offset) == expected
                assert await read(file, size, 1000) == (0, "")
                assert await read(file, 2, 7, encoding="latin-1") == (2, "Ã¶")
                with pytest.raises(UnicodeDecodeError):
                    await read(file, 5, 8)
                path.write_bytes(b"ab\xc3")
                with pytest.raises(UnicodeDecodeError):
                    await read(file, 10, 0)
            assert package.utils.ENCODING_MAP["utf-8"] == 4

        run(main())

    def test_a_csv_reader(self, run: Run, package: Any, path: Path) -> None:
        path.write_text("a,b\n1,2\n3,4\n")

        async def main() -> None:
            async with package.AIOFile(path) as file:
                reader = package.LineReader(file)
                text = ""
                while line := await reader.readline():
                    text += line
            assert list(csv.DictReader(io.StringIO(text))) == [{"a": "1", "b": "2"}, {"a": "3", "b": "4"}]

        run(main())

    def test_hashing_with_clones(self, run: Run, package: Any, path: Path) -> None:
        path.write_bytes(data := os.urandom(300_000))

        async def digest(name: str, file: Any) -> str:
            found = hashlib.new(name)
            async for chunk in file.iter_chunked(1 << 16):
                found.update(chunk)
            await file.close()
            return found.hexdigest()

        async def main() -> None:
            names = ["sha1", "sha256", "sha512"]
            async with package.async_open(path, "rb") as source:
                digests = [digest(name, await package.clone(source)) for name in names]
                found = await asyncio.gather(*digests)
            assert found == [hashlib.new(name, data).hexdigest() for name in names]

        run(main())
