"""`proactor.sync`: batches of files without an event loop."""

from __future__ import annotations

import asyncio
import gc
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import proactor
import proactor.sync
import pytest
from file_helpers import LARGE_BYTES, content, descriptors

SLOW = Path("/proc/self/status")  # Never read at once.
COUNT = 40


@pytest.fixture(autouse=True)
def driver_ends() -> Iterator[None]:
    """This thread's driver would stay as long as the thread."""
    yield
    proactor.sync._of_thread.loop = None


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    folder = tmp_path_factory.mktemp("tree")
    paths = [folder / f"{at:03}" for at in range(COUNT)]
    for at, path in enumerate(paths):
        path.write_bytes(content(LARGE_BYTES if at % 10 == 3 else at * 101, at))
    return paths


def pairs(paths: list[Path]) -> list[tuple[Path, bytes]]:
    return [(path, path.read_bytes()) for path in paths]


@pytest.mark.parametrize("concurrency", [1, 3, 64])
def test_all_in_order(tree: list[Path], engine: str, concurrency: int) -> None:
    found = list(proactor.sync.read_many(tree, concurrency=concurrency, engine=engine))
    assert found == pairs(tree)


def test_as_they_arrive(tree: list[Path], engine: str) -> None:
    assert sorted(proactor.sync.read_many(tree, ordered=False, engine=engine)) == pairs(tree)


def test_helpers(tree: list[Path]) -> None:
    many = tree * 20
    assert [path for path, _ in proactor.sync.read_many(many, workers=2)] == many


def test_two_at_once_and_a_driver_for_both(tree: list[Path]) -> None:
    list(proactor.sync.read_many([SLOW]))
    before = descriptors()
    first, second = proactor.sync.read_many(tree), proactor.sync.read_many(tree)
    assert list(zip(first, second, strict=True)) == [(pair, pair) for pair in pairs(tree)]
    assert descriptors() == before


def test_an_error_and_on(tree: list[Path], tmp_path: Path) -> None:
    batch = proactor.sync.read_many([tree[0], tmp_path / "missing", tree[3]])
    assert next(batch) == (tree[0], tree[0].read_bytes())
    with pytest.raises(FileNotFoundError, match="missing"):
        next(batch)
    assert next(batch) == (tree[3], tree[3].read_bytes())
    with pytest.raises(StopIteration):
        next(batch)


def test_closed_early(tree: list[Path]) -> None:
    with proactor.sync.read_many(tree * 5, concurrency=8) as batch:
        next(batch)
    with pytest.raises(StopIteration):
        next(batch)


def test_dropped_early(tree: list[Path]) -> None:
    batch = proactor.sync.read_many([SLOW] * 1000)
    next(batch)
    del batch
    gc.collect()
    assert len(list(proactor.sync.read_many(tree))) == COUNT


def test_inside_a_coroutine(tree: list[Path]) -> None:
    """It blocks the loop, which goes on afterwards, as a notebook's does."""

    async def main() -> None:
        assert list(proactor.sync.read_many(tree)) == pairs(tree)
        assert asyncio.get_running_loop() is asyncio.get_event_loop()
        assert await proactor.read_bytes(SLOW)

    asyncio.run(main())


def test_paths_that_run_a_loop_of_their_own(tree: list[Path]) -> None:
    async def name(path: Path) -> str:
        assert await proactor.read_bytes(SLOW)
        return str(path)

    def paths() -> Iterator[str]:
        for path in tree:
            yield asyncio.run(name(path))

    found = list(proactor.sync.read_many(paths()))
    assert found == [(str(path), data) for path, data in pairs(tree)]


def test_another_thread_is_refused(tree: list[Path]) -> None:
    batch = proactor.sync.read_many(tree)
    next(batch)
    caught: list[BaseException] = []

    def run() -> None:
        with pytest.raises(RuntimeError, match="thread") as error:
            next(batch)
        caught.append(error.value)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    assert caught
    assert next(batch)[0] == tree[1]


def test_a_thread_has_its_own_driver_and_ends_it(tree: list[Path]) -> None:
    before = descriptors()
    found: list[list[tuple[Path, bytes]]] = []
    threads = [
        threading.Thread(target=lambda: found.append(list(proactor.sync.read_many([*tree, SLOW][:COUNT]))))
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [pairs(tree)] * 4
    gc.collect()
    assert descriptors() == before


def test_other_threads_run_meanwhile(tmp_path: Path) -> None:
    """A wait has released the interpreter's lock: another thread opens the FIFO that it waits for."""
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    writer = threading.Thread(target=lambda: fifo.write_bytes(b"hello"))
    batch = proactor.sync.read_many([fifo])
    writer.start()
    assert next(batch) == (fifo, b"hello")
    writer.join()


def in_child(paths: list[Path]) -> int:
    return sum(len(data) for _, data in proactor.sync.read_many(paths))


@pytest.mark.leaks("the fork server of multiprocessing stays")
@pytest.mark.parametrize("method", ["fork", "forkserver", "spawn"])
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_in_child_processes(tree: list[Path], method: str) -> None:
    """Made after this thread had its driver, and with a batch half done."""
    batch = proactor.sync.read_many([SLOW] * 20)
    next(batch)
    context = multiprocessing.get_context(method)
    with context.Pool(2) as pool:
        assert pool.map(in_child, [tree] * 4) == [sum(len(data) for _, data in pairs(tree))] * 4
    assert len(list(batch)) == 19


def test_a_parents_batch_in_a_child(tmp_path: Path) -> None:
    """What is in flight is the parent's: the child hears so and does not wait for ever."""
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    program = f"""
import os, proactor.sync
batch = proactor.sync.read_many([{str(SLOW)!r}, {str(fifo)!r}])
next(batch)
child = os.fork()
if child == 0:
    try:
        next(batch)
    except RuntimeError as error:
        print(error, flush=True)
        os._exit(7)
    os._exit(0)
status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
with open({str(fifo)!r}, "wb") as file:
    file.write(b"hello")
print(status, next(batch)[1])
"""
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    said, status = done.stdout.splitlines()
    assert "made before fork()" in said
    assert status == "7 b'hello'"


def test_ctrl_c_in_a_wait_loses_nothing(tmp_path: Path) -> None:
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    program = f"""
import os, proactor.sync, sys
batch = proactor.sync.read_many([{str(fifo)!r}])
print("waits", flush=True)
try:
    next(batch)
except KeyboardInterrupt:
    print("interrupted", flush=True)
print(next(batch)[1].decode())
"""
    child = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)
    assert child.stdout is not None
    with child, child.stdout as output:
        assert output.readline() == "waits\n"
        # The first may come before it waits: before `try`, where Python would end.
        until_it_sleeps(child.pid)
        child.send_signal(signal.SIGINT)
        assert output.readline() == "interrupted\n"
        fifo.write_text("hello")
        assert output.readline() == "hello\n"
    assert child.returncode == 0


def until_it_sleeps(pid: int) -> None:
    """Until the process waits in poll(2)."""
    calls = {str(number) for number in (7, 271)} if os.uname().machine == "x86_64" else {"73"}
    while Path(f"/proc/{pid}/syscall").read_text().split()[0] not in calls:
        pass


def test_needs_no_asyncio_to_be_imported() -> None:
    program = "import proactor.sync, sys; print('asyncio' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"


def test_one_path_is_refused() -> None:
    with pytest.raises(TypeError, match="not one path"):
        proactor.sync.read_many("path")
