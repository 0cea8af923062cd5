# ruff: noqa: ASYNC230 (what the file system has is looked at synchronously)
"""`proactor.compat.aiofile`: attributes, open files, appending and sizes, as the original has them."""

from __future__ import annotations

import errno
from pathlib import Path
from typing import Any

import pytest
from aiofile_suite import DATA, TEXT, Parity
from conftest import Run
from proactor.compat import aiofile as ours


class TestAttributesParity(Parity):
    """True of both packages."""

    def test_attributes(self, run: Run, package: Any, path: Path) -> None:
        async def main() -> None:
            async with package.async_open(path, encoding="latin-1") as file:
                assert (file.encoding, file.file.encoding) == ("latin-1", "latin-1")
                assert package.LineReader(file.file, line_sep="\r").linesep == "\r"
            async with package.async_open(path, "rb") as file:
                assert not hasattr(file, "encoding")
                assert package.LineReader(file.file, line_sep="\r").linesep == b"\r"

        run(main())

    def test_a_clone_is_made_once(self, run: Run, package: Any, path: Path) -> None:
        async def main() -> None:
            async with package.async_open(path) as file:
                cloner = package.clone(file)
                assert (cloner.source_afp, cloner.cloned_afp) == (file, None)
                clone = await cloner
                assert cloner.cloned_afp is clone
                assert await cloner is clone
                async with cloner as again:
                    assert again is clone
            assert file.closed

        run(main())

    def test_arguments_beside_an_open_file(self, run: Run, package: Any, path: Path) -> None:
        path.write_bytes("hö\n".encode("latin-1"))

        async def main() -> None:
            with open(path, encoding="latin-1") as opened:
                # Its own mode counts.
                file = package.async_open(opened, "wb", encoding="latin-1")
                assert (type(file), await file.read()) == (package.TextFileWrapper, "hö\n")
                with pytest.raises(ValueError, match=r"^[Aa]rguments"):
                    package.async_open(opened, "r", "latin-1")
                with pytest.raises(TypeError, match="unexpected keyword"):
                    package.async_open(opened, whatever=1)

        run(main())

    @pytest.mark.parametrize("mode", ["a", "a+", "ab", "a+b"])
    def test_appending_to_a_file_opened_by_hand(self, run: Run, package: Any, path: Path, mode: str) -> None:
        data: Any = b"A" if "b" in mode else "A"

        async def main() -> None:
            file = package.async_open(path, mode)
            assert file.tell() == len(DATA)
            await file.file.open()
            assert file.tell() == len(DATA)
            assert (await file.write(data), file.tell()) == (1, len(DATA) + 1)
            await file.close()
            file = package.async_open(path.with_name("new"), mode)
            await file.file.open()
            assert (await file.write(data), file.tell()) == (1, 1)
            await file.close()

        run(main())

    def test_no_size_is_a_whole_line(self, run: Run, package: Any, path: Path) -> None:
        async def main() -> None:
            for mode, line in (("r", TEXT.splitlines(keepends=True)[0]), ("rb", DATA[:13])):
                for size in (0, -1, -5):
                    async with package.async_open(path, mode) as file:
                        assert (await file.readline(size), file.tell()) == (line, 13)

        run(main())


@pytest.mark.parametrize("context", [None, "given"])
def test_failures_are_of_both_kinds(run: Run, tmp_path: Path, context: str | None) -> None:
    path = tmp_path / "file"
    path.write_bytes(DATA)

    async def main() -> None:
        given = None if context is None else ours.aio.create_context()
        async with ours.AIOFile(path, context=given) as file:
            with pytest.raises(SystemError) as failed:
                await file.write("x")
            assert isinstance(failed.value, OSError)
            assert failed.value.errno == errno.EBADF
        async with ours.AIOFile(path, "w", context=given) as file:
            with pytest.raises(SystemError) as failed:
                await file.read()
            assert isinstance(failed.value, OSError)
        if context is None:
            async with ours.AIOFile("/dev/full", "w") as file:
                with pytest.raises(SystemError) as failed:
                    await file.write("x")
                assert isinstance(failed.value, OSError)
                assert failed.value.errno == errno.ENOSPC
        if given is not None:
            given.close()

    run(main())
