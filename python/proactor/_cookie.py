"""Positions in text files: where to start decoding, and how many characters to skip then.

They are those of `io`, bit by bit, so that each side can go to where the other was. This module must not know
files.
"""

from __future__ import annotations

from typing import Any, NamedTuple

# Where the fields of a position are: the bit of each, and the bits of all. (A C struct in `io`.)
FLAGS_BIT, FEED_BIT, SKIP_BIT, AT_END_BIT, BITS = 64, 96, 128, 160, 168
MOST_FLAGS = (1 << 31) - 1


class Chunk(NamedTuple):
    """Bytes that were decoded together, and the decoder before them."""

    # Where its first character is among the decoded ones.
    start: int
    # Where its bytes are in the file, with those that the decoder had kept.
    place: int
    flags: int
    data: bytes


class Cookie(NamedTuple):
    """A text position: where to start decoding, with what state, and how many characters to skip then."""

    place: int
    flags: int = 0
    feed: int = 0
    skip: int = 0
    at_end: bool = False

    def is_start(self) -> bool:
        """Whether decoding starts with a new decoder."""
        return self.place == 0 and self.flags == 0

    def restore(self, decoder: Any) -> None:
        """Gives a decoder the state to start with."""
        if self.is_start():
            # Its first state need not be zero: UTF-16 looks for a byte order mark.
            decoder.reset()
        else:
            decoder.setstate((b"", self.flags))

    def pack(self) -> int:
        if self.flags > MOST_FLAGS:
            # `io` has no room for it.
            raise OverflowError("signed integer is greater than maximum")
        number = self.place | self.flags << FLAGS_BIT | self.feed << FEED_BIT
        return number | self.skip << SKIP_BIT | self.at_end << AT_END_BIT

    @classmethod
    def unpack(cls, number: int) -> Cookie:
        if number >> BITS:
            raise OverflowError("int too big to convert")
        flags, feed, skip = (number >> bit & 0xFFFF_FFFF for bit in (FLAGS_BIT, FEED_BIT, SKIP_BIT))
        return cls(number & (1 << 64) - 1, flags, feed, skip, bool(number >> AT_END_BIT))


def place_of(decoder: Any, chunk: Chunk, skip: int, ratio: float, has_ascii_within: bool) -> Cookie:
    """The position `skip` characters into a chunk, where possible a place from which nothing is skipped.

    `ratio`: bytes for each character, in the last chunk that was read. Where several places will do (some
    bytes are no characters), it decides which of them `io` finds. `has_ascii_within`: bytes below 128 are
    characters.
    """
    start = Cookie(chunk.place, chunk.flags)
    if skip == 0:
        return start
    # One more byte: no place behind the first will do.
    head = chunk.data[: skip + 1]
    if has_ascii_within and not chunk.flags and head.isascii() and b"\r" not in head and len(head) > skip:
        return Cookie(chunk.place + skip)
    saved = decoder.getstate()
    try:
        return _walked(decoder, chunk, _near(decoder, chunk, skip, ratio))
    finally:
        decoder.setstate(saved)


def _near(decoder: Any, chunk: Chunk, skip: int, ratio: float) -> Cookie:
    """A place before, from where `skip` characters are left: where the decoder holds nothing back."""
    start = Cookie(chunk.place, chunk.flags, 0, skip)
    count, back = min(int(ratio * skip), len(chunk.data)), 1
    while count > 0:
        start.restore(decoder)
        found = len(decoder.decode(chunk.data[:count]))
        if found > skip:
            count -= back
            back *= 2
            continue
        kept, flags = decoder.getstate()
        if not kept:
            return Cookie(chunk.place + count, flags, 0, skip - found)
        count -= len(kept)
        back = 1
    start.restore(decoder)
    return start


def _walked(decoder: Any, chunk: Chunk, near: Cookie) -> Cookie:
    """Goes on byte by byte. The decoder is in the state that it has at that place."""
    place, flags, skip = near.place, near.flags, near.skip
    fed = found = 0
    if not skip:
        return near
    for byte in chunk.data[near.place - chunk.place :]:
        found += len(decoder.decode(bytes((byte,))))
        fed += 1
        kept, now = decoder.getstate()
        if not kept and found <= skip:
            place, flags, skip, fed, found = place + fed, now, skip - found, 0, 0
        if found >= skip:
            return Cookie(place, flags, fed, skip)
    if found + len(decoder.decode(b"", True)) < skip:
        raise OSError("can't reconstruct logical file position")
    return Cookie(place, flags, fed, skip, at_end=True)


def after_read(buffer: tuple[int, int] | None, place: int, count: int, block: int) -> tuple[int, int] | None:
    """What the buffer of `io` has of the file after a read of `count` bytes at `place`."""
    if buffer is not None and buffer[0] <= place <= buffer[1]:
        have = buffer[1] - place
        if count <= have:
            return buffer
        place, count = place + have, count - have
    # Whole blocks go past it.
    place, count = place + count // block * block, count % block
    return (place, place + block) if count else None
