"""`direct=True`: what is read ahead is never seen where it must not be, and never lost."""

from __future__ import annotations

import asyncio
import gc
import random
from pathlib import Path
from typing import Any

import proactor
import pytest
from capabilities import needs
from conftest import Run
from file_helpers import content, descriptors, in_time, until

pytest_plugins = ["file_fixtures"]
pytestmark = needs("O_DIRECT")

BLOCK = 4096


class Program:
    """Random calls, most of them reads in a sequence, on a file and on its bytes in memory."""

    def __init__(self, seed: int, data: bytes) -> None:
        self.dice, self.data, self.at = random.Random(seed), bytearray(data), 0

    def rest(self, size: int = -1) -> bytes:
        return bytes(self.data[self.at :] if size < 0 else self.data[self.at : self.at + size])

    def put(self, data: bytes, at: int) -> None:
        if data:
            self.data.extend(bytes(max(0, at - len(self.data))))
            self.data[at : at + len(data)] = data

    async def act(self, file: Any) -> None:
        dice = self.dice
        size = dice.choice([1, 700, BLOCK, 3 * BLOCK, 10_000, 40_000])
        place = dice.choice([0, BLOCK, dice.randrange(len(self.data) + 1), self.at])
        data = dice.randbytes(dice.choice([0, 1, 600, BLOCK, 9_000]))
        match dice.choices(range(10), [20, 6, 4, 3, 2, 2, 2, 2, 1, 2])[0]:
            case 0:
                assert await file.read(size) == self.rest(size)
                self.at += len(self.rest(size))
            case 1:
                target = bytearray(size)
                count = await file.readinto(target)
                assert target[:count] == self.rest(size)
                self.at += count
            case 2:
                line = self.rest()[: self.rest().find(b"\n") + 1] or self.rest()
                assert await file.readline() == line
                self.at += len(line)
            case 3:
                found = await file.read1(size)
                assert found == self.rest(len(found))
                assert found or not self.rest()
                self.at += len(found)
            case 4:
                self.at = place
                assert await file.seek(place) == place
            case 5:
                assert await file.write(data) == len(data)
                self.put(data, self.at)
                self.at += len(data)
            case 6:
                assert await file.pwrite(data, place) == len(data)
                self.put(data, place)
            case 7:
                assert await file.pread(size, place) == self.data[place : place + size]
            case 8:
                assert await file.truncate(place) == place
                self.data[place:] = bytes(max(0, place - len(self.data)))
            case 9:
                call = asyncio.create_task(file.read(size))
                for _ in range(dice.randrange(3)):
                    await asyncio.sleep(0)
                if call.cancel():
                    await asyncio.wait([call])
                if not call.cancelled():
                    assert call.result() == self.rest(size)
                    self.at += len(call.result())
        assert await file.tell() == self.at


@pytest.mark.parametrize("buffering", [-1, BLOCK, 5 * BLOCK])
def test_as_the_bytes_are(run: Run, engine: str, tmp_path: Path, buffering: int) -> None:
    path = tmp_path / "file"

    async def main(program: Program) -> None:
        async with proactor.open(path, "r+b", buffering, direct=True, engine=engine) as file:
            for _ in range(150):
                await in_time(program.act(file))

    for seed in range(3):
        start = random.Random(seed).randbytes(600_000 + seed * 1_111)
        path.write_bytes(start)
        program = Program(seed, start)
        run(main(program))
        assert path.read_bytes() == program.data


def test_all_of_it(run: Run, engine: str, large: Path) -> None:
    data = large.read_bytes()

    async def main(chunk: int) -> None:
        async with proactor.open(large, "rb", direct=True, engine=engine) as file:
            parts = [part async for part in pieces(file.read, chunk)]
            assert b"".join(parts) == data
            assert [len(part) for part in parts[:-1]] == [chunk] * (len(parts) - 1)
            assert await file.read() == b""

    for chunk in (BLOCK, 65_536, 1 << 20, 3 << 20, 100_001):
        run(main(chunk))


async def pieces(read: Any, chunk: int) -> Any:
    while part := await read(chunk):
        yield part


def test_a_file_that_grows(run: Run, engine: str, tmp_path: Path) -> None:
    """Its end, found while reading ahead, is not the end for who comes there later."""
    path = tmp_path / "file"
    path.write_bytes(content(4 * BLOCK))

    async def main() -> None:
        async with proactor.open(path, "rb", BLOCK, direct=True, engine=engine) as file:
            assert await file.read(3 * BLOCK) == content(3 * BLOCK)
            with path.open("ab") as more:
                more.write(b"more" * 1_000)
            assert await file.read() == content(4 * BLOCK)[3 * BLOCK :] + b"more" * 1_000

    run(main())


def test_in_flight_at_the_end(run: Run, engine: str, large: Path) -> None:
    """Closed, forgotten and left by the loop while a block is on its way."""
    left: list[Any] = []

    async def begun() -> Any:
        file = await proactor.open(large, "rb", 4 * BLOCK, direct=True, engine=engine)
        for _ in range(3):
            await file.read(4 * BLOCK)
        return file

    async def main() -> None:
        before = descriptors()
        first = await begun()
        engines = len(descriptors()) - len(before) - 1
        await first.close()
        for _ in range(20):
            file = await begun()
            await file.close()

        async def forgets() -> None:
            await begun()
            await until(lambda: len(descriptors()) == len(before) + engines)

        with pytest.warns(ResourceWarning):
            await forgets()
        left.append(await begun())

    before = descriptors()
    run(main())
    with pytest.warns(ResourceWarning):
        left.clear()
    gc.collect()
    assert len(descriptors()) == len(before)


def test_others_need_not_wait_for_the_reader(run: Run, engine: str, large: Path) -> None:
    """What was read ahead and is not used holds up no other call."""

    async def main() -> None:
        async with proactor.open(large, "r+b", BLOCK, direct=True, engine=engine) as file:
            for _ in range(3):
                await file.read(BLOCK)
            await in_time(file.seek(0))
            await in_time(file.write(b"new"))
            await in_time(file.fsync())
            assert await file.seek(0) == 0
            assert (await in_time(file.read(BLOCK)))[:4] == b"new" + content(4)[3:]

    run(main())


def test_with_a_limiter(run: Run, engine: str, large: Path) -> None:
    """No op outlives the call that holds it."""

    class Limiter(asyncio.Semaphore):
        inside = 0

        async def __aenter__(self) -> None:
            await super().__aenter__()
            self.inside += 1

    async def main() -> None:
        limiter = Limiter(1)
        async with proactor.open(large, "rb", BLOCK, direct=True, engine=engine, limiter=limiter) as file:
            opened = limiter.inside
            for _ in range(8):
                await file.read(BLOCK)
            # Each block was read by a call of its own.
            assert limiter.inside == opened + 8

    run(main())


def test_text(run: Run, engine: str, tmp_path: Path) -> None:
    path = tmp_path / "lines"
    lines = [f"line {at} \N{EURO SIGN}\n" if at % 1_000 == 0 else f"line {at}\n" for at in range(60_000)]
    path.write_text("".join(lines), encoding="utf-8")

    async def main() -> None:
        how: dict[str, Any] = {"encoding": "utf-8", "buffering": 4 * BLOCK, "direct": True, "engine": engine}
        async with proactor.open(path, **how) as file:
            found = [line async for line in file]
            assert found == lines
            await file.seek(0)
            assert await file.read() == "".join(lines)

    run(main())
