"""The first use of proactor in a thread that outlives the main one, or in an atexit function, failed with
"can't register atexit after shutdown". After an earlier use, all that needs a Python thread failed there.
Later, a program whose atexit function had used threads hung now and then when all was done.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

WORK = """
import asyncio, atexit, os, sys, threading

async def work(directory):
    import proactor, proactor.os, proactor.shutil, proactor.tempfile
    path = os.path.join(directory, "file")
    async with proactor.open(path, "w") as file:
        await file.write("text")
    assert await proactor.read_bytes(path) == b"text"
    await proactor.os.mkdir(os.path.join(directory, "made"))
    assert await proactor.os.access(path, os.R_OK)
    assert [name async for name in proactor.Path(directory).glob("f*")] == [proactor.Path(path)]
    await proactor.shutil.copytree(directory, directory + "-copy")
    async with proactor.tempfile.TemporaryDirectory() as temporary:
        assert os.path.isdir(temporary)
    calls = [proactor.os.listdir(directory) for _ in range(100)]
    assert len(await asyncio.gather(*calls)) == 100
    await proactor.stdout.write("worked\\n")
    await proactor.stdout.flush()

def go():
    main.join()
    asyncio.run(work(sys.argv[1]))

main = threading.main_thread()
"""
USED = """
async def use():
    import proactor.os
    await proactor.os.access("/", os.R_OK)
asyncio.run(use())
"""
STARTS = {
    "thread": "threading.Thread(target=go).start()\n",
    "atexit": "atexit.register(lambda: asyncio.run(work(sys.argv[1])))\n",
}


@pytest.mark.parametrize("used", ["", USED], ids=["first", "later"])
@pytest.mark.parametrize("start", STARTS)
def test_everything_works(tmp_path: Path, start: str, used: str) -> None:
    directory = tmp_path / "work"
    directory.mkdir()
    done = subprocess.run(
        [sys.executable, "-c", WORK + used + STARTS[start], str(directory)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "worked\n", "")
    assert (tmp_path / "work-copy" / "file").read_text() == "text"


def test_idle_threads_do_not_keep_the_interpreter(tmp_path: Path) -> None:
    program = (
        "import asyncio, os, proactor.os\n"
        "async def main():\n"
        "    await asyncio.gather(*[proactor.os.listdir('/') for _ in range(50)])\n"
        "loop = asyncio.new_event_loop()\n"
        "loop.run_until_complete(main())\n"
        "loop.close()\n"
    )
    done = subprocess.run([sys.executable, "-c", program], timeout=60, check=False)
    assert done.returncode == 0


def test_a_thread_that_ended_with_its_pools_lock() -> None:
    """The interpreter ends threads wherever they are, and collects what is left after that."""
    program = (
        "import atexit, threading\n"
        "import proactor\n"
        "from proactor._threads import Threads\n"
        "locks, wanted, held = [], threading.Event(), threading.Event()\n"
        "def hold():\n"
        "    wanted.wait()\n"
        "    with locks.pop():\n"
        "        held.set()\n"
        "        threading.Event().wait()\n"
        "def use():\n"
        "    # The globals are never freed: frames of the other thread have them.\n"
        "    proactor.pool = Threads(1, 'pool')\n"
        "    locks.append(proactor.pool._work.ready)\n"
        "    wanted.set()\n"
        "    held.wait()\n"
        "threading.Thread(target=hold, daemon=True).start()\n"
        "atexit.register(use)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], timeout=60, check=False)
    assert done.returncode == 0
