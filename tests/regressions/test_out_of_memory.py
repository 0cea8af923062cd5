"""Reading a file that does not fit into memory ended the process ("memory allocation of ... bytes failed"),
where `io` raises MemoryError, and a buffer of an absurd size did too.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

# Arguments: a statement that must raise MemoryError, the engine, a large file, a small one.
PROGRAM = """
import asyncio, resource, sys
import proactor

statement, engine, large, small = sys.argv[1:]
code = "async def attempt():\\n" + "".join(f"    {line}\\n" for line in statement.splitlines())
exec(code)

async def main():
    # The first use makes what the loop keeps, threads among it.
    await proactor.read_bytes(small, engine=engine)
    with open("/proc/self/statm") as statm:
        most = int(statm.read().split()[0]) * resource.getpagesize() + (200 << 20)
    resource.setrlimit(resource.RLIMIT_AS, (most, most))
    try:
        await attempt()
    except MemoryError:
        print("MemoryError")
    # The loop and other files go on.
    assert await proactor.read_bytes(small, engine=engine) == b"small"
    async with proactor.open(small, engine=engine) as file:
        assert await file.read() == "small"

asyncio.run(main())
"""

BYTES = "async with proactor.open(large, 'rb', engine=engine) as file:\n    "
UNBUFFERED = "async with proactor.open(large, 'rb', buffering=0, engine=engine) as file:\n    "
TEXT = "async with proactor.open(large, encoding='{}', engine=engine) as file:\n    "
ATTEMPTS = {
    "readline": BYTES + "await file.readline()",
    "read": BYTES + "await file.read()",
    "read n": BYTES + "await file.read(1 << 30)",
    "read1": BYTES + "await file.read1(1 << 30)",
    "readlines": BYTES + "await file.readlines()",
    "iteration": BYTES + "async for line in file: pass",
    "pread": BYTES + "await file.pread(1 << 30, 0)",
    "unbuffered read": UNBUFFERED + "await file.read()",
    "unbuffered read n": UNBUFFERED + "await file.read(1 << 30)",
    "text readline": TEXT.format("utf-8") + "await file.readline()",
    "text read": TEXT.format("utf-8") + "await file.read()",
    "text read n": TEXT.format("utf-8") + "await file.read(1 << 30)",
    "text readlines": TEXT.format("latin-1") + "await file.readlines()",
    "text iteration": TEXT.format("latin-1") + "async for line in file: pass",
    "read_bytes": "await proactor.read_bytes(large, engine=engine)",
    "read_text": "await proactor.read_text(large, engine=engine)",
    "read_many": "async for path, data in proactor.read_many([large], engine=engine): pass",
    "write buffer": "async with proactor.open('/dev/null', 'wb', buffering=1 << 30, engine=engine) as file:\n"
    "    await file.write(b'x')",
}


@pytest.mark.parametrize("attempt", ATTEMPTS)
def test_a_lack_of_memory_is_an_error(tmp_path: Path, engine: str, attempt: str) -> None:
    large, small = tmp_path / "large", tmp_path / "small"
    small.write_bytes(b"small")
    large.touch()
    os.truncate(large, 1 << 30)
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, ATTEMPTS[attempt], engine, str(large), str(small)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, "MemoryError\n"), done.stderr[-500:]
