"""What the tests of `proactor.compat.caio` share."""

from __future__ import annotations

import importlib
import queue
import select
from collections.abc import Iterator
from typing import Any, ClassVar

import pytest
import rivals
from proactor.compat import caio as ours

VARIANTS = ["linux_uring", "linux_aio", "thread_aio", "python_aio"]
QUEUES = ["linux_uring", "linux_aio"]
POOLS = ["thread_aio", "python_aio"]
ENGINE = {"linux_uring": "io_uring", "linux_aio": "linux_aio"}
TIMEOUT_S = 10

# What an original may raise for a failed operation, by variant.
FAILURES = (OSError, SystemError, ValueError)


def variant(package: Any, name: str) -> Any:
    try:
        module = importlib.import_module(f"{package.__name__}.{name}")
    except ImportError as error:
        pytest.skip(f"needs {ENGINE.get(name, name)}: {error}")
    if package is ours and module not in (*ours.variants, *ours.variants_asyncio):
        pytest.skip(f"needs {ENGINE.get(name.removesuffix('_asyncio'), name)}: {ours.variants}")
    return module


class Runner:
    """Submits operations to a raw context and waits for their callbacks, whichever way they come."""

    def __init__(self, module: Any, max_requests: int = 8) -> None:
        self.module = module
        self.context = module.Context(max_requests)
        self.results: queue.SimpleQueue[Any] = queue.SimpleQueue()

    def submit(self, operation: Any) -> int:
        operation.set_callback(self.results.put)
        count: int = self.context.submit(operation)
        if hasattr(self.context, "flush"):
            self.context.flush()
        return count

    def result(self) -> Any:
        if hasattr(self.context, "process_events"):
            while self.results.empty():
                # Readable does not promise an event: an earlier one may have been taken already.
                if not select.select([self.context.fileno], [], [], TIMEOUT_S)[0]:
                    pytest.fail("no event")
                self.context.poll()
                self.context.process_events(512, 0, 0)
        return self.results.get(timeout=TIMEOUT_S)

    def run(self, operation: Any) -> Any:
        assert self.submit(operation) == 1
        return self.result()

    def close(self) -> None:
        if hasattr(self.context, "close"):
            self.context.close()


class Parity(rivals.Parity):
    """On both packages, and on each variant of them."""

    ours: ClassVar[Any] = ours
    original = "caio"

    @pytest.fixture(params=VARIANTS)
    def name(self, request: pytest.FixtureRequest) -> Any:
        return request.param

    @pytest.fixture
    def raw(self, package: Any, name: str) -> Iterator[Runner]:
        runner = Runner(variant(package, name))
        yield runner
        runner.close()

    @pytest.fixture
    def module(self, package: Any, name: str) -> Any:
        return variant(package, f"{name}_asyncio")
