"""Edges of `proactor.aio` at which engines, or the kernel and we, could differ."""

from __future__ import annotations

import errno
import os
import resource
import select
import socket
import subprocess
import sys
import textwrap
import threading
from pathlib import Path
from typing import Any

import pytest
from aio_helpers import run_one
from capabilities import require
from proactor import aio

pytest_plugins = ["aio_fixtures"]


class TestFileno:
    def readable(self, context: aio.Context) -> bool:
        return bool(select.select([context.fileno()], [], [], 0)[0])

    def test_only_while_events_wait(self, context: aio.Context) -> None:
        assert not self.readable(context)
        reader, writer = os.pipe()
        try:
            for _ in range(3):
                context.submit(aio.Read(reader, 5))
                assert context.wait(0) == []
                os.write(writer, b"hello")
                assert select.select([context.fileno()], [], [], 10)[0]
                (event,) = context.wait(1)
                assert event.check() == 5
                assert not self.readable(context)
        finally:
            os.close(reader)
            os.close(writer)

    def test_asked_for_with_ops_in_flight(self, context: aio.Context) -> None:
        reader, writer = os.pipe()
        try:
            context.submit(aio.Read(reader, 5))
            context.wait(0)
            os.write(writer, b"hello")
            assert select.select([context.fileno()], [], [], 10)[0]
            (event,) = context.wait(1)
            assert event.check() == 5
        finally:
            os.close(reader)
            os.close(writer)


@pytest.mark.parametrize("inline", [True, False])
def test_no_bytes_of_an_empty_pipe(engine: str, inline: bool) -> None:
    """As read(2): nothing is waited for."""
    reader, writer = os.pipe()
    try:
        with aio.Context(8, engine=engine, inline=inline) as context:
            for op in (aio.Read(reader, 0), aio.ReadV(reader, [bytearray()]), aio.Write(writer, b"")):
                assert run_one(context, op).check() == 0
    finally:
        os.close(reader)
        os.close(writer)


def test_nowait_where_it_is_not_to_be_had(engine: str, path: Path) -> None:
    """A buffered write: pwritev2's answer on every engine. EAGAIN would be asked again for ever."""
    fd = os.open(path, os.O_RDWR)
    try:
        try:
            plain: int | None = os.pwritev(fd, [b"123"], 0, os.RWF_NOWAIT)
        except OSError as error:
            plain = -(error.errno or 0)
        for inline in (True, False):
            with aio.Context(8, engine=engine, inline=inline) as context:
                assert run_one(context, aio.Write(fd, b"123", 0, rw_flags=os.RWF_NOWAIT)).result == plain
    finally:
        os.close(fd)


class TestBuffers:
    @pytest.mark.parametrize("kind", ["fortran", "strided", "read-only"])
    def test_an_array_is_never_a_size(self, path: Path, kind: str) -> None:
        require("numpy")
        import numpy as np

        array: Any = np.zeros((4, 4), order="F")
        if kind == "strided":
            array = np.zeros(8)[::2]
        elif kind == "read-only":
            array = np.zeros(1)
            array.flags.writeable = False
        with path.open("rb") as file, pytest.raises((BufferError, ValueError)):
            aio.Read(file, array)

    def test_a_number_of_numpy_is_a_size(self, engine: str, path: Path) -> None:
        require("numpy")
        import numpy as np

        size: Any = np.int64(5)
        with path.open("rb") as file, aio.Context(engine=engine) as context:
            assert run_one(context, aio.Read(file, size, 0)).check() == 5


class TestAlignment:
    def test_a_closed_descriptor(self) -> None:
        with pytest.raises(OSError, match="Bad file") as error:
            aio.direct_alignment(9999)
        assert error.value.errno == errno.EBADF

    def test_what_knows_no_direct_transfers(self, tmp_path: Path) -> None:
        reader, writer = os.pipe()
        directory = os.open(tmp_path, os.O_RDONLY)
        with socket.socket() as connection:
            try:
                for fd in (reader, directory, connection.fileno()):
                    with pytest.raises(OSError, match="Invalid argument") as error:
                        aio.direct_alignment(fd)
                    assert error.value.errno == errno.EINVAL
            finally:
                for fd in (reader, writer, directory):
                    os.close(fd)


class TestBacklog:
    @pytest.mark.parametrize("backlog", [2**63 - 1, 2**40])
    def test_of_any_size(self, backlog: int) -> None:
        with aio.Context(4, backlog=backlog) as context:
            assert run_one(context, aio.Write(1, b"")).result is not None

    def test_below_nothing(self) -> None:
        with pytest.raises(ValueError, match="backlog must not be negative, not -1"):
            aio.Context(backlog=-1)


def test_without_descriptors_the_errno_says_so() -> None:
    program = textwrap.dedent(
        """
        import errno, resource
        from proactor import aio
        resource.setrlimit(resource.RLIMIT_NOFILE, (3, 3))
        for engine in ("io_uring", "linux_aio", "threads", None):
            try:
                aio.Context(engine=engine)
            except OSError as error:
                print(errno.errorcode[error.errno])
        """
    )
    assert resource.getrlimit(resource.RLIMIT_NOFILE)[0] > 3
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True
    )
    # An engine that is denied here has another reason.
    assert set(done.stdout.split()) <= {"EMFILE", "EPERM", "ENOSYS"}, done.stdout
    assert done.stdout.split().count("EMFILE") >= 1


def test_an_op_shared_between_threads_is_submitted_once(path: Path) -> None:
    """A file's `fileno()` is the caller's code: while it runs, another thread may try the same op."""
    inside, go_on = threading.Event(), threading.Event()

    with path.open("rb") as file:

        class Slow:
            def fileno(self) -> int:
                # The op asks when it is made, too.
                if threading.current_thread() is not threading.main_thread():
                    inside.set()
                    go_on.wait(10)
                return file.fileno()

        op = aio.Read(Slow(), 5, 0)
        counts: list[int] = []

        def first() -> None:
            with aio.Context() as context:
                context.submit(op)
                counts.append(context.wait(1)[0].check())

        thread = threading.Thread(target=first)
        thread.start()
        assert inside.wait(10)
        with aio.Context() as context:
            with pytest.raises(RuntimeError, match="another thread"):
                context.submit(op)
            assert context.pending == 0
        go_on.set()
        thread.join()
    assert counts == [5]


@pytest.mark.parametrize("arguments", [["doctor"], ["doctor", "--json"]])
def test_a_report_that_cannot_be_written(arguments: list[str]) -> None:
    with open("/dev/full", "wb") as full:
        done = subprocess.run(
            [sys.executable, "-m", "proactor", *arguments],
            stdout=full,
            stderr=subprocess.PIPE,
            timeout=60,
            check=False,
        )
    assert done.returncode == 1
    assert b"No space left on device" in done.stderr


class TestPaths:
    """A path is opened for one submission."""

    @pytest.mark.parametrize("kind", [str, os.fsencode, Path])
    def test_read_and_write(self, context: aio.Context, path: Path, kind: Any) -> None:
        before = set(os.listdir("/proc/self/fd"))
        read = aio.Read(kind(path), 5, 1)
        for _ in range(2):
            event = run_one(context, read)
            assert event.check() == 5
            assert bytes(event.data) == path.read_bytes()[1:6]
        assert run_one(context, aio.WriteV(kind(path), [b"ab", b"c"], 1)).check() == 3
        assert path.read_bytes()[1:4] == b"abc"
        assert run_one(context, aio.Fsync(kind(path))).check() == 0
        assert run_one(context, aio.Fdatasync(kind(path.parent))).check() == 0
        assert set(os.listdir("/proc/self/fd")) == before

    def test_missing(self, context: aio.Context, tmp_path: Path) -> None:
        missing = tmp_path / "missing"
        for op in (aio.Read(missing, 1), aio.Write(missing, b"x")):
            with pytest.raises(FileNotFoundError) as error:
                context.submit(op)
            assert error.value.filename == str(missing)
            assert context.pending == 0
        assert not missing.exists()

    def test_an_error_of_the_op_names_it(self, context: aio.Context, tmp_path: Path) -> None:
        event = run_one(context, aio.Read(tmp_path, 1))
        assert isinstance(event.error, IsADirectoryError)
        assert event.error.filename == tmp_path

    def test_one_that_is_given_up_is_closed(self, engine: str, tmp_path: Path) -> None:
        fifo = tmp_path / "fifo"
        os.mkfifo(fifo)
        writer = os.open(fifo, os.O_RDWR)
        before = set(os.listdir("/proc/self/fd"))
        with aio.Context(engine=engine) as context:
            context.submit(aio.Read(fifo, 1))
            assert context.wait(0) == []
        assert set(os.listdir("/proc/self/fd")) == before
        os.close(writer)

    def test_not_for_poll(self, path: Path) -> None:
        with pytest.raises(TypeError, match="polled"):
            aio.Poll(path, select.POLLIN)  # type: ignore[arg-type]


class TestTheCallersCode:
    """What an op calls may wait for this very op: its event is not lost, and nothing panics."""

    def test_the_repr_of_a_file(self, context: aio.Context, path: Path) -> None:
        class File:
            def __init__(self) -> None:
                self.file = path.open("rb")

            def fileno(self) -> int:
                return self.file.fileno()

            def __repr__(self) -> str:
                (event,) = context.wait()
                return f"a file of which {event.check()} bytes were read"

        file = File()
        with file.file:
            op = aio.Read(file, 5, 0)
            context.submit(op)
            assert repr(op) == "<Read a file of which 5 bytes were read at 0, done>"
        assert (op.state, context.pending) == ("done", 0)

    if sys.version_info >= (3, 12):

        def test_a_buffer(self, context: aio.Context, path: Path) -> None:
            class Memory:
                waits = False

                def __buffer__(self, flags: int, /) -> memoryview:
                    if self.waits:
                        self.waits = False
                        (event,) = context.wait()
                        assert event.check() == 5
                    return memoryview(memory)

            memory = bytearray(5)
            buffer = Memory()
            with path.open("rb") as file:
                op = aio.Read(file, buffer, 0)
                first = run_one(context, op)
                context.submit(op)
                buffer.waits = True
                assert bytes(first.data) == memory
            assert (op.state, context.pending) == ("done", 0)


@pytest.mark.parametrize("named", [{}, {"engine": "io_uring"}], ids=["chosen", "named"])
def test_a_polling_thread_on_a_processor_that_is_not_there(named: dict[str, str]) -> None:
    require("io_uring")
    with pytest.raises(ValueError, match=r"SQPOLL cannot be bound to CPU 100000: it is not online"):
        aio.Context(8, sqpoll=True, sqpoll_cpu=100_000, **named)  # type: ignore[arg-type]
