"""Positions in text files: where to start decoding, and how many characters to skip then."""

from __future__ import annotations

from typing import Any, NamedTuple


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

    def pack(self) -> int:
        return self.place | self.flags << 64 | self.feed << 128 | self.skip << 192 | bool(self.at_end) << 256

    @classmethod
    def unpack(cls, number: int) -> Cookie:
        if number >> 257:
            raise OverflowError("int too big to convert")
        place, flags, feed, skip = (number >> shift & (1 << 64) - 1 for shift in (0, 64, 128, 192))
        return cls(place, flags, feed, skip, bool(number >> 256))


def cookie_of(decoder: Any, chunk: Chunk, skip: int, has_ascii_within: bool) -> int:
    """The position `skip` characters into the chunk, where possible a place from which nothing is skipped.

    `has_ascii_within`: bytes below 128 are characters.
    """
    if skip == 0:
        # At the beginning of the file a decoder is new. (`io` says so unless nothing was found by a read of a
        # given size: what is written there then has no byte order mark.)
        return Cookie(chunk.place, chunk.flags if chunk.place else 0).pack()
    head = chunk.data[:skip]
    if has_ascii_within and not chunk.flags and head.isascii() and b"\r" not in head and len(head) == skip:
        return Cookie(chunk.place + skip).pack()
    saved = decoder.getstate()
    try:
        decoder.setstate((b"", chunk.flags))
        place, flags, fed, decoded = chunk.place, chunk.flags, 0, 0
        for byte in range(len(chunk.data)):
            decoded += len(decoder.decode(chunk.data[byte : byte + 1]))
            fed += 1
            kept, now = decoder.getstate()
            if not kept and decoded <= skip:
                # Nothing is held back here: a place to start from.
                place, flags, skip, fed, decoded = place + fed, now, skip - decoded, 0, 0
            if decoded >= skip:
                return Cookie(place, flags, fed if skip else 0, skip).pack()
        decoded += len(decoder.decode(b"", True))
        if decoded < skip:
            raise OSError("can't reconstruct logical file position")
        return Cookie(place, flags, fed, skip, at_end=True).pack()
    finally:
        decoder.setstate(saved)
