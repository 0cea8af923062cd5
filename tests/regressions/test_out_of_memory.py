"""Reading a file that does not fit into memory ended the process ("memory allocation of ... bytes failed"),
where `io` raises MemoryError, and a buffer of an absurd size did too. So did thousands of buffers, ops or
files at once, and long paths.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest_plugins = ["memory_fixtures"]

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


# Arguments: a shared object that refuses memory, the engine, a directory, statements by name. Each is run
# with memory for all, and then with the extension's allocations refused from a size on that no constant has.
REFUSED = """
import asyncio, ctypes, json, os, sys
import proactor, proactor.aio, proactor.os, proactor.shutil, proactor.tempfile
from proactor import Path

shim, engine, directory = ctypes.CDLL(sys.argv[1]), sys.argv[2], sys.argv[3]
shim.refuse_from.argtypes = [ctypes.c_size_t]
shim.refused.restype = ctypes.c_ulong
MEMORY_FOR_ALL = 2**63
large, small, lines, folder = (f"{directory}/{name}" for name in ("large", "small", "lines", "folder"))
long = "/" + "x" * 100_000
target = f"{directory}/target"

def made(statement):
    scope = {}
    lines = (f"    {line}\\n" for line in statement.splitlines())
    exec("async def attempt():\\n" + "".join(lines), globals(), scope)
    return scope["attempt"]

async def outcome(attempt):
    try:
        await attempt()
    except Exception as error:
        return type(error).__name__
    return "done"

async def main():
    outcomes = {}
    for name, statement in json.loads(sys.argv[4]).items():
        print(name, file=sys.stderr, flush=True)
        attempt = made(statement)
        at_first = await outcome(attempt)
        assert shim.refuse_from(BYTES)
        without = await outcome(attempt)
        refused = shim.refused()
        shim.refuse_from(MEMORY_FOR_ALL)
        outcomes[name] = [at_first, without, refused > 0]
        # The loop and other files go on.
        assert await proactor.read_bytes(small, engine=engine) == b"small"
        async with proactor.open(small, engine=engine) as file:
            assert await file.read() == "small"
    print(json.dumps(outcomes))

asyncio.run(main())
"""

READ = "async with proactor.open(large, 'rb', engine=engine) as file:\n    "
WRITE = "async with proactor.open(target, 'wb', engine=engine) as file:\n    "
CONTEXT = "fd = os.open(large, os.O_RDONLY)\nwith proactor.aio.Context({}, engine=engine) as context:\n    "
# What a caller or a file gives the number or the size of.
SIZED = {
    "preadv": READ + "await file.preadv([bytearray(8) for _ in range(1000)], 0)",
    "pwritev": WRITE + "await file.pwritev([b'12345678'] * 5000, 0)",
    "readline": READ + "await file.readline()",
    "readlines": "async with proactor.open(lines, 'rb', engine=engine) as file:\n    await file.readlines()",
    "read_many": "async for _ in proactor.read_many([long] * 3, engine=engine): pass",
    "open": "await proactor.open(long, engine=engine)",
    "read_bytes": "await proactor.read_bytes(long.encode(), engine=engine)",
    "write_bytes": "await proactor.write_bytes(long, b'', engine=engine)",
    "surrogates": "await proactor.read_bytes('/' + chr(0xDCFF) * 100_000, engine=engine)",
    "stat": "await proactor.os.stat(long)",
    "listdir": "await proactor.os.listdir(folder)",
    "scandir": "async for entry in proactor.os.scandir(folder): pass",
    "context": CONTEXT.format(4000)
    + "context.submit(*[proactor.aio.Fsync(fd) for _ in range(3000)])\nos.close(fd)",
    "aio read": CONTEXT.format(1) + "context.submit(proactor.aio.Read(fd, 1 << 20))\nos.close(fd)",
    "aio readv": CONTEXT.format(1)
    + "context.submit(proactor.aio.ReadV(fd, [bytearray(8) for _ in range(1000)]))\nos.close(fd)",
    "copy": "await proactor.copy(large, target)",
    "copy a tree": "await proactor.copy(folder, target + 'tree', recursive=True)",
}
# Fails otherwise, after the path could not be copied into the error.
OTHERWISE = {"scandir of a long path": "await proactor.os.scandir(long)"}
# What there may be memory for after all: a cached file is read in place, what only makes it faster is left
# out, and a direct read may find an aligned buffer of an earlier one.
POSSIBLE = {
    "direct": "async with proactor.open(large, 'rb', direct=True, engine=engine) as file:\n"
    "    await file.read()",
    "gather": "await asyncio.gather(\n"
    "    *(proactor.read_bytes('/proc/sys/kernel/ostype', engine=engine) for _ in range(999))\n)",
    "gather of one file": READ + "await asyncio.gather(*(file.pread(8, 8 * at) for at in range(2000)))",
    "workers": "async for _ in proactor.read_many([small] * 99, workers=2, engine=engine): pass",
    "many not cached": "async for _ in proactor.read_many(\n"
    "    ['/proc/sys/kernel/ostype'] * 3000, concurrency=3000, engine=engine\n): pass",
    "writelines": WRITE + "await file.writelines([b'12345678'] * 20_000)",
    "text": "async with proactor.open(target, 'w', engine=engine) as file:\n"
    "    await file.write('é\\n' * 500_000)",
    "copyfile": "await proactor.shutil.copyfile(large, target)",
    "glob": "async for _ in Path(folder).glob('*'): pass",
    "temporary": "async with proactor.tempfile.TemporaryFile() as file:\n"
    "    await file.write(b'x' * 1_000_000)",
    "link": "await proactor.os.readlink(directory + '/link')",
}


def test_what_a_caller_gives_the_number_of_is_an_error(tmp_path: Path, engine: str, shim: Path) -> None:
    (tmp_path / "large").write_bytes(b"x" * (1 << 20))
    (tmp_path / "small").write_bytes(b"small")
    (tmp_path / "lines").write_bytes(b"a line\n" * 100_000)
    (tmp_path / "link").symlink_to("x" * 4000)
    (tmp_path / "folder").mkdir()
    for number in range(200):
        (tmp_path / "folder" / f"a-rather-long-name-that-fills-a-directory-{number}").touch()
    done = subprocess.run(
        [
            sys.executable,
            "-c",
            REFUSED.replace("BYTES", "9000"),
            str(shim),
            engine,
            str(tmp_path),
            json.dumps({**SIZED, **OTHERWISE, **POSSIBLE}),
        ],
        env={**os.environ, "LD_PRELOAD": str(shim)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-1000:]
    outcomes = json.loads(done.stdout)
    assert {name: outcome[1:] for name, outcome in outcomes.items() if name in SIZED} == {
        name: ["MemoryError", True] for name in SIZED
    }
    assert outcomes["scandir of a long path"] == ["OSError", "OSError", True]
    for name in POSSIBLE:
        at_first, without, _ = outcomes[name]
        assert at_first == "done", name
        assert without in ("MemoryError", "done"), (name, outcomes[name])


# Arguments: a shared object that refuses memory, the engine. Many calls of the engine at once, of which those
# are refused for which its tables would have to grow.
REFUSED_FILES = """
import asyncio, ctypes, sys
import proactor

shim, engine = ctypes.CDLL(sys.argv[1]), sys.argv[2]
shim.refuse_from.argtypes = [ctypes.c_size_t]
COUNT, BYTES, PATH = 3000, 100_000, "/proc/sys/kernel/ostype"

async def main():
    await proactor.read_bytes(PATH, engine=engine)
    for ordered in (True, False):
        assert shim.refuse_from(BYTES)
        found, last = [], None
        batch = proactor.read_many(
            [PATH] * COUNT, concurrency=COUNT, ordered=ordered, return_exceptions=True, engine=engine
        )
        async for path, data in batch:
            found.append((path, type(data).__name__))
        shim.refuse_from(2**63)
        kinds = {kind for _, kind in found}
        print(len(found), {path for path, _ in found} == {PATH}, sorted(kinds))

asyncio.run(asyncio.wait_for(main(), 30))
"""


def test_files_that_the_engine_refuses_have_their_turn(engine: str, shim: Path) -> None:
    """Each file of a batch is handed out once, with its error; those after it as well."""
    done = subprocess.run(
        [sys.executable, "-c", REFUSED_FILES, str(shim), engine],
        env={**os.environ, "LD_PRELOAD": str(shim)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, "3000 True ['MemoryError', 'bytes']\n" * 2), done.stderr[
        -500:
    ]
