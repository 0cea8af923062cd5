"""Random files, arguments of `open` and ops: what open_against_io.py plays. Knows neither side."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

MOST_OPS = 25
Op = tuple[Any, ...]

# Not the ISO-2022 ones: CPython's decoders crash in a state that `io` sets when it seeks.
ENCODINGS = [
    *(
        "utf-8",
        "utf-8",
        "utf-8",
        "ascii",
        "latin-1",
        "utf-8-sig",
        "utf-16",
        "utf-16-le",
        "utf-32",
        "utf-32-be",
    ),
    *("utf-7", "gb18030", "shift_jis", "euc_jp", "hz", "big5", "cp1252", "cp037"),
]
NEWLINES = [None, None, "", "\n", "\r", "\r\n"]
ERRORS = ["strict", "strict", "replace", "ignore", "surrogateescape", "backslashreplace"]
# What each encoding can write, so that most cases come to their end.
ALPHABETS = {
    "utf": "ab é☃😀ﬁ\u0301",
    "ascii": "ab~+",
    "latin-1": "abé\xa0ÿ",
    "cp1252": "abé€",
    "cp037": "abé",
    "other": "ab~{日本語",
}


@dataclass(frozen=True)
class Case:
    """One program: what is opened, and what is done with it."""

    content: bytes
    mode: str
    ops: tuple[Op, ...]
    buffering: int = -1
    text: tuple[tuple[str, Any], ...] = ()
    # "file", "pipe" (to be read) or "sink" (a pipe to be written).
    kind: str = "file"
    engine: str | None = None

    @property
    def is_text(self) -> bool:
        return "b" not in self.mode

    @property
    def is_decodable(self) -> bool:
        """Whether no read of the content raises UnicodeError."""
        if not self.is_text:
            return True
        text = dict(self.text)
        try:
            self.content.decode(text.get("encoding") or "utf-8", text.get("errors") or "strict")
        except UnicodeError:
            return False
        return True


def alphabet(encoding: str) -> str:
    name = "utf" if encoding.startswith("utf") else encoding
    return ALPHABETS.get(name, ALPHABETS["other"])


def some_text(rng: random.Random, encoding: str, most: int) -> str:
    """Lines of all kinds of ends and lengths."""
    letters, ends = alphabet(encoding), ["\n", "\n", "\r\n", "\r", "\n\n", "\r\r\n"]
    if rng.random() < 0.3:
        ends = ["\n"]
    if rng.random() < 0.4:
        letters = "ab"
    parts: list[str] = []
    total, goal = 0, rng.choice([0, 1, 5, 50, most, rng.randrange(most + 1)])
    while total < goal:
        length = min(rng.choice([0, 1, 3, 20, 80, 300]), goal - total)
        line = "".join(rng.choices(letters, k=length)) + (rng.choice(ends) if rng.random() < 0.9 else "")
        parts.append(line or "a")
        total += len(parts[-1])
    return "".join(parts)


def encoded(text: str, encoding: str) -> bytes:
    return text.encode(encoding, "replace")


def some_bytes(rng: random.Random, most: int) -> bytes:
    if rng.random() < 0.2:
        return rng.randbytes(rng.randrange(most + 1))
    return some_text(rng, "utf-8", most).encode()[:most]


def a_size(rng: random.Random) -> int:
    return rng.choice(
        [0, 1, 2, 3, 5, 17, 100, 4095, 4096, 8191, 8192, 8193, 20000, 40000, rng.randrange(1, 300)]
    )


def text_op(rng: random.Random, encoding: str, mode: str, kind: str) -> Op:
    reads: list[Callable[[], Op]] = [
        lambda: ("read", a_size(rng)),
        lambda: ("read", rng.randrange(1, 20)),
        lambda: ("readline", rng.choice([-1, -1, -1, 0, 1, 5, 200])),
        lambda: ("next", rng.randrange(1, 6)),
        lambda: ("readlines", rng.choice([1, 10, 500, 9000])),
        lambda: ("read", -1) if rng.random() < 0.3 else ("readline", -1),
        lambda: ("readlines", -1) if rng.random() < 0.3 else ("next", 3),
    ]
    writes: list[Callable[[], Op]] = [
        lambda: ("write", some_text(rng, encoding, rng.choice([3, 30, 30, 10000]))),
        lambda: ("write", ""),
        lambda: ("writelines", tuple(some_text(rng, encoding, 10) for _ in range(rng.randrange(4)))),
        lambda: ("flush",),
        lambda: ("truncate", rng.choice([None, a_size(rng)])) if kind == "file" else ("flush",),
    ]
    places: list[Callable[[], Op]] = [
        lambda: ("tell",),
        lambda: ("tell",),
        lambda: ("seek_known", rng.randrange(1 << 16)),
        lambda: ("seek_known", rng.randrange(1 << 16)),
        lambda: ("seek", 0, rng.choice([0, 0, 1, 2])),
    ]
    return rng.choice(kinds_of(rng, mode, kind, reads, writes, places))()


def binary_op(rng: random.Random, mode: str, kind: str) -> Op:
    reads: list[Callable[[], Op]] = [
        lambda: ("read", a_size(rng)),
        lambda: ("read", -1) if rng.random() < 0.3 else ("readline", -1),
        lambda: ("read1", rng.choice([-1, 1, 100, 9000])),
        lambda: ("readline", rng.choice([-1, -1, 0, 1, 5, 200])),
        lambda: ("next", rng.randrange(1, 6)),
        lambda: ("readlines", rng.choice([-1, 1, 10, 500, 9000])),
        lambda: ("readinto", a_size(rng)),
        lambda: ("peek",),
    ]
    writes: list[Callable[[], Op]] = [
        lambda: ("write", some_bytes(rng, rng.choice([3, 30, 30, 10000, 50000]))),
        lambda: ("writelines", tuple(some_bytes(rng, 10) for _ in range(rng.randrange(4)))),
        lambda: ("flush",),
        lambda: ("truncate", rng.choice([None, a_size(rng)])) if kind == "file" else ("flush",),
    ]
    places: list[Callable[[], Op]] = [
        lambda: ("tell",),
        lambda: ("seek", a_size(rng), 0),
        lambda: ("seek", rng.randrange(-50, 50), 1),
        lambda: ("seek", -rng.randrange(50), 2),
    ]
    return rng.choice(kinds_of(rng, mode, kind, reads, writes, places))()


def kinds_of(
    rng: random.Random,
    mode: str,
    kind: str,
    reads: list[Callable[[], Op]],
    writes: list[Callable[[], Op]],
    places: list[Callable[[], Op]],
) -> list[Callable[[], Op]]:
    kinds = []
    if "r" in mode or "+" in mode:
        kinds += [reads, reads]
    if "r" not in mode or "+" in mode:
        kinds += [writes]
    if kind == "file":
        kinds += [places]
    return rng.choice(kinds)


def make(rng: random.Random) -> Case:
    """A random case."""
    kind = rng.choice(["file"] * 8 + ["pipe", "sink"])
    base = {"file": ["r", "r", "r+", "r+", "w", "w+", "a", "a+"], "pipe": ["r"], "sink": ["w"]}[kind]
    mode = rng.choice(base)
    engine = rng.choice(["io_uring", "threads", "linux_aio", "posix_aio"])
    most = rng.choice([10, 200, 3000, 20000, 60000])
    count = rng.randrange(1, MOST_OPS)
    if rng.random() < 0.4:
        buffering = rng.choice([-1, -1, 0, 2, 3, 8, 100, 4096, 8192, 10000])
        ops = tuple(binary_op(rng, mode, kind) for _ in range(count))
        return Case(some_bytes(rng, most), mode + "b", ops, buffering, (), kind, engine)
    encoding, newline = rng.choice(ENCODINGS), rng.choice(NEWLINES)
    content = encoded(some_text(rng, encoding, most), encoding)
    errors = rng.choice(ERRORS)
    if rng.random() < 0.1:
        # Not valid in most encodings.
        at = rng.randrange(len(content) + 1)
        content = content[:at] + rng.randbytes(rng.randrange(1, 4)) + content[at:]
    options = {"encoding": encoding, "newline": newline, "errors": errors}
    buffering = rng.choice([-1, -1, -1, 1, 2, 100, 8192])
    ops = tuple(text_op(rng, encoding, mode, kind) for _ in range(count))
    return Case(content, mode, ops, buffering, tuple(options.items()), kind, engine)


def smaller(case: Case) -> Iterator[Case]:
    """Cases with something less, large steps first."""
    size = len(case.ops)
    while size:
        for at in range(0, len(case.ops), size):
            yield replace(case, ops=case.ops[:at] + case.ops[at + size :])
        size //= 2
    size = len(case.content)
    while size:
        for at in range(0, len(case.content), size):
            yield replace(case, content=case.content[:at] + case.content[at + size :])
        size = size // 2 if size > 8 or len(case.content) < 300 else 0
    if case.engine != "threads":
        yield replace(case, engine="threads")
    if case.buffering != -1:
        yield replace(case, buffering=-1)
    for at, op in enumerate(case.ops):
        for argument in op[1:]:
            if isinstance(argument, (bytes, str)) and len(argument) > 1:
                for less in (argument[: len(argument) // 2], argument[:-1]):
                    yield replace(case, ops=(*case.ops[:at], (op[0], less), *case.ops[at + 1 :]))
