"""How a text file's encoding is chosen, which ones may take the quick way, and what long texts take."""

from __future__ import annotations

import asyncio
import io
from collections.abc import Callable
from typing import Any

# Encodings in which bytes below 128 are characters, and how `TextCore` writes them.
QUICK_ENCODINGS = {"utf-8": "utf-8", "ascii": "ascii", "iso8859-1": "ascii"}

# What is decoded or encoded before the loop has its turn: less than a millisecond's work.
PIECE = 1 << 18

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


async def in_pieces(coder: Any, code: Callable[[Any, bool], Any], whole: Any) -> Any:
    """What `code`, which changes the state of `coder`, makes of something long; the loop has its turns.

    Cancelled, it leaves the state as it was, but for the line ends that a decoder has seen.
    """
    before = coder.getstate()
    pieces = []
    try:
        for start in range(0, len(whole), PIECE):
            pieces.append(code(whole[start : start + PIECE], start + PIECE >= len(whole)))
            await asyncio.sleep(0)
        return pieces[0][:0].join(pieces)
    except UnicodeError:
        coder.setstate(before)
    except BaseException:
        coder.setstate(before)
        raise
    # Again at once, for the error with positions in all of it.
    return code(whole, True)


async def encode_long(encoder: Any, text: str, newline: str) -> Any:
    """A long text with its line ends in bytes; the loop has its turns."""
    return await in_pieces(encoder, lambda piece, _: encoder.encode(piece.replace("\n", newline)), text)
