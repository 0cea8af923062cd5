"""`read_many` of ranges and into the caller's memory, with a loop and without."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import proactor
import proactor.sync
import pytest
from file_helpers import LARGE_BYTES, MIB, content, in_time, resizable

SIZES = (0, 1, 4096, 100_000, MIB, MIB + 1, LARGE_BYTES)
PROC = Path("/proc/sys/kernel/ostype")

Reader = Callable[..., list[tuple[Any, Any]]]


def with_a_loop(items: Iterable[Any], *, given: bool = False, **arguments: Any) -> list[tuple[Any, Any]]:
    async def main() -> list[tuple[Any, Any]]:
        reader: Any = proactor.read_bytes_many if given else proactor.read_many
        async with reader(items, **arguments) as batch:
            return [pair async for pair in batch]

    return asyncio.run(in_time(main()))


def without(items: Iterable[Any], *, given: bool = False, **arguments: Any) -> list[tuple[Any, Any]]:
    reader: Any = proactor.sync.read_bytes_many if given else proactor.sync.read_many
    with reader(items, **arguments) as batch:
        return list(batch)


@pytest.fixture(autouse=True)
def driver_ends() -> Iterator[None]:
    """This thread's driver would stay as long as the thread."""
    yield
    proactor.sync._of_thread.loop = None


@pytest.fixture(params=[with_a_loop, without])
def read(request: pytest.FixtureRequest) -> Reader:
    reader: Reader = request.param
    return reader


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Cached ones of each size, some of which always go to the engine."""
    folder = tmp_path_factory.mktemp("files")
    paths = [folder / str(size) for size in SIZES for _ in range(1)] * 5
    for size in SIZES:
        (folder / str(size)).write_bytes(content(size, size % 7))
    return paths


class TestRanges:
    def test_ranges(self, read: Reader, files: list[Path], engine: str) -> None:
        ranges = [
            (path, offset, size)
            for path in files
            for offset, size in ((0, 10), (5, 0), (4000, 200), (0, 2 * MIB), (90_000, 4 * MIB))
        ]
        for (path, offset, size), data in read(ranges, engine=engine):
            assert data == path.read_bytes()[offset : offset + size], (path, offset, size)

    def test_with_whole_files_and_helpers(self, read: Reader, files: list[Path]) -> None:
        items = [item for path in files * 20 for item in (path, (str(path), 100, 1000))]
        for item, data in read(items, workers=1):
            path, part = (item, slice(None)) if isinstance(item, Path) else (Path(item[0]), slice(100, 1100))
            assert data == path.read_bytes()[part]

    def test_of_a_file_that_states_no_size(self, read: Reader) -> None:
        assert read([(PROC, 0, 3), (PROC, 2, 100)]) == [
            ((PROC, 0, 3), PROC.read_bytes()[:3]),
            ((PROC, 2, 100), PROC.read_bytes()[2:]),
        ]

    @pytest.mark.parametrize(
        ("item", "error", "text"),
        [
            (("f", 1), TypeError, r"\(path, offset, size\)"),
            (("f", -1, 5), ValueError, "offset must be at least 0"),
            (("f", 0, -1), ValueError, "size must be at least 0"),
            (("f", 0, 1 << 70), ValueError, "size"),
            (("f", "0", 1), TypeError, "offset is a number"),
        ],
    )
    def test_misuse(self, read: Reader, item: Any, error: type[Exception], text: str) -> None:
        with pytest.raises(error, match=text):
            read([item])

    def test_an_error_names_the_path(self, read: Reader, tmp_path: Path) -> None:
        missing = str(tmp_path / "missing")
        with pytest.raises(FileNotFoundError) as caught:
            read([(missing, 0, 10)])
        assert caught.value.filename == missing


class TestInto:
    @pytest.mark.parametrize("ordered", [True, False])
    def test_into_what_is_made(self, read: Reader, files: list[Path], engine: str, ordered: bool) -> None:
        found = read(files, into=bytearray, engine=engine, ordered=ordered)
        assert len(found) == len(files)
        for path, buffer in found:
            assert type(buffer) is bytearray
            assert buffer == path.read_bytes()
            assert resizable(buffer)

    def test_into_arrays(self, read: Reader, files: list[Path]) -> None:
        for path, array in read(files, into=lambda size: np.empty(size, np.uint8)):
            assert array.tobytes() == path.read_bytes()
        (_, array), (_, part) = read(
            [files[2], (files[3], 50_000, 100)], into=lambda size: np.zeros(size + 10, np.uint8)
        )
        assert array.tobytes() == files[2].read_bytes() + bytes(10)
        assert part[:100].tobytes() == files[3].read_bytes()[50_000:50_100]

    def test_a_file_that_states_no_size(self, read: Reader) -> None:
        assert read([PROC], into=bytearray) == [(PROC, bytearray(PROC.read_bytes()))]

    def test_what_it_raises_is_that_files_error(self, read: Reader, files: list[Path]) -> None:
        def refuse(size: int) -> bytearray:
            raise LookupError(size)

        found = read(files[:7], into=refuse, return_exceptions=True)
        assert [type(value) for _, value in found] == [LookupError] * 7

    @pytest.mark.parametrize(
        ("into", "error", "text"),
        [
            (lambda size: bytearray(size - 1), ValueError, r"into\(4096\) has given a buffer of 4095 bytes"),
            (bytes, BufferError, "writable"),
            (lambda size: None, TypeError, "bytes-like"),
            (5, TypeError, "into is a function, not int"),
        ],
    )
    def test_misuse(
        self, read: Reader, files: list[Path], into: Any, error: type[Exception], text: str
    ) -> None:
        with pytest.raises(error, match=text):
            read([files[2]], into=into)

    def test_helpers_have_no_effect_there(self, files: list[Path]) -> None:
        with pytest.raises(ValueError, match="workers has no effect"):
            proactor.sync.read_many(files, into=bytearray, workers=1)  # type: ignore[call-overload]

    def test_the_function_may_use_the_batch(self, files: list[Path]) -> None:
        """It runs where nothing of the batch is held."""
        taken: list[Any] = []

        def into(size: int) -> bytearray:
            with suppress(StopIteration):
                taken.append(next(batch))
            return bytearray(size)

        batch = proactor.sync.read_many(iter(files[:3]), into=into)
        taken.extend(batch)
        assert sorted(path for path, _ in taken) == sorted(files[:3])


class TestGiven:
    def test_buffers(self, read: Reader, files: list[Path], engine: str) -> None:
        items = [(path, bytearray(path.stat().st_size + 3)) for path in files]
        found = read(items, given=True, engine=engine)
        assert [item for item, _ in found] == items
        for (path, buffer), count in found:
            assert buffer[:count] == path.read_bytes()
            assert buffer[count:] == bytes(3)
            assert resizable(buffer)

    def test_ranges_of_one_file_in_one_array(self, read: Reader, files: list[Path]) -> None:
        large = files[6]
        whole = np.zeros(LARGE_BYTES, np.uint8)
        parts = [(large, whole[at : at + MIB], at, MIB) for at in range(0, LARGE_BYTES, MIB)]
        counts = [count for _, count in read(parts, given=True)]
        assert sum(counts) == LARGE_BYTES
        assert whole.tobytes() == large.read_bytes()

    def test_a_file_that_states_no_size(self, read: Reader) -> None:
        buffer = bytearray(100)
        ((_, count),) = read([(PROC, buffer)], given=True)
        assert buffer[:count] == PROC.read_bytes()

    def test_a_file_that_does_not_fit(self, read: Reader, files: list[Path]) -> None:
        items = [(path, bytearray(1)) for path in (files[2], files[6], PROC)]
        for (path, buffer), error in read(items, given=True, return_exceptions=True):
            assert isinstance(error, OSError)
            assert "too large" in str(error)
            assert error.filename == path
            assert resizable(buffer)

    @pytest.mark.parametrize(
        ("item", "error", "text"),
        [
            ("path", TypeError, "pairs"),
            (("path",), TypeError, "offset, size"),
            (("path", bytearray(1), 0), TypeError, "offset, size"),
            (("path", b"x"), BufferError, "writable"),
            (("path", 5), TypeError, "bytes-like"),
        ],
    )
    def test_misuse(self, read: Reader, item: Any, error: type[Exception], text: str) -> None:
        with pytest.raises(error, match=text):
            read([item], given=True)


class TestProgress:
    def test_each_file_once(self, read: Reader, files: list[Path]) -> None:
        told: list[tuple[int, int]] = []
        found = read(files, progress=lambda *so_far: told.append(so_far))
        sizes = [len(data) for _, data in found]
        assert told == [(at + 1, sum(sizes[: at + 1])) for at in range(len(files))]

    def test_into_and_failed(self, read: Reader, files: list[Path], tmp_path: Path) -> None:
        told: list[tuple[int, int]] = []
        items = [files[3], tmp_path / "missing", files[2]]
        asked: Any = {"return_exceptions": True, "progress": lambda *so_far: told.append(so_far)}
        read(items, into=bytearray, **asked)
        assert told == [(1, 100_000), (2, 100_000), (3, 104_096)]

    def test_its_exception_loses_no_file(self, files: list[Path]) -> None:
        def once(count: int, _bytes: int) -> None:
            if count == 2:
                raise LookupError

        batch = proactor.sync.read_many(files[:4], progress=once)
        found = [next(batch), next(batch)]
        with pytest.raises(LookupError):
            next(batch)
        found.extend(batch)
        assert [path for path, _ in found] == files[:4]

    def test_no_function(self) -> None:
        with pytest.raises(TypeError, match="progress is a function, not int"):
            proactor.sync.read_many([], progress=1)  # type: ignore[call-overload]


def test_length(files: list[Path]) -> None:
    for batch in (proactor.read_many(files), proactor.sync.read_many(files)):
        assert len(batch) == len(files)
        assert batch
    for endless in (proactor.read_many(iter(files)), proactor.sync.read_many(iter(files))):
        assert endless
        with pytest.raises(TypeError, match="no len"):
            len(endless)
