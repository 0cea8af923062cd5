"""The same random programs on `io.open` and on `proactor.open`: same results, errors and bytes on disk."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import proactor
import pytest
from conftest import Run
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

BINARY = b"one\ntwo\r\n\nfour \xc3\xa9 and a bit more\rand\x00no end"
TEXT = "one\ntwo\r\n\nfour é and ☃ and 😀\rmore, and then\r\n\r\nno end"

EXAMPLES = settings(
    max_examples=60,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)

Step = tuple[Any, ...]


class Plain:
    """A file of `io` with its methods as coroutines."""

    def __init__(self, file: Any) -> None:
        self.file = file

    def __getattr__(self, name: str) -> Any:
        method = getattr(self.file, name)
        if not callable(method) or name in ("readable", "writable", "seekable", "fileno", "isatty"):
            return method

        async def call(*arguments: Any) -> Any:
            return method(*arguments)

        return call


async def outcome(method: Any, *arguments: Any) -> Any:
    try:
        return await method(*arguments)
    except (OSError, ValueError, TypeError) as error:
        # UnsupportedOperation is an OSError and a ValueError.
        kind = type(error).__mro__[0].__name__
        return kind, getattr(error, "errno", None)


async def play(file: Any, script: list[Step]) -> list[Any]:
    """What each step gives. Positions of text files are compared by where they lead to."""
    results: list[Any] = []
    marks: list[int] = []
    for name, *arguments in script:
        if name == "mark":
            found = await outcome(file.tell)
            if isinstance(found, int):
                marks.append(found)
                found = "a place"
            results.append(found)
        elif name == "back":
            if marks:
                found = await outcome(file.seek, marks[arguments[0] % len(marks)])
                results.append("a place" if isinstance(found, int) else found)
        elif name == "stay":
            found = await outcome(file.seek, 0, 1)
            results.append("a place" if isinstance(found, int) else found)
        elif name == "readinto":
            target = bytearray(arguments[0])
            results.append((await outcome(file.readinto, target), bytes(target)))
        else:
            results.append(await outcome(getattr(file, name), *arguments))
    results.append(await outcome(file.close))
    results.append(file.closed)
    results.append(await outcome(file.close))
    return results


async def both(tmp: Path, content: bytes, script: list[Step], mode: str, **options: Any) -> None:
    theirs, ours = tmp / "theirs", tmp / "ours"
    for path in (theirs, ours):
        if "x" in mode:
            path.unlink(missing_ok=True)
        else:
            path.write_bytes(content)
    plain_options = {k: v for k, v in options.items() if k != "engine"}
    expected = await play(Plain(open(theirs, mode, **plain_options)), script)  # noqa: SIM115, ASYNC230
    file = await proactor.open(ours, mode, **options)
    assert await play(file, script) == expected
    assert ours.read_bytes() == theirs.read_bytes()


# (Of a file that cannot be read, io 3.13 refuses None before anything else.)
sizes = st.one_of(st.just(-1), st.integers(0, 60))
offsets = st.integers(-5, 60)
binary_steps = st.one_of(
    st.tuples(st.just("read"), sizes),
    # io lets a file that is open for writing only be asked for no bytes of a line.
    st.tuples(st.just("readline"), st.one_of(st.just(-1), st.integers(1, 30))),
    st.tuples(st.just("readlines"), st.one_of(st.just(-1), st.integers(0, 30))),
    st.tuples(st.just("readinto"), st.integers(0, 50)),
    st.tuples(st.just("write"), st.binary(max_size=40)),
    st.tuples(st.just("seek"), offsets, st.sampled_from([0, 1, 2])),
    st.tuples(st.just("tell")),
    st.tuples(st.just("truncate"), st.one_of(st.none(), st.integers(0, 80))),
    st.tuples(st.just("flush")),
)


@pytest.mark.leaks("the loop and its driver are the module's")
def test_binary(loop: asyncio.AbstractEventLoop, engine: str, tmp_path: Path) -> None:
    modes = st.sampled_from(["rb", "r+b", "wb", "w+b", "xb", "x+b"])

    @EXAMPLES
    @given(st.lists(binary_steps, max_size=20), modes, st.sampled_from([-1, 2, 7, 16, 8192]))
    def check(script: list[Step], mode: str, buffering: int) -> None:
        loop.run_until_complete(both(tmp_path, BINARY, script, mode, buffering=buffering, engine=engine))

    check()


@pytest.mark.leaks("the loop and its driver are the module's")
def test_binary_at_the_end(loop: asyncio.AbstractEventLoop, engine: str, tmp_path: Path) -> None:
    # Between a write and its flush io's positions mean nothing.
    steps = st.one_of(
        st.tuples(st.just("write"), st.binary(max_size=40)).map(lambda step: [step, ("flush",), ("tell",)]),
        st.tuples(st.just("seek"), st.integers(0, 60)).map(lambda step: [step]),
        st.tuples(st.just("read"), sizes).map(lambda step: [step]),
    )

    @EXAMPLES
    @given(st.lists(steps, max_size=12), st.sampled_from(["ab", "a+b"]), st.sampled_from([-1, 2, 16]))
    def check(script: list[list[Step]], mode: str, buffering: int) -> None:
        flat = [step for group in script for step in group]
        loop.run_until_complete(both(tmp_path, BINARY, flat, mode, buffering=buffering, engine=engine))

    check()


@pytest.mark.leaks("the loop and its driver are the module's")
def test_unbuffered(loop: asyncio.AbstractEventLoop, engine: str, tmp_path: Path) -> None:
    @EXAMPLES
    @given(st.lists(binary_steps, max_size=20), st.sampled_from(["rb", "r+b", "w+b"]))
    def check(script: list[Step], mode: str) -> None:
        loop.run_until_complete(both(tmp_path, BINARY, script, mode, buffering=0, engine=engine))

    check()


text = st.text(st.sampled_from("ab\n\ré☃"), max_size=20)
text_steps = st.one_of(
    st.tuples(st.just("read"), st.one_of(st.none(), st.just(-1), st.integers(0, 40))),
    st.tuples(st.just("readline"), st.one_of(st.just(-1), st.integers(0, 30))),
    # After a hint io would refuse to tell, for it counts as iterating.
    st.tuples(st.just("readlines"), st.just(-1)),
    st.tuples(st.just("mark")),
    st.tuples(st.just("back"), st.integers(0, 9)),
    st.tuples(st.just("stay")),
    st.tuples(st.just("seek"), st.just(0), st.sampled_from([0, 2])),
    st.tuples(st.just("seek"), st.just(3), st.sampled_from([1, 2, 9])),
)
ENCODINGS = ["utf-8", "ascii", "latin-1", "utf-16", "utf-8-sig", "cp1252", "utf-32-le", "shift_jis"]
newlines = st.sampled_from([None, "", "\n", "\r", "\r\n"])


@pytest.mark.leaks("the loop and its driver are the module's")
@pytest.mark.parametrize("encoding", ENCODINGS)
def test_text_reading(loop: asyncio.AbstractEventLoop, tmp_path: Path, encoding: str) -> None:
    content = TEXT.encode(encoding, "replace")

    @EXAMPLES
    @given(st.lists(text_steps, max_size=20), newlines, st.sampled_from(["strict", "replace"]))
    def check(script: list[Step], newline: str | None, errors: str) -> None:
        options = {"encoding": encoding, "newline": newline, "errors": errors}
        loop.run_until_complete(both(tmp_path, content, script, "r", **options))

    check()


@pytest.mark.leaks("the loop and its driver are the module's")
@pytest.mark.parametrize("encoding", ENCODINGS)
def test_text_writing(loop: asyncio.AbstractEventLoop, tmp_path: Path, encoding: str) -> None:
    steps = st.one_of(
        st.tuples(st.just("write"), text),
        st.tuples(st.just("writelines"), st.lists(text, max_size=3)),
        st.tuples(st.just("flush")),
        st.tuples(st.just("seek"), st.just(0), st.sampled_from([0, 2])),
        st.tuples(st.just("read"), st.just(-1)),
    )

    modes = st.sampled_from(["w", "a", "x", "w+"])

    @EXAMPLES
    @given(st.lists(steps, max_size=10), modes, newlines, st.sampled_from([-1, 1, 7]))
    def check(script: list[Step], mode: str, newline: str | None, buffering: int) -> None:
        options = {
            "encoding": encoding,
            "newline": newline,
            "errors": "replace",
            "buffering": buffering,
        }
        loop.run_until_complete(both(tmp_path, TEXT.encode(encoding, "replace"), script, mode, **options))

    check()


BAD_ARGUMENTS: list[dict[str, Any]] = [
    {"mode": "q"},
    {"mode": "rw"},
    {"mode": "rr"},
    {"mode": "r+w"},
    {"mode": "b"},
    {"mode": ""},
    {"mode": "rbt"},
    {"mode": "rb", "encoding": "utf-8"},
    {"mode": "rb", "errors": "strict"},
    {"mode": "rb", "newline": "\n"},
    {"mode": "r", "buffering": 0},
    {"mode": "r", "newline": "x"},
    {"mode": "r", "encoding": "no-such-encoding"},
    {"mode": "rb", "closefd": False},
    {"mode": 3},
]


@pytest.mark.parametrize("arguments", BAD_ARGUMENTS, ids=str)
def test_bad_arguments(loop: asyncio.AbstractEventLoop, tmp_path: Path, arguments: dict[str, Any]) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"content")
    with pytest.raises((ValueError, TypeError, LookupError)) as theirs:
        open(path, **arguments)  # noqa: SIM115
    with pytest.raises(type(theirs.value)) as ours:
        proactor.open(path, **arguments)
    assert str(ours.value) == str(theirs.value)


@pytest.mark.parametrize("kind", [str, os.fsencode, Path], ids=["str", "bytes", "Path"])
def test_names(loop: asyncio.AbstractEventLoop, tmp_path: Path, kind: Any) -> None:
    path = kind(str(tmp_path / "file"))
    seen: list[Any] = []

    def opener(path: Any, flags: int) -> int:
        seen.append(path)
        return os.open(path, flags, 0o600)

    async def main() -> None:
        for mode in ("w", "wb"):
            with open(path, mode, opener=opener) as theirs:  # noqa: ASYNC230
                async with proactor.open(path, mode, opener=opener) as ours:
                    assert repr(ours.name) == repr(theirs.name)
            assert repr(seen.pop()) == repr(seen.pop())

    loop.run_until_complete(main())


def test_errors_of_the_system(loop: asyncio.AbstractEventLoop, engine: str, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"content")

    async def check(path: str, mode: str) -> None:
        with pytest.raises(OSError, match="Errno") as theirs:
            open(path, mode)  # noqa: SIM115, ASYNC230
        with pytest.raises(OSError, match="Errno") as ours:
            await proactor.open(path, mode, engine=engine)
        assert type(ours.value) is type(theirs.value)
        assert (ours.value.errno, ours.value.filename) == (theirs.value.errno, path)

    for name in ("no/missing", "missing/file", ".", "file/x"):
        for mode in ("r", "rb", "r+b", "w", "a"):
            loop.run_until_complete(check(str(tmp_path / name), mode))


def on_a_terminal(path: str, **arguments: Any) -> list[bool]:
    """What `io` says of lines on a terminal."""
    with open(path, "w", **arguments) as theirs:
        return [theirs.line_buffering, theirs.isatty()]


@pytest.mark.parametrize("buffering", [-1, 1, 4096])
def test_lines_on_a_terminal(run: Run, buffering: int) -> None:
    """They arrive without a flush where they do with `io`."""
    main_side, terminal = os.openpty()
    os.set_blocking(main_side, False)
    name = os.ttyname(terminal)

    def arrived() -> bytes:
        try:
            return os.read(main_side, 100)
        except BlockingIOError:
            return b""

    async def main() -> None:
        async with proactor.open(name, "w", buffering) as file:
            assert [file.line_buffering, file.isatty()] == on_a_terminal(name, buffering=buffering)
            await file.write("line\n")
            assert arrived() == (b"line\r\n" if file.line_buffering else b"")
        async with proactor.open(os.devnull, "w", buffering) as file:
            assert file.line_buffering == (buffering == 1)

    try:
        run(main())
    finally:
        os.close(main_side)
        os.close(terminal)


@pytest.mark.parametrize("buffering", [-1, 0])
@pytest.mark.parametrize("path", ["/proc/self/status", "/proc/self/mem", "/dev/null", __file__])
def test_the_end_is_where_the_kernel_says(run: Run, path: str, buffering: int) -> None:
    def outcome(seek: Callable[[], int]) -> object:
        try:
            return seek()
        except OSError as e:
            return e.errno

    async def main() -> None:
        with open(path, "rb", buffering) as theirs:  # noqa: ASYNC230
            async with proactor.open(path, "rb", buffering) as ours:
                for offset in (0, -4, 4, -(10**6), 10**18):
                    expected = outcome(lambda offset=offset: theirs.seek(offset, os.SEEK_END))  # type: ignore[misc]
                    try:
                        found: object = await ours.seek(offset, os.SEEK_END)
                    except OSError as e:
                        found = e.errno
                    assert found == expected, offset
                    assert await ours.tell() == theirs.tell()

    run(main())


@pytest.mark.parametrize("mode", ["r", "rb"])
def test_an_openers_descriptor_is_not_inherited(run: Run, tmp_path: Path, mode: str) -> None:
    path = tmp_path / "f"
    path.touch()

    def opener(name: str, flags: int) -> int:
        fd = os.open(name, flags)
        os.set_inheritable(fd, True)
        return fd

    async def main() -> None:
        async with proactor.open(path, mode, opener=opener) as file:
            assert not os.get_inheritable(file.fileno())
        # The caller's own stays as it is.
        async with proactor.open(opener(str(path), os.O_RDONLY), mode) as file:
            assert os.get_inheritable(file.fileno())

    run(main())
