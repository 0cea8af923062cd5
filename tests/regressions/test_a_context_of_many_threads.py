"""A context of `compat.linux_aio` raised RuntimeError in every thread but its maker's, so that a program
with a thread of its own for events could not be moved. `proactor.aio.Context(shared=True)` is what it is
on now.
"""

from __future__ import annotations

import os
import select
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from capabilities import needs, require
from proactor import aio


@pytest.fixture(params=["linux_aio", "posix_aio", "threads"])
def context(request: pytest.FixtureRequest) -> Iterator[aio.Context]:
    if request.param == "linux_aio":
        require("linux_aio")
    with aio.Context(64, engine=request.param, shared=True) as context:
        yield context


def test_many_threads_submit_and_many_wait(context: aio.Context, tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"hello")
    taken: list[int] = []
    rest = threading.Semaphore(400)

    def submit(fd: int) -> None:
        for _ in range(100):
            while not context.submit(aio.Read(fd, 5, offset=0)):
                pass

    def take() -> None:
        while rest.acquire(blocking=False):
            # As many as there are permits are taken, one by one, whoever waits.
            (event,) = context.wait(1, 1)
            taken.append(event.check())

    with path.open("rb") as file:
        threads = [threading.Thread(target=submit, args=(file.fileno(),)) for _ in range(4)]
        threads += [threading.Thread(target=take) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        assert not any(thread.is_alive() for thread in threads)
    assert taken == [5] * 400


def test_waiters_for_one_and_for_several(context: aio.Context, pipe: tuple[int, int]) -> None:
    counts: list[int] = []
    waits = [threading.Thread(target=lambda n=n: counts.append(len(context.wait(n, n)))) for n in (3, 1)]
    for wait in waits:
        wait.start()
    os.write(pipe[1], b"x")
    for _ in range(4):
        context.submit(aio.Poll(pipe[0], select.POLLIN))
    for wait in waits:
        wait.join(30)
        assert not wait.is_alive()
    assert sorted(counts) == [1, 3]


def test_what_one_wait_leaves_ends_another(context: aio.Context, tmp_path: Path) -> None:
    # The descriptor's signal is gone with the first of two events, before the thread that sleeps has seen it.
    path = tmp_path / "file"
    path.write_bytes(b"hello")
    with path.open("rb") as file:
        for _ in range(200):
            other = threading.Thread(target=context.wait, args=(1, 1))
            other.start()
            pair = [aio.Read(file.fileno(), 5, offset=0) for _ in range(2)]
            assert context.submit(*pair) == 2
            assert len(context.wait(1, 1)) == 1
            other.join(30)
            assert not other.is_alive()


def test_closing_ends_the_waits(context: aio.Context, pipe: tuple[int, int]) -> None:
    context.submit(aio.Poll(pipe[0], select.POLLIN))
    errors: list[ValueError] = []

    def wait() -> None:
        try:
            context.wait(2, 2)
        except ValueError as error:
            errors.append(error)

    threads = [threading.Thread(target=wait) for _ in range(2)]
    for thread in threads:
        thread.start()
    context.close()
    for thread in threads:
        thread.join(30)
        assert not thread.is_alive()
    assert len(errors) == 2


def test_it_is_freed_by_the_thread_that_drops_it(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"hello")
    made: list[aio.Context] = []
    maker = threading.Thread(target=lambda: made.append(aio.Context(4, engine="threads", shared=True)))
    maker.start()
    maker.join()
    context = made.pop()
    assert context.submit(aio.Read(str(path), 5, offset=0)) == 1
    assert [event.check() for event in context.wait()] == [5]
    del context


def test_a_childs_copy_raises(context: aio.Context) -> None:
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            context.wait(0, 1, 0)
        except RuntimeError:
            code = 0
        os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0


@needs("io_uring")
def test_a_ring_cannot_be_shared() -> None:
    with pytest.raises(ValueError, match="shared context cannot be on io_uring"):
        aio.Context(4, engine="io_uring", shared=True)


def test_a_call_within_a_call_is_told(context: aio.Context) -> None:
    class Intruder:
        def fileno(self) -> int:
            context.wait(0, 1, 0)
            return 0

    with pytest.raises(RuntimeError, match="in use already"):
        context.submit(aio.Fsync(Intruder()))
