"""One sample of linux_aio_rounds.py: `IMPORTS VARIANT ROUNDS INTERVAL_S PATH...`, a line of JSON.

A process of its own, which imports IMPORTS (with commas between) first, whatever its variant.
"""

from __future__ import annotations

import importlib
import os
import sys
import time
import zlib
from collections.abc import Callable
from typing import Any, TypeAlias

# One round: returns the content of every file.
Round: TypeAlias = Callable[[], list[Any]]


def size_of(fd: int) -> int:
    return os.fstat(fd).st_size


# The variants. Each reads the size that the file has, as file.read() does.


def _open_each(paths: list[str]) -> Round:
    def one_round() -> list[Any]:
        contents = []
        for path in paths:
            with open(path, "rb") as file:
                contents.append(file.read())
        return contents

    return one_round


def _pread_kept(paths: list[str]) -> Round:
    fds = [os.open(path, os.O_RDONLY) for path in paths]
    return lambda: [os.pread(fd, size_of(fd), 0) for fd in fds]


def _linux_aio_each(paths: list[str]) -> Round:
    from linux_aio import AIOContext, ReadBlock

    context = AIOContext(len(paths))

    def one_round() -> list[Any]:
        files = [open(path, "rb") for path in paths]  # noqa: SIM115
        blocks = [ReadBlock(file, bytearray(size_of(file.fileno()))) for file in files]
        context.submit(*blocks)
        sizes = {
            id(event.aio_block): event.response for event in context.get_events(len(blocks), len(blocks))
        }
        for file in files:
            file.close()
        return [memoryview(block.buffer)[: sizes[id(block)]] for block in blocks]

    return one_round


def _linux_aio_kept(paths: list[str]) -> Round:
    from linux_aio import AIOContext, ReadBlock

    context = AIOContext(len(paths))
    fds = [os.open(path, os.O_RDONLY) for path in paths]
    blocks = [ReadBlock(fd, bytearray(size_of(fd))) for fd in fds]

    def one_round() -> list[Any]:
        context.submit(*blocks)
        sizes = {
            id(event.aio_block): event.response for event in context.get_events(len(blocks), len(blocks))
        }
        return [memoryview(block.buffer)[: sizes[id(block)]] for block in blocks]

    return one_round


def _proactor_each(engine: str, paths: list[str]) -> Round:
    from proactor import aio

    context = aio.Context(len(paths), engine=engine)

    def one_round() -> list[Any]:
        fds = [os.open(path, os.O_RDONLY) for path in paths]
        ops = [aio.Read(fd, size_of(fd), 0) for fd in fds]
        context.submit(*ops)
        data = {event.op: event.data for event in context.wait(len(ops))}
        for fd in fds:
            os.close(fd)
        return [data[op] for op in ops]

    return one_round


def _proactor_kept(engine: str, paths: list[str]) -> Round:
    from proactor import aio

    context = aio.Context(len(paths), engine=engine)
    fds = [os.open(path, os.O_RDONLY) for path in paths]
    ops = [aio.Read(fd, bytearray(size_of(fd)), 0) for fd in fds]

    def one_round() -> list[Any]:
        context.submit(*ops)
        data = {event.op: event.data for event in context.wait(len(ops))}
        return [data[op] for op in ops]

    return one_round


def _caio(paths: list[str], keep: bool) -> Round:
    import asyncio

    from caio import AsyncioContext

    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    context = AsyncioContext(len(paths), loop=loop)
    kept = [os.open(path, os.O_RDONLY) for path in paths] if keep else []

    async def read_all() -> list[Any]:
        fds = kept or [os.open(path, os.O_RDONLY) for path in paths]
        try:
            return list(await asyncio.gather(*(context.read(size_of(fd), fd, 0) for fd in fds)))
        finally:
            if not kept:
                for fd in fds:
                    os.close(fd)

    return lambda: loop.run_until_complete(read_all())


def make(variant: str, paths: list[str]) -> Round:
    name, _, files = variant.rpartition(", ")
    keep = files == "kept"
    if name == "open()":
        return _pread_kept(paths) if keep else _open_each(paths)
    if name == "linux_aio":
        return (_linux_aio_kept if keep else _linux_aio_each)(paths)
    if name == "caio":
        return _caio(paths, keep)
    return (_proactor_kept if keep else _proactor_each)(name.removeprefix("proactor.aio "), paths)


# The sample


def _status(field: str) -> int:
    """A number from /proc/self/status: kibibytes or a count."""
    with open("/proc/self/status") as status:
        for line in status:
            if line.startswith(field + ":"):
                return int(line.split()[1])
    raise LookupError(field)


def main() -> None:
    imports, variant, rounds, interval_s = sys.argv[1], sys.argv[2], int(sys.argv[3]), float(sys.argv[4])
    paths = sys.argv[5:]
    for module in filter(None, imports.split(",")):
        importlib.import_module(module)
    one_round = make(variant, paths)
    checksums = [zlib.crc32(content) for content in one_round()]
    cpu = os.times()
    started = time.perf_counter()
    for _ in range(rounds):
        one_round()
        time.sleep(interval_s)
    run_s = time.perf_counter() - started
    end = os.times()
    contents = one_round()
    private_kib = _status("RssAnon")
    del contents
    print(
        f'{{"run_s": {run_s}, "user_s": {end.user - cpu.user}, "system_s": {end.system - cpu.system},'
        f' "threads": {_status("Threads")}, "rss_mb": {_status("VmHWM") / 1024},'
        f' "private_mb": {private_kib / 1024}, "checksums": {checksums}}}'
    )
    # What a variant leaves open is not the sample's business.
    sys.stdout.flush()
    os._exit(0)


if __name__ == "__main__":
    main()
