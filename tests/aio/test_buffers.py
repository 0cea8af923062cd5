"""Buffers: any object with memory, no copies, pinned from submit until the event."""

from __future__ import annotations

import array
import ctypes
import importlib
import mmap
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from aio_helpers import CONTENT, run_one
from capabilities import require
from proactor import aio

pytest_plugins = ["aio_fixtures"]

SIZE = len(CONTENT)
PAGE_BYTES = 4096


def numpy() -> Any:
    require("numpy")
    return importlib.import_module("numpy")


WRITABLE: dict[str, Callable[[], Any]] = {
    "bytearray": lambda: bytearray(SIZE),
    "memoryview": lambda: memoryview(bytearray(SIZE)),
    "memoryview slice": lambda: memoryview(bytearray(SIZE + 2))[1:-1],
    "mmap": lambda: mmap.mmap(-1, SIZE),
    "array": lambda: array.array("b", bytes(SIZE)),
    "ctypes": lambda: (ctypes.c_char * SIZE)(),
    "numpy": lambda: numpy().zeros(SIZE, dtype="u1"),
    "aligned": lambda: aio.aligned(SIZE),
}


@pytest.mark.parametrize("kind", WRITABLE)
def test_read_into(context: aio.Context, fd: int, kind: str) -> None:
    buffer = WRITABLE[kind]()
    event = run_one(context, aio.Read(fd, buffer, 0))
    assert event.buffer is buffer
    assert bytes(buffer) == CONTENT
    assert event.data == CONTENT


@pytest.mark.parametrize("kind", ["bytes", *WRITABLE])
def test_write_from(context: aio.Context, fd: int, kind: str) -> None:
    buffer: Any = CONTENT[::-1]
    if kind != "bytes":
        buffer = WRITABLE[kind]()
        memoryview(buffer).cast("B")[:] = CONTENT[::-1]
    event = run_one(context, aio.Write(fd, buffer, 0))
    assert event.buffer is buffer
    assert os.pread(fd, 20, 0) == CONTENT[::-1]


def test_items_larger_than_a_byte(context: aio.Context, fd: int) -> None:
    os.pwrite(fd, numpy().arange(6, dtype="i4").tobytes(), 0)
    matrix = numpy().zeros((2, 3), dtype="i4")
    event = run_one(context, aio.Read(fd, matrix, 0))
    assert event.result == 24
    assert matrix.tolist() == [[0, 1, 2], [3, 4, 5]]
    assert event.data.nbytes == 24
    assert run_one(context, aio.Write(fd, matrix, 24)).result == 24


def test_the_valid_part_is_the_buffers_memory(context: aio.Context, fd: int) -> None:
    buffer = bytearray(20)
    data = run_one(context, aio.Read(fd, buffer, 6)).data
    assert isinstance(data, memoryview)
    assert (data.format, data.ndim, len(data), data.readonly) == ("B", 1, 5, False)
    data[0] = ord("W")
    assert buffer[:5] == b"World"


class TestRefused:
    @pytest.mark.parametrize("buffer", [b"abc", memoryview(b"abc")], ids=["bytes", "memoryview"])
    def test_read_into_constant_memory(self, fd: int, buffer: Any) -> None:
        with pytest.raises((TypeError, BufferError), match=r"read-only|writable"):
            aio.Read(fd, buffer)
        with pytest.raises((TypeError, BufferError), match=r"read-only|writable"):
            aio.ReadV(fd, [buffer])

    def test_memory_with_holes(self, fd: int) -> None:
        holes = memoryview(bytearray(10))[::2]
        for make in (aio.Read, aio.Write):
            with pytest.raises((ValueError, BufferError), match="contig"):
                make(fd, holes)

    @pytest.mark.parametrize("thing", ["text", None, 1.5, object()])
    def test_no_memory(self, fd: int, thing: Any) -> None:
        for make in (aio.Read, aio.Write):
            with pytest.raises(TypeError):
                make(fd, thing)
        for make_vector in (aio.ReadV, aio.WriteV):
            with pytest.raises(TypeError):
                make_vector(fd, [thing])

    def test_a_size_for_a_write(self, fd: int) -> None:
        with pytest.raises(TypeError):
            aio.Write(fd, 5)  # type: ignore[arg-type]

    def test_a_released_view(self, context: aio.Context, fd: int) -> None:
        view = memoryview(bytearray(5))
        op = aio.Read(fd, view)
        view.release()
        # An op takes hold of its memory at `submit`, not when it is made.
        with pytest.raises(ValueError, match="released"):
            context.submit(op)
        assert op.state == "new"


class TestPinned:
    def test_a_bytearray_keeps_its_size(self, context: aio.Context, pipe: tuple[int, int]) -> None:
        buffer, parts = bytearray(4), [bytearray(4), bytearray(4)]
        context.submit(aio.Read(pipe[0], buffer), aio.ReadV(pipe[0], parts))
        for pinned in (buffer, *parts):
            with pytest.raises(BufferError):
                pinned.extend(b"more")
            with pytest.raises(BufferError):
                pinned.clear()

    def test_an_mmap_stays_mapped(self, context: aio.Context, pipe: tuple[int, int]) -> None:
        buffer = mmap.mmap(-1, PAGE_BYTES)
        op = aio.Read(pipe[0], buffer)
        context.submit(op)
        with pytest.raises(BufferError):
            buffer.close()
        assert context.cancel(op) == aio.CancelOutcome.CANCELLED
        context.wait()
        buffer.close()

    def test_a_view_is_not_released(self, context: aio.Context, pipe: tuple[int, int]) -> None:
        view = memoryview(bytearray(4))
        context.submit(aio.Read(pipe[0], view))
        with pytest.raises(BufferError):
            view.release()

    def test_free_after_the_event(self, context: aio.Context, fd: int) -> None:
        buffer = bytearray(5)
        event = run_one(context, aio.Read(fd, buffer, 0))
        del event
        buffer.extend(b"!")
        assert buffer == b"hello!"

    def test_free_after_a_failure(self, context: aio.Context) -> None:
        buffer = bytearray(5)
        assert run_one(context, aio.Read(9999, buffer)).error
        buffer.extend(b"!")

    def test_free_when_not_accepted(self, engine: str, pipe: tuple[int, int]) -> None:
        buffer = bytearray(5)
        with aio.Context(1, engine=engine) as context:
            assert context.submit(aio.Read(pipe[0], 1), aio.Read(pipe[0], buffer)) == 1
            buffer.extend(b"!")

    def test_kept_alive(self, context: aio.Context, pipe: tuple[int, int]) -> None:
        # Nobody but the context holds op and buffer.
        context.submit(*(aio.Read(pipe[0], bytearray(PAGE_BYTES)) for _ in range(8)))
        os.write(pipe[1], bytes(8 * PAGE_BYTES))
        assert sum(event.result for event in context.wait(8)) == 8 * PAGE_BYTES

    def test_no_reference_is_left(self, context: aio.Context, fd: int) -> None:
        buffer, data = bytearray(5), object()
        before = sys.getrefcount(buffer), sys.getrefcount(data)
        for _ in range(100):
            run_one(context, aio.Read(fd, buffer, 0, user_data=data))
        assert (sys.getrefcount(buffer), sys.getrefcount(data)) == before


class TestSizes:
    def test_aligned_to_a_page(self, fd: int) -> None:
        buffer = aio.Read(fd, PAGE_BYTES).buffer
        assert ctypes.addressof(ctypes.c_char.from_buffer(buffer)) % PAGE_BYTES == 0

    def test_direct(self, context: aio.Context, direct_file: tuple[Path, int]) -> None:
        path, fd = direct_file
        content = path.read_bytes()
        assert run_one(context, aio.Read(fd, PAGE_BYTES, PAGE_BYTES)).data == content[PAGE_BYTES:]

    def test_memory_is_used_again_only_when_nothing_refers_to_it(
        self, context: aio.Context, path: Path
    ) -> None:
        size = 12_345
        with path.open("rb") as file:
            kept = [run_one(context, aio.Read(file, size, at)).data for at in range(8)]
            for _ in range(64):
                assert run_one(context, aio.Read(file, size, 2)).data == CONTENT[2:]
        assert [bytes(data) for data in kept] == [CONTENT[at:] for at in range(8)]

    def test_sizes_do_not_mix(self, context: aio.Context, fd: int) -> None:
        for size in (3, 5000, 0, 1, 70_000, 2, 4096, 4097):
            event = run_one(context, aio.Read(fd, size, 0))
            assert (event.buffer.nbytes, event.data) == (size, CONTENT[:size])

    def test_what_is_kept_is_bounded(self, fd: int) -> None:
        trim = getattr(ctypes.CDLL(None), "malloc_trim", lambda pad: None)

        def resident() -> int:
            # What the C library has free is not counted: it may be as much as is asked for here.
            trim(0)
            return int(Path("/proc/self/statm").read_text().split()[1]) * PAGE_BYTES

        before = resident()
        ops = [aio.Read(fd, 1 << 20) for _ in range(128)]
        held = resident()
        assert held > before + (90 << 20)
        del ops
        assert resident() < before + (20 << 20)

    def test_too_much(self, fd: int) -> None:
        with pytest.raises(MemoryError):
            aio.Read(fd, 1 << 60)


class TestAligned:
    @pytest.mark.parametrize("size", [0, 1, 512, 4096, 10_000])
    def test_size(self, size: int) -> None:
        view = aio.aligned(size)
        assert (view.nbytes, view.format, view.readonly) == (size, "B", False)
        view[:] = bytes(size)

    @pytest.mark.parametrize("alignment", [None, 512, 4096, 1 << 21])
    def test_address(self, alignment: int | None) -> None:
        view = aio.aligned(PAGE_BYTES, alignment)
        assert ctypes.addressof(ctypes.c_char.from_buffer(view)) % (alignment or 512) == 0

    def test_too_much(self) -> None:
        with pytest.raises(MemoryError):
            aio.aligned(1 << 60)

    @pytest.mark.parametrize("arguments", [(-1,), (1, 0), (1, 3), (1, -512), (1, 1 << 31)])
    def test_bad(self, arguments: tuple[int, ...]) -> None:
        with pytest.raises(ValueError, match=r"size|alignment"):
            aio.aligned(*arguments)

    def test_direct(self, context: aio.Context, direct_file: tuple[Path, int]) -> None:
        path, fd = direct_file
        content = path.read_bytes()
        buffer = aio.aligned(PAGE_BYTES)
        assert run_one(context, aio.Read(fd, buffer, PAGE_BYTES)).data == content[PAGE_BYTES:]
        assert run_one(context, aio.Write(fd, buffer, 0)).result == PAGE_BYTES
        assert path.read_bytes() == content[PAGE_BYTES:] * 2
