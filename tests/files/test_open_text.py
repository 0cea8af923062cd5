"""Text files: what `io` has no counterpart for. (test_open_parity.py has the rest.)"""

from __future__ import annotations

import asyncio
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
