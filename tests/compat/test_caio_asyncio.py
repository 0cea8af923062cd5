"""`proactor.compat.caio`, its contexts for asyncio: parity with the original where it is followed."""

from __future__ import annotations

import asyncio
import importlib
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

import pytest
from caio_suite import FAILURES, TIMEOUT_S, Parity
from rivals import CONTENT

T = TypeVar("T")


class TestAsyncioParity(Parity):
    """`AsyncioContext`, of both packages and every variant."""

    def run(self, module: Any, test: Callable[[Any], Coroutine[Any, Any, T]], **options: Any) -> T:
        async def main() -> T:
            async with module.AsyncioContext(**options) as context:
                return await asyncio.wait_for(test(context), TIMEOUT_S)

        return asyncio.run(main())

    def test_round(self, module: Any, fd: int) -> None:
        async def test(context: Any) -> None:
            assert await context.write(b"HELLO", fd, 0) == 5
            assert await context.read(50, fd, 0) == b"HELLO world"
            assert await context.read(nbytes=5, fd=fd, offset=6, priority=1) == b"world"
            assert await context.fsync(fd) is None
            assert await context.fdsync(fd=fd) is None

        self.run(module, test)

    @pytest.mark.parametrize("deferred", [False, True])
    def test_more_than_fit(self, module: Any, fd: int, deferred: bool) -> None:
        async def test(context: Any) -> None:
            values = await asyncio.gather(*(context.read(1, fd, at % 11) for at in range(100)))
            assert b"".join(values) == (CONTENT * 10)[:100]

        self.run(module, test, max_requests=4, deferred=deferred)

    def test_attributes(self, module: Any) -> None:
        async def test(context: Any) -> None:
            assert context.loop is asyncio.get_running_loop()
            assert context.context.max_requests == 4
            assert context.semaphore._value == 4
            assert context.deferred is False

        self.run(module, test, max_requests=4)
        assert module.AsyncioContext.MAX_REQUESTS_DEFAULT == 512
        raw = importlib.import_module(module.__name__.removesuffix("_asyncio"))
        assert module.AsyncioContext.OPERATION_CLASS is raw.Operation
        assert module.AsyncioContext.CONTEXT_CLASS is raw.Context

    def test_submit(self, module: Any, fd: int) -> None:
        async def test(context: Any) -> None:
            operation = context.OPERATION_CLASS.read(5, fd, 0)
            assert await context.submit(operation) == b"hello"
            with pytest.raises(OSError, match="not submitted"):
                await context.submit(operation)
            with pytest.raises(ValueError, match="Operation object expected"):
                await context.submit(5)

        self.run(module, test)

    def test_failures(self, module: Any, fd: int) -> None:
        async def test(context: Any) -> None:
            for failing in (context.read(5, 9999, 0), context.write(b"x", 9999, 0)):
                with pytest.raises(FAILURES):
                    await failing
            with pytest.raises(TypeError):
                await context.read(5, None, 0)
            with pytest.raises(ValueError, match="payload_bytes"):
                await context.write("text", fd, 0)
            # The slots are free again.
            assert await asyncio.gather(*(context.read(5, fd, 0) for _ in range(8))) == [b"hello"] * 8

        self.run(module, test, max_requests=4)

    def test_close_twice(self, module: Any) -> None:
        async def main() -> None:
            context = module.AsyncioContext(4)
            context.close()
            context.close()

        asyncio.run(main())

    def test_package_names(self, package: Any) -> None:
        for name in ("AsyncioContext", "Context", "Operation", "AbstractContext", "AbstractOperation"):
            assert hasattr(package, name)
        assert package.thread_aio in package.variants
        assert package.thread_aio_asyncio in package.variants_asyncio
        assert isinstance(package.__version__, str)
