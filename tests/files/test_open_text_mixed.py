"""Reading, writing, seeking and truncating of one text file, as `io.open` does it; far away, too."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import proactor
import pytest
from conftest import Run
from hypothesis import given
from hypothesis import strategies as st
from test_open_parity import EXAMPLES, TEXT, Step, both, newlines

text = st.text(st.sampled_from("ab\n\ré☃"), min_size=1, max_size=20)
places = st.one_of(
    st.tuples(st.just("back"), st.integers(0, 9)),
    st.tuples(st.just("seek"), st.just(0), st.sampled_from([0, 2])),
)
# Where a write goes after a read, and a read after a write, depends on what was read ahead. No promise:
# the documentation of `io` wants a seek or flush in between.
groups = st.one_of(
    st.tuples(places, st.lists(st.tuples(st.just("write"), text), max_size=3)),
    st.tuples(
        places,
        st.lists(
            st.one_of(
                st.tuples(st.just("read"), st.just(-1)),
                st.tuples(st.just("readline"), st.one_of(st.just(-1), st.integers(1, 30))),
                st.tuples(st.just("mark")),
            ),
            max_size=4,
        ),
    ),
    st.tuples(places, st.just([("truncate", None)])),
    st.tuples(st.just(("flush",)), st.just([("mark",)])),
    st.tuples(places, st.just([("stay",), ("mark",)])),
)
FOUR_GB = 4 << 30


def check_mixed(loop: asyncio.AbstractEventLoop, tmp_path: Path, encoding: str, engine: str | None) -> None:
    content = TEXT.encode(encoding, "replace")
    modes = st.sampled_from(["r+", "w+", "x+", "a+"])

    @EXAMPLES
    @given(st.lists(groups, max_size=8), modes, newlines, st.sampled_from([-1, 1, 7]))
    def check(script: list[tuple[Step, list[Step]]], mode: str, newline: str | None, buffering: int) -> None:
        flat: list[Step] = [("mark",), *(step for place, steps in script for step in (place, *steps))]
        options = {"encoding": encoding, "newline": newline, "errors": "replace", "buffering": buffering}
        loop.run_until_complete(both(tmp_path, content, flat, mode, engine=engine, **options))

    check()


@pytest.mark.leaks("the loop and its driver are the module's")
@pytest.mark.parametrize("encoding", ["latin-1", "utf-16", "utf-8-sig", "cp1252", "shift_jis"])
def test_mixed(loop: asyncio.AbstractEventLoop, tmp_path: Path, encoding: str) -> None:
    check_mixed(loop, tmp_path, encoding, None)


@pytest.mark.leaks("the loop and its driver are the module's")
def test_mixed_on_each_engine(loop: asyncio.AbstractEventLoop, engine: str, tmp_path: Path) -> None:
    check_mixed(loop, tmp_path, "utf-8", engine)


def test_the_beginning_of_an_empty_file(run: Run, tmp_path: Path) -> None:
    """Its position is 0, whatever was tried to be read: what is written there has a byte order mark."""
    path = tmp_path / "file"

    async def main() -> None:
        for read in ("read", "readline", "readlines"):
            path.write_bytes(b"")
            async with proactor.open(path, "r+", encoding="utf-16") as file:
                assert not await getattr(file, read)()
                assert await file.seek(await file.tell()) == 0
                await file.write("a")
            assert path.read_text(encoding="utf-16") == "a"

    run(main())


@pytest.mark.parametrize("encoding", ["utf-8", "latin-1", "utf-16-le", "shift_jis"])
def test_beyond_four_gigabytes(run: Run, engine: str, tmp_path: Path, encoding: str) -> None:
    """Positions lead back there, within a chunk as well, and what `io` is told by ours it understands."""
    path = tmp_path / "sparse"
    lines = [f"line {number} ¶\n" for number in range(2_000)]
    data = "".join(lines).encode(encoding)
    with path.open("wb") as sparse:
        sparse.seek(FOUR_GB + 10)
        sparse.write(data)

    async def main() -> int:
        async with proactor.open(path, "r+", encoding=encoding, newline="", engine=engine) as file:
            assert await file.seek(FOUR_GB + 10) == FOUR_GB + 10
            assert [await file.readline() for _ in range(1_000)] == lines[:1_000]
            place = await file.tell()
            assert await file.read() == "".join(lines[1_000:])
            end = await file.tell()
            assert end == FOUR_GB + 10 + len(data)
            await file.seek(place)
            assert await file.readline() == lines[1_000]
            await file.seek(0, os.SEEK_END)
            await file.write("the end ¶")
            await file.flush()
            assert await file.tell() == end + len("the end ¶".encode(encoding))
            await file.seek(end)
            assert await file.read() == "the end ¶"
            await file.seek(end)
            assert await file.truncate() == end
        return place

    place = run(main())
    assert path.stat().st_size == FOUR_GB + 10 + len(data)
    with path.open(encoding=encoding, newline="") as plain:
        plain.seek(place)
        assert plain.readline() == lines[1_000]
