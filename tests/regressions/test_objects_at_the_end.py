"""What is alive when a program ends: open files, pending calls, loops of other threads, and code that calls
us in `__del__`, a weakref's callback or atexit. The program ends with its own status, and does not crash.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from capabilities import require
from conftest import BACKENDS

BEGIN = """
import asyncio, atexit, gc, os, signal, sys, threading, weakref
import proactor, proactor.aio, proactor.os, proactor.shutil, proactor.tempfile

path, engine, loop_of = sys.argv[1:4]
if loop_of == "uvloop":
    import uvloop
    new_event_loop = uvloop.new_event_loop
else:
    new_event_loop = asyncio.new_event_loop
# Nothing is ever in it, so what reads it waits for ever.
pipe_out, pipe_in = os.pipe()
# What lives until modules are torn down.
kept = []

async def some_of_everything(loop=None):
    file = await proactor.open(path, "r+b", engine=engine)
    await file.read(1)
    await file.write(b"x")
    text = await proactor.open(path, "r+", engine=engine)
    await text.readline()
    entries = proactor.os.scandir("/")
    await entries.__anext__()
    batch = proactor.read_many([path] * 1000, engine=engine)
    await batch.__anext__()
    temporary = await proactor.tempfile.NamedTemporaryFile(engine=engine)
    pipe = await proactor.open(pipe_out, "rb", closefd=False, engine=engine)
    pending = asyncio.ensure_future(pipe.read())
    large = asyncio.ensure_future(proactor.read_bytes("/proc/kallsyms", engine=engine))
    lock = asyncio.ensure_future(proactor.shutil.copyfile(path, path + "-copy"))
    unawaited = file.read()
    await asyncio.sleep(0)
    return file, text, entries, batch, temporary, pipe, pending, large, lock, unawaited

class Caller:
    '''It uses us when it is collected.'''
    def __init__(self, objects=()):
        self.objects = objects
    def __del__(self):
        use()

def use():
    try:
        use_or_fail()
    except BaseException:
        # What modules had is gone by then.
        pass

def use_or_fail():
    asyncio.run(proactor.write_bytes(path + "-end", b"x", engine=engine))
    call = proactor.read_bytes(path, engine=engine)
    try:
        call.send(None)
    except (StopIteration, RuntimeError):
        pass
    call.close()
    with proactor.aio.Context(engine=engine) as context:
        context.submit(proactor.aio.Fsync(1))
        context.wait()
"""

# What is done, and the exit status.
PROGRAMS = {
    "a loop that is left open": """
loop = new_event_loop()
kept.append(loop.run_until_complete(some_of_everything()))
""",
    "a loop that is closed": """
loop = new_event_loop()
kept.append(loop.run_until_complete(some_of_everything()))
loop.close()
""",
    "in a circle": """
loop = new_event_loop()
circle = [loop.run_until_complete(some_of_everything()), loop]
circle.append(circle)
del circle, loop
""",
    "used by __del__": """
loop = new_event_loop()
kept.append(Caller(loop.run_until_complete(some_of_everything())))
sys.modules["kept elsewhere"] = Caller()
""",
    "used by a weakref's callback": """
class Thing: pass
thing = Thing()
kept.append((thing, weakref.ref(thing, lambda _: use())))
weakref.finalize(thing, use)
""",
    "used by atexit": """
loop = new_event_loop()
kept.append(loop.run_until_complete(some_of_everything()))
atexit.register(use_or_fail)
atexit.register(lambda: kept.append(new_event_loop().run_until_complete(some_of_everything())))
""",
    "a daemon thread's loop": """
loop = new_event_loop()
ready = threading.Event()
async def work():
    kept.append(await some_of_everything())
    ready.set()
    while True:
        await proactor.read_bytes(path, engine=engine)
        await proactor.write_bytes(path + "-daemon", b"x", engine=engine)
        await proactor.os.listdir("/")
        await proactor.shutil.copyfile(path, path + "-copy")
threading.Thread(target=loop.run_until_complete, args=(work(),), daemon=True).start()
assert ready.wait(60)
""",
    "collected at the end": """
loop = new_event_loop()
circle = [loop.run_until_complete(some_of_everything())]
circle.append(circle)
del circle
class Collects:
    def __del__(self):
        gc.collect()
kept.append(Collects())
atexit.register(gc.collect)
""",
    "os._exit": """
async def main():
    kept.append(await some_of_everything())
    os._exit(0)
new_event_loop().run_until_complete(main())
""",
    "os._exit in a thread": """
async def main():
    kept.append(await some_of_everything())
    await asyncio.sleep(60)
threading.Timer(0.1, os._exit, (0,)).start()
new_event_loop().run_until_complete(main())
""",
    "sys.exit in a task": """
async def main():
    kept.append(await some_of_everything())
    await proactor.write_bytes(path + "-more", b"x", engine=engine)
    sys.exit(0)
new_event_loop().run_until_complete(main())
""",
    "sys.exit in a callback": """
async def main():
    kept.append(await some_of_everything())
    asyncio.get_running_loop().call_soon(sys.exit, 0)
    await asyncio.sleep(60)
new_event_loop().run_until_complete(main())
""",
    "sys.exit in an opener": """
async def main():
    kept.append(await some_of_everything())
    await proactor.open(path, "rb", opener=lambda *_: sys.exit(0), engine=engine)
new_event_loop().run_until_complete(main())
""",
    "fork in a thread": """
status = []
def fork():
    pid = os.fork()
    if not pid:
        # The loop, the files and the calls are the parent's; the child ends as any program.
        use()
        sys.exit(0)
    status.append(os.waitpid(pid, 0)[1])
async def main():
    kept.append(await some_of_everything())
    thread = threading.Thread(target=fork)
    thread.start()
    while thread.is_alive():
        await proactor.write_bytes(path + "-more", b"x", engine=engine)
        await asyncio.sleep(0)
loop = new_event_loop()
loop.run_until_complete(main())
assert status == [0], status
""",
    "fork with calls pending": """
async def main():
    kept.append(await some_of_everything())
    pid = os.fork()
    if not pid:
        use()
        gc.collect()
        sys.exit(0)
    assert os.waitpid(pid, 0)[1] == 0
new_event_loop().run_until_complete(main())
""",
    "a context with ops": """
context = proactor.aio.Context(engine=engine)
context.submit(proactor.aio.Read(pipe_out, 100))
kept.append(context)
kept.append(Caller((context,)))
""",
    "a context of a daemon thread": """
ready = threading.Event()
def work():
    context = proactor.aio.Context(engine=engine)
    context.submit(proactor.aio.Read(pipe_out, 100))
    ready.set()
    context.wait()
threading.Thread(target=work, daemon=True).start()
assert ready.wait(60)
""",
}


# Which loop it is makes no difference to an engine.
WAYS = [*(("asyncio", engine) for engine in BACKENDS), ("uvloop", BACKENDS[0])]


@pytest.mark.parametrize("program", PROGRAMS)
@pytest.mark.parametrize(("loop", "engine"), WAYS)
def test_the_end(program: str, loop: str, engine: str, tmp_path: Path) -> None:
    if loop == "uvloop":
        require("uvloop")
    path = tmp_path / "file"
    path.write_bytes(b"text\n" * 10)
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", BEGIN + PROGRAMS[program], str(path), engine, loop],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env={**os.environ, "RUST_BACKTRACE": "1"},
    )
    assert (done.returncode, done.stdout) == (0, ""), done.stderr
    for word in ("panic", "Fatal", "ignored"):
        assert word not in done.stderr
