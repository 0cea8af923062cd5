"""What `io.open` refuses, `open` refuses in its words, which differ between versions of Python."""

from __future__ import annotations

import io
from typing import Any


class _Accepted(Exception):
    """Everything was in order so far."""


def _nothing(path: str, flags: int) -> int:
    raise _Accepted


def refuse(
    file: Any, mode: Any, buffering: Any, encoding: Any, errors: Any, newline: Any, closefd: Any
) -> None:
    """Raises what `io.open` raises before it opens anything, if it does.

    An unknown encoding or newline it finds only later.
    """
    if hasattr(type(file), "__index__"):
        # A descriptor would be taken for open.
        file, closefd = ".", True
    if isinstance(buffering, int) and buffering == 1:
        # Of which it warns.
        buffering = -1
    ask: Any = io.open
    try:
        ask(file, mode, buffering, encoding, errors, newline, closefd, _nothing)
    except _Accepted:
        return
    except Exception as error:
        raise error.with_traceback(None) from None
