"""Reads that are longer than the buffer go straight into the caller's memory."""

from __future__ import annotations

import asyncio
import io
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import proactor
import pytest
from conftest import Run
from file_helpers import COLD_BYTES, LARGE_BYTES, MIB, content, in_time, resizable, until
from stepping import ENDS, drive, end

pytest_plugins = ["file_fixtures"]

KIB = 1 << 10
# Around the buffer's size, around what one op reads, and beyond the end.
SIZES = [16 * KIB, 32 * KIB - 1, 32 * KIB, 32 * KIB + 1, 64 * KIB, MIB - 1, MIB, MIB + 1, 2 * MIB, 4 * MIB]


@pytest.mark.parametrize("buffering", [-1, 0, 100, 100_000])
@pytest.mark.parametrize("ahead", [0, 1, 40_000])
def test_as_io(run: Run, engine: str, large: Path, buffering: int, ahead: int) -> None:
    """With nothing, a little or more than the default buffer consumed before."""

    async def ours(size: int) -> list[object]:
        async with proactor.open(large, "rb", buffering, engine=engine) as file:
            found: list[object] = [await file.read(ahead)]
            found += [await file.peek() and b"" if buffering else b"", await file.read(size)]
            return [*found, await file.tell(), await file.read(7), await file.read(), await file.read(size)]

    def theirs(size: int) -> list[object]:
        with open(large, "rb") as file:
            return [
                *(file.read(ahead), b"", file.read(size), file.tell()),
                *(file.read(7), file.read(), file.read(size)),
            ]

    for size in SIZES:
        if buffering == 0 and size > MIB:
            continue  # one read brings less
        assert run(ours(size)) == theirs(size)


@pytest.mark.parametrize("method", ["readinto", "readinto1"])
@pytest.mark.parametrize("buffering", [-1, 0])
def test_into_memory(run: Run, engine: str, large: Path, method: str, buffering: int) -> None:
    data = large.read_bytes()

    async def main() -> None:
        async with proactor.open(large, "rb", buffering, engine=engine) as file:
            await file.seek(5)
            place = 5
            for size in (*SIZES, MIB):
                memory = bytearray(size)
                # Part of another buffer.
                count = await getattr(file, method)(memoryview(memory)[3:-2])
                assert memory[3 : 3 + count] == data[place : place + count]
                assert memory[:3] == bytes(3)
                assert memory[3 + count :] == bytes(size - 3 - count)
                if method == "readinto" and buffering:
                    assert count == min(size - 5, len(data) - place)
                assert (count == 0) == (place == len(data))
                place += count
                assert await file.tell() == place
                assert resizable(memory)

    run(in_time(main()))


def test_read_once(run: Run, engine: str, large: Path) -> None:
    data = large.read_bytes()

    async def main() -> None:
        async with proactor.open(large, "rb", engine=engine) as file:
            assert await file.read(1) == data[:1]
            buffered = await file.read1(MIB)
            # What `io` has in its buffer.
            with large.open("rb") as plain:
                plain.read(1)
                assert buffered == plain.read1(MIB)
            place = 1 + len(buffered)
            while some := await file.read1(MIB):
                assert some == data[place : place + len(some)]
                place += len(some)
            assert place == len(data)

    run(in_time(main()))


def test_one_after_the_other(run: Run, engine: str, large: Path) -> None:
    data = large.read_bytes()

    async def main() -> None:
        async with proactor.open(large, "rb", engine=engine) as file:
            memory = bytearray(100_000)
            calls: list[Any] = [file.read(MIB), file.readinto(memory), file.readline(), file.read()]
            head, count, line, rest = await asyncio.gather(*calls)
        assert count == len(memory)
        assert head + memory + line + rest == data

    run(in_time(main()))


def evict(path: Path) -> None:
    """Takes its data out of the page cache."""
    with path.open("rb") as file:
        os.fsync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


@pytest.mark.parametrize("kind", ENDS)
@pytest.mark.parametrize(("direct", "steps"), [(False, 0), (True, 0), (True, 1)])
@pytest.mark.parametrize("wait", [False, True])
def test_cancelled_it_has_taken_nothing(
    run: Run, engine: str, cold: Path, kind: type[BaseException], direct: bool, steps: int, wait: bool
) -> None:
    data = content(COLD_BYTES)
    memory = bytearray(COLD_BYTES)
    calls: list[Callable[[Any], Any]] = [
        lambda file: file.read(),
        lambda file: file.read(2 * MIB),
        lambda file: file.readinto(memory),
    ]

    async def main() -> None:
        for call_of in calls:
            async with proactor.open(cold, "r+b", direct=direct, engine=engine) as file:
                await file.seek(2)
                evict(cold)
                call = call_of(file)
                # The kernel may keep some of it cached; a direct read always waits, once at least.
                if await drive(call, steps, wait=wait) is call:
                    end(call, kind)
                else:
                    assert steps or not direct
                    await file.seek(2)
                assert await file.tell() == 2
                assert await file.read(3) == data[2:5]
                assert await file.read(MIB) == data[5 : 5 + MIB]
                # A write, too, finds the place.
                await file.seek(2)
                await file.flush()
                evict(cold)
                call = call_of(file)
                if await drive(call, 0, wait=wait) is call:
                    end(call, kind)
                else:
                    assert not direct
                    await file.seek(2)
                assert await file.write(data[2:5]) == 3
                assert await file.tell() == 5
                await file.seek(0)
                assert await file.read() == data
        del call
        await until(lambda: resizable(memory))

    run(in_time(main()))


@pytest.mark.parametrize("direct", [False, True])
def test_behind_a_cancelled_short_one(run: Run, engine: str, cold: Path, direct: bool) -> None:
    """Whose read goes on, and brings as much as this one wants, or a part of it."""
    data = content(COLD_BYTES)

    async def main(method: str, size: int, place: int) -> None:
        async with proactor.open(cold, "rb", 32 * KIB, direct=direct, engine=engine) as file:
            await file.seek(place)
            evict(cold)
            short = file.read(1)
            if await drive(short, 0, wait=False) is short:
                end(short, asyncio.CancelledError)
            else:
                assert not direct
                await file.seek(place)
            memory = bytearray(size)
            found = await getattr(file, method)(memory if "into" in method else size)
            if "into" in method:
                found = bytes(memory[:found])
            assert found == data[place : place + len(found)]
            assert len(found) == size or (found and method.endswith("1"))
            assert await file.tell() == place + len(found)

    for method in ("read", "readinto", "read1", "readinto1"):
        for size in (32 * KIB, 32 * KIB + 1, 64 * KIB):
            run(in_time(main(method, size, 0)))
            run(in_time(main(method, size, 5)))


def test_closed_while_it_reads(run: Run, engine: str, cold: Path) -> None:
    async def main() -> None:
        file = await proactor.open(cold, "rb", engine=engine)
        reading = asyncio.ensure_future(file.read())
        await asyncio.sleep(0)
        closing = asyncio.ensure_future(file.close())
        await asyncio.sleep(0)
        reading.cancel()
        await closing
        assert file.closed

    run(in_time(main()))


@pytest.mark.parametrize("change", [1, 3 * MIB, -MIB, -COLD_BYTES])
@pytest.mark.parametrize("size", [-1, 100 * MIB])
@pytest.mark.parametrize("direct", [False, True])
def test_the_file_grows_or_shrinks_meanwhile(
    run: Run, engine: str, cold: Path, change: int, size: int, direct: bool
) -> None:
    async def main() -> None:
        async with proactor.open(cold, "rb", direct=direct, engine=engine) as file:
            call = file.read(size)
            data = await drive(call, 0, wait=True)
            assert data is call or not direct
            os.truncate(cold, COLD_BYTES + change)
            if data is call:
                data = await asyncio.ensure_future(call)
            if change > 0:
                # The end that was met may have been the old one.
                assert data in (content(COLD_BYTES), content(COLD_BYTES) + bytes(change))
            else:
                assert COLD_BYTES + change <= len(data) <= COLD_BYTES
                assert content(COLD_BYTES).startswith(data)
            assert await file.tell() == len(data)
            assert await file.read() == bytes(max(COLD_BYTES + change - len(data), 0))

    run(in_time(main()))


def test_what_states_no_size(run: Run, engine: str) -> None:
    async def main() -> None:
        async with proactor.open("/proc/self/maps", "rb", engine=engine) as file:
            assert b"python" in await file.read(4 * MIB)
            await file.seek(0)
            assert b"python" in await file.read()
        async with proactor.open("/dev/zero", "rb", engine=engine) as file:
            assert await file.read(2 * MIB) == bytes(2 * MIB)

    run(in_time(main()))


def test_a_pipe_loses_nothing(run: Run, engine: str) -> None:
    async def main() -> None:
        reader, writer = os.pipe()
        async with proactor.open(reader, "rb", engine=engine) as file:
            call = file.read(MIB)
            assert await drive(call, 0, wait=False) is call
            os.write(writer, b"some")
            await asyncio.sleep(0)
            call.close()
            os.close(writer)
            assert await file.read(MIB) == b"some"

    run(in_time(main()))


def test_a_writer_sees_its_own(run: Run, engine: str, tmp_path: Path) -> None:
    """What is in the write buffer is with the kernel before it is read."""

    async def main() -> None:
        async with proactor.open(tmp_path / "f", "w+b", engine=engine) as file:
            await file.write(content(MIB))
            await file.write(b"end")
            await file.seek(10)
            assert await file.read() == content(MIB)[10:] + b"end"
            await file.write(b" of it")
            await file.seek(0)
            memory = bytearray(2 * MIB)
            assert await file.readinto(memory) == MIB + 9
            assert memory[MIB : MIB + 9] == b"end of it"

    run(in_time(main()))


@pytest.mark.parametrize("memory", ["bytes", "text"])
def test_no_second_copy(large: Path, memory: str) -> None:
    """A whole file takes its own size, and a text file that of its bytes and that of its characters."""
    mode, copies = ("rb", 1) if memory == "bytes" else ("r", 3)
    large.write_bytes(b"x" * 32 * MIB)
    program = f"""
import asyncio, resource, proactor
peak = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
async def main():
    async with proactor.open({str(large)!r}, {mode!r}) as file:
        before = peak()
        data = await file.read()
        assert len(data) == 32 << 20
        print((peak() - before) / (32 << 10))
asyncio.run(main())
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert float(done.stdout) < copies + 0.3


def test_direct_into_aligned_memory(run: Run, engine: str, large: Path) -> None:
    data = large.read_bytes()
    try:
        os.close(os.open(large, os.O_RDONLY | os.O_DIRECT))
    except OSError:
        pytest.fail("the tests need a file system with O_DIRECT")

    async def main() -> Any:
        async with proactor.open(large, "rb", direct=True, engine=engine) as file:
            memory = proactor.aio.aligned(MIB)
            assert await file.readinto(memory) == MIB
            assert memory == data[:MIB]
            assert await file.seek(1, io.SEEK_CUR) == MIB + 1
            # At no block's start.
            assert await file.readinto(memory) == MIB
            assert memory == data[MIB + 1 : 2 * MIB + 1]
            return await file.read()

    assert run(in_time(main())) == data[2 * MIB + 1 : LARGE_BYTES]
