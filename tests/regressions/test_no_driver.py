"""Where no driver can be made for a loop, the OSError says which call of which file met that, and why.

Users saw an OSError without errno, filename and op where descriptors had run out or a filter forbade eventfd,
or a text like "threads does not: Too many open files (os error 24) (Too many open files)".
"""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from capabilities import needs
from seccomp import EVENTFD2, FILTER, IO_URING_SETUP

CALLS = """
import asyncio, io, json, os, resource, sys
import proactor, proactor.aio, proactor.os, proactor.shutil

engine, path, *refused = sys.argv[1:]
# Modules that are imported when they are first used.
proactor.Path(path).open()

async def read_many():
    async for _ in proactor.read_many([path], engine=engine): pass

async def opened(mode):
    async with proactor.open(path, mode, engine=engine): pass

async def context():
    proactor.aio.Context(engine=engine)

async def auto_context():
    proactor.aio.Context()

CALLS = {
    "read_bytes": lambda: proactor.read_bytes(path, engine=engine),
    "write_bytes": lambda: proactor.write_bytes(path, b"data", engine=engine),
    "open": lambda: opened("rb"),
    "open text": lambda: opened("r"),
    "read_many": read_many,
    "context": context,
    # On the engine that is chosen, or that the environment names.
    "stat": lambda: proactor.os.stat(path),
    "listdir": lambda: proactor.os.listdir(os.path.dirname(path)),
    "Path": lambda: proactor.Path(path).read_text(),
    "open auto": lambda: proactor.Path(path).open().__aenter__(),
    "auto context": auto_context,
}

def told(error):
    return {"errno": error.errno, "filename": error.filename, "op": getattr(error, "op", None),
            "text": error.strerror, "type": type(error).__name__}

async def caught(call):
    try:
        await call()
    except OSError as error:
        return told(error)
    return None

if refused == ["descriptors"]:
    used = max(int(fd) for fd in os.listdir("/proc/self/fd"))
    loop = asyncio.new_event_loop()
    low = loop._selector.fileno() + 4
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    # All that the limit allows are open.
    while True:
        if os.open("/dev/null", os.O_RDONLY) >= low + 8: break
    resource.setrlimit(resource.RLIMIT_NOFILE, (low + 8, hard))
    loop_of = lambda: loop
else:
    loop_of = asyncio.new_event_loop
    for number in refused:
        deny(1, int(number), True)

print(json.dumps({name: loop_of().run_until_complete(caught(call)) for name, call in CALLS.items()}))
"""

# op of each call, and whether it has a file.
EXPECTED = {
    "read_bytes": ("read_file", True),
    "write_bytes": ("write_file", True),
    "open": ("open", True),
    "open text": ("open", True),
    "read_many": ("read_file", False),
    "context": ("context", False),
    "stat": ("statx", True),
    "listdir": ("scandir", True),
    "Path": ("read_file", True),
    "open auto": ("open", True),
    "auto context": ("context", False),
}


def outcomes(engine: str, path: Path, *refused: str, named: bool = True) -> dict[str, dict[str, Any]]:
    environment = os.environ | ({"PROACTOR_ENGINE": engine} if named else {})
    done = subprocess.run(
        [sys.executable, "-c", FILTER + CALLS, engine, str(path), *refused],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env=environment,
    )
    assert done.returncode == 0, done.stderr
    told: dict[str, dict[str, Any]] = json.loads(done.stdout)
    return told


def check(told: dict[str, dict[str, Any]], path: Path, number: int, reason: str, but: set[str]) -> None:
    assert set(told) == set(EXPECTED)
    for call, (op, has_file) in EXPECTED.items():
        if call in but:
            continue
        error = told[call]
        assert error is not None, f"{call} was done"
        name = {True: str(path), False: None}[has_file]
        if call == "listdir":
            name = str(path.parent)
        assert (error["errno"], error["op"], error["filename"]) == (number, op, name), call
        text = error["text"]
        assert text.count(reason) == 1, text
        assert "os error" not in text, text


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "file"
    path.write_bytes(b"data")
    return path


@pytest.mark.parametrize("named", [False, True])
def test_no_descriptor_is_left(path: Path, engine: str, named: bool) -> None:
    told = outcomes(engine, path, "descriptors", named=named)
    check(told, path, 24, "Too many open files", but=set())
    names_it = [error["text"] for call, error in told.items() if "auto" in call and named]
    assert all(text.startswith(f"PROACTOR_ENGINE={engine}: ") for text in names_it), names_it


@needs("seccomp filter")
def test_eventfd_is_forbidden(path: Path, engine: str) -> None:
    # A ring needs none until a loop is to watch it.
    without = {"context", "auto context"} if engine == "io_uring" else set[str]()
    told = outcomes(engine, path, str(EVENTFD2))
    check(told, path, 1, "Operation not permitted", but=without)
    for call, error in told.items():
        if call not in without:
            assert "forbids eventfd2" in error["text"]
            assert error["type"] == "PermissionError"


@needs("seccomp filter")
def test_each_engine_has_its_reason(path: Path) -> None:
    told = outcomes("threads", path, str(EVENTFD2), str(IO_URING_SETUP), named=False)
    for call in ("auto context", "stat"):
        text = told[call]["text"]
        forbids = "a seccomp filter or security module forbids"
        assert text == (
            f"no engine works here; io_uring does not: Operation not permitted: {forbids} io_uring; "
            f"threads does not: Operation not permitted: {forbids} eventfd2"
        )


SOCKETS = """
import asyncio, concurrent.futures.thread, encodings.idna, json, os, resource
import proactor.net

async def main():
    told = []
    async def caught(call):
        try:
            made = await call()
        except OSError as error:
            told.append([error.errno, getattr(error, "op", None), error.strerror])
        else:
            await getattr(made, "aclose", lambda: asyncio.sleep(0))()

    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (256, hard))
    fds = []
    try:
        while True:
            fds.append(os.open("/dev/null", os.O_RDONLY))
    except OSError:
        pass
    for _ in range(5):
        for engine in ("auto", "epoll"):
            await caught(lambda: proactor.net.serve(lambda stream: None, "127.0.0.1", engine=engine))
            await caught(lambda: proactor.net.connect("127.0.0.1", 1, engine=engine))
            await caught(lambda: proactor.net.connect_unix("nothing", engine=engine))
        os.close(fds.pop())
    for fd in fds:
        os.close(fd)
    print(json.dumps(told))

asyncio.run(main())
"""


def test_no_descriptor_is_left_for_sockets() -> None:
    done = subprocess.run(
        [sys.executable, "-c", SOCKETS], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert [errno.EMFILE, "net", os.strerror(errno.EMFILE)] in told
    assert {number for number, _, _ in told} <= {errno.EMFILE, errno.ECONNREFUSED, errno.ENOENT}
    for _, op, text in (one for one in told if one[0] == errno.EMFILE):
        assert op in ("net", "listen", "connect")
        assert text.lower().count("too many open files") == 1
        assert op != "net" or "os error" not in text
