"""How a text file's encoding is chosen, and which ones may take the quick way."""

from __future__ import annotations

import io
from typing import Any

# Encodings in which bytes below 128 are characters, and how `TextCore` writes them.
QUICK_ENCODINGS = {"utf-8": "utf-8", "ascii": "ascii", "iso8859-1": "ascii"}

# Asking costs as much as opening a file.
_known: dict[tuple[str | None, str | None, str | None], tuple[str, str]] = {}


def resolve(encoding: str | None, errors: str | None, newline: str | None) -> tuple[str, str]:
    """The encoding and the error handler that `open` would use; its errors for those it would refuse."""
    arguments = (encoding, errors, newline)
    try:
        return _known[arguments]
    except (KeyError, TypeError):
        pass
    with io.TextIOWrapper(io.BytesIO(), encoding, errors, newline) as text:
        found = (text.encoding, text.errors or "strict")
    # The locale may change.
    if encoding not in (None, "locale") and len(_known) < 64:
        _known[arguments] = found
    return found


def is_idle(decoder: Any) -> bool:
    """It holds nothing back, and another "\\n" would be no news to it."""
    if not isinstance(decoder, io.IncrementalNewlineDecoder):
        return bool(decoder.getstate() == (b"", 0))
    newlines = decoder.newlines
    known = newlines == "\n" or (isinstance(newlines, tuple) and "\n" in newlines)
    return known and decoder.getstate() == (b"", 0)
