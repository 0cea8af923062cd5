"""What the tests of `proactor.compat.aiofile` share."""

from __future__ import annotations

from typing import Any, ClassVar

import pytest
import rivals
from proactor.compat import aiofile as ours
from proactor.compat import caio
from rivals import rival

TEXT = "hello wörld\nline2\n\nline4"
DATA = TEXT.encode()

# What an original's context may raise for a failed operation, by variant.
FAILURES = (OSError, SystemError)


class WithFile(rivals.WithFile):
    content = DATA


class Parity(rivals.Parity, WithFile):
    ours: ClassVar[Any] = ours
    original = "aiofile"

    @pytest.fixture
    def contexts(self, package: Any) -> Any:
        """The package of contexts that belongs to it."""
        return caio if package is ours else rival("caio", "caio")
