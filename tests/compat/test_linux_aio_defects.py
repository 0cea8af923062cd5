"""`proactor.compat.linux_aio`: what the original gets wrong."""

from __future__ import annotations

import array
import ctypes
import errno
import mmap
import os
import select
import signal
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from linux_aio_suite import run
from proactor.compat import linux_aio as ours
from rivals import CONTENT, WithFile


def open_fd(fd: int, mode: str) -> Any:
    return os.fdopen(fd, mode, buffering=0)


class TestDefectsNotCopied(WithFile):
    @pytest.fixture
    def context(self, engine: str) -> Iterator[ours.AIOContext]:
        with ours.AIOContext(8, engine=engine) as context:
            yield context

    @pytest.mark.parametrize("kind", ["pipe", "socket"])
    def test_an_empty_pipe_does_not_block(self, context: ours.AIOContext, kind: str) -> None:
        reader, writer = socket.socketpair() if kind == "socket" else map(open_fd, os.pipe(), ("rb", "wb"))
        with reader, writer:
            block = ours.ReadBlock(reader, bytearray(4))
            assert context.submit(block) == 1
            assert context.get_events(0, 1) == ()
            os.write(writer.fileno(), b"abcd")
            (event,) = context.get_events(1, 1)
            assert event.buffer == b"abcd"

    def test_a_read_of_a_pipe_can_be_cancelled(self, context: ours.AIOContext, pipe: tuple[int, int]) -> None:
        block = ours.ReadBlock(pipe[0], bytearray(4))
        assert context.submit(block) == 1
        with pytest.raises(OSError, match="in progress") as told:
            context.cancel(block)
        assert told.value.errno == errno.EINPROGRESS
        (event,) = context.get_events(1, 1)
        assert event.aio_block is block
        assert event.response == -errno.ECANCELED

    @pytest.mark.parametrize(
        "make",
        [
            lambda: mmap.mmap(-1, 11),
            lambda: memoryview(bytearray(11)),
            lambda: array.array("b", bytes(11)),
        ],
        ids=["mmap", "memoryview", "array"],
    )
    def test_any_buffer(self, context: ours.AIOContext, fd: int, make: Any) -> None:
        buffer = make()
        (event,) = run(context, ours.ReadBlock(fd, buffer))
        assert event.buffer is buffer
        assert bytes(buffer) == CONTENT == event.stripped_buffer()
        (event,) = run(context, ours.WriteBlock(fd, buffer, 11))
        assert event.response == 11
        assert os.pread(fd, 30, 0) == CONTENT * 2

    def test_a_buffer_with_a_zero_in_its_shape(
        self, context: ours.AIOContext, fd: int, direct_file: tuple[Path, int]
    ) -> None:
        for file in (fd, direct_file[1]):
            for block in (ours.WriteBlock, ours.ReadBlock):
                (event,) = run(context, block(file, ((ctypes.c_char * 3) * 0)()))
                assert event.response == 0

    def test_a_read_only_buffer_is_refused(self, fd: int) -> None:
        with pytest.raises(TypeError, match="read-only"):
            ours.ReadBlock(fd, memoryview(b"abc"))

    def test_bytes_are_not_changed(self, context: ours.AIOContext, fd: int) -> None:
        given = bytes(20)
        (event,) = run(context, ours.ReadBlock(fd, given))
        assert given == bytes(20)
        assert event.buffer == CONTENT + bytes(9)

    def test_direct(self, context: ours.AIOContext, direct_file: tuple[Path, int]) -> None:
        path, fd = direct_file
        content = path.read_bytes()
        # One byte after an aligned address: no device takes it.
        buffer = memoryview(mmap.mmap(-1, 8192))[1:4097]
        (event,) = run(context, ours.ReadBlock(fd, buffer))
        assert event.response == 4096
        assert buffer == content[:4096]
        (event,) = run(context, ours.WriteBlock(fd, content[4096:], 0))
        assert event.response == 4096
        parts = [bytearray(4096), bytearray(4096)]
        (event,) = run(context, ours.ReadVBlock(fd, parts))
        assert b"".join(parts) == content[4096:] * 2

    def test_stripped_vectors_are_what_was_read(self, context: ours.AIOContext, fd: int) -> None:
        os.pwrite(fd, b"a\0\0", 8)
        (event,) = run(context, ours.ReadVBlock(fd, [bytearray(3), bytearray(8)], 6))
        assert event.stripped_buffer() == b"woa\0\0"

    def test_length_beyond_the_buffer(self, fd: int) -> None:
        with pytest.raises(ValueError, match="outside the buffer"):
            ours.ReadBlock(fd, bytearray(5), length=6)

    @pytest.mark.parametrize("jobs", [0, -1, 4_194_305, 2**70])
    def test_max_jobs_that_cannot_be(self, jobs: int, engine: str) -> None:
        with pytest.raises(OSError, match="Invalid argument") as refused:
            ours.AIOContext(jobs, engine=engine)
        assert refused.value.errno == errno.EINVAL

    def test_max_jobs_beyond_what_an_engine_holds(self, fd: int, pipe: tuple[int, int]) -> None:
        polls = [ours.PollBlock(pipe[0], select.POLLIN) for _ in range(32_780)]
        with ours.AIOContext(16_390, engine="threads") as context:
            assert context.submit(*polls) == 32_780

    def test_cancel_of_no_block(self, context: ours.AIOContext) -> None:
        not_a_block: Any = None
        with pytest.raises(TypeError, match="a block is needed"):
            context.cancel(not_a_block)

    def test_a_failure_is_an_event(self, context: ours.AIOContext, tmp_path: Path) -> None:
        directory = os.open(tmp_path, os.O_RDONLY)
        try:
            (event,) = run(context, ours.ReadBlock(directory, bytearray(4)))
        finally:
            os.close(directory)
        assert event.response == -errno.EISDIR
        assert event.stripped_buffer() == b""

    def test_a_signal_ends_a_wait_and_loses_no_event(
        self, context: ours.AIOContext, pipe: tuple[int, int]
    ) -> None:
        reader, writer = pipe
        idle = os.pipe()
        before = signal.signal(signal.SIGALRM, lambda *_: os.write(writer, b"x"))
        try:
            context.submit(ours.PollBlock(reader, select.POLLIN))
            # A second block, as a context of one thread waits for no more than are in flight.
            context.submit(ours.PollBlock(idle[0], select.POLLIN))
            signal.setitimer(signal.ITIMER_REAL, 0.02)
            # Beside the event that the handler makes, a second never comes.
            with pytest.raises(InterruptedError):
                context.get_events(2, 2, 60 * 10**9)
            (event,) = context.get_events(1, 1)
        finally:
            signal.signal(signal.SIGALRM, before)
            context.close()
            for end in idle:
                os.close(end)
        assert event.response & select.POLLIN

    def test_change_cmd_is_complete(self, context: ours.AIOContext, fd: int) -> None:
        read = ours.ReadBlock(fd, bytearray(5), 6)
        run(context, read)
        write = read.change_cmd(ours.IOCBCMD.PWRITE)
        write.offset = 0  # type: ignore[attr-defined]
        run(context, write)
        assert os.pread(fd, 20, 0) == b"world world"
