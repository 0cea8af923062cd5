"""`proactor.compat.aiofiles`, what users do to it in tests: parity with the original where it is followed."""

from __future__ import annotations

import importlib
import io
import threading
from pathlib import Path
from typing import Any
from unittest import mock

from aiofiles_suite import Parity
from conftest import Run


class TestMockRecipeParity(Parity):
    """How the original's README replaces real files in tests."""

    def test_recipe(self, run: Run, package: Any) -> None:
        threadpool = package.threadpool
        threadpool.wrap.register(mock.MagicMock)(
            lambda *args, **kwargs: threadpool.AsyncBufferedIOBase(*args, **kwargs)
        )
        chunks = iter([b"one", b"two", b""])
        stream = mock.MagicMock(read=lambda *args, **kwargs: next(chunks))

        async def main() -> None:
            async with package.open("nowhere", "w") as file:
                await file.write("data")
                assert await file.read() == b"one"
                assert await file.read() == b"two"

        with mock.patch(f"{package.__name__}.threadpool.sync_open", return_value=stream) as opened:
            run(main())
        opened.assert_called_once_with(
            "nowhere",
            mode="w",
            buffering=-1,
            encoding=None,
            errors=None,
            newline=None,
            closefd=True,
            opener=None,
        )
        stream.write.assert_called_once_with("data")
        stream.__exit__.assert_called_once_with(None, None, None)

    def test_a_type_of_ones_own(self, run: Run, package: Any) -> None:
        class Fake:
            ended = False

            def __exit__(self, *exc_info: object) -> None:
                self.ended = True

        class Wrapped:
            def __init__(self, file: Fake) -> None:
                self._file = file

        package.threadpool.wrap.register(Fake)(lambda file, *, loop=None, executor=None: Wrapped(file))
        fake = Fake()

        async def main() -> None:
            async with package.open("nowhere") as file:
                assert type(file) is Wrapped

        with mock.patch(f"{package.__name__}.threadpool.sync_open", return_value=fake):
            run(main())
        assert fake.ended

    def test_decorators(self, run: Run, package: Any) -> None:
        utils = importlib.import_module(f"{package.__name__}.threadpool.utils")

        @utils.delegate_to_executor("read")
        @utils.proxy_method_directly("getvalue")
        @utils.proxy_property_directly("closed")
        class Mine(package.base.AsyncBase):  # type: ignore[misc]
            pass

        @utils.cond_delegate_to_executor("spot")
        class Spooled(package.base.AsyncBase):  # type: ignore[misc]
            pass

        async def main() -> None:
            mine: Any = Mine(io.StringIO("text"), None, None)
            assert await mine.read(2) == "te"
            assert mine.getvalue() == "text"
            assert mine.closed is False
            for rolled in (False, True):
                file = mock.Mock(_rolled=rolled, spot=threading.get_ident)
                spooled: Any = Spooled(file, None, None)
                assert (await spooled.spot() == threading.get_ident()) is not rolled

        run(main())


class TestOtherMethodsParity(Parity):
    """Methods that a test has patched, or a subclass has of its own, are the ones that are called."""

    def test_patched(self, run: Run, package: Any, path: Path) -> None:
        async def read(self: Any) -> bytes:
            return b"patched"

        async def main() -> None:
            with mock.patch.object(package.threadpool.AsyncBufferedReader, "read", read):
                async with package.open(path, "rb") as file:
                    assert await file.read() == b"patched"
            async with package.open(path, "rb") as file:
                assert await file.read() == self.content

        run(main())

    def test_of_a_subclass(self, run: Run, package: Any, path: Path) -> None:
        class Loud:
            async def readline(self) -> Any:
                return (await super().readline()).upper()  # type: ignore[misc]

        class Reader(Loud, package.threadpool.AsyncBufferedReader):  # type: ignore[misc]
            pass

        lines = self.content.upper().splitlines(keepends=True)

        async def main() -> None:
            async with package.open(path, "rb") as file:
                reader = Reader(file._file, None, None)
                assert await reader.readline() == lines[0]
                assert [line async for line in reader] == lines[1:]

        run(main())

    def test_iteration(self, run: Run, package: Any, path: Path) -> None:
        reader = package.threadpool.AsyncBufferedReader

        class Mine(reader):  # type: ignore[misc, valid-type]
            async def __anext__(self) -> Any:
                return (await super().__anext__()).upper()

        async def readline(self: Any) -> bytes:
            lines.append(b"patched")
            return b"patched" if len(lines) < 3 else b""

        lines: list[bytes] = []

        async def main() -> None:
            async with package.open(path, "rb") as file:
                found = [line async for line in Mine(file._file, None, None)]
                assert found == self.content.upper().splitlines(keepends=True)
            owner = next(kind for kind in reader.__mro__ if "readline" in vars(kind))
            with mock.patch.object(owner, "readline", readline):
                async with package.open(path, "rb") as file:
                    assert [line async for line in file] == [b"patched"] * 2

        run(main())
