"""What the tests of `proactor.compat.aiofiles` share."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from concurrent.futures import Executor, ThreadPoolExecutor
from typing import Any, ClassVar

import pytest
import rivals
from proactor.compat import aiofiles as ours

TEXT = "one\ntwo\nthree\n"


class WithFile(rivals.WithFile):
    content = TEXT.encode()


class Parity(rivals.Parity, WithFile):
    ours: ClassVar[Any] = ours
    original = "aiofiles"

    def theirs(self) -> Any:
        package = super().theirs()
        # As a user has to.
        importlib.import_module("aiofiles.os")
        return package

    @pytest.fixture
    def executor(self) -> Iterator[Executor]:
        with ThreadPoolExecutor(1, thread_name_prefix="mine") as executor:
            yield executor
