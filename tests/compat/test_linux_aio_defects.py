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


def run_rest(context: ours.AIOContext, count: int) -> list[ours.AIOEvent]:
    events: list[ours.AIOEvent] = []
    while len(events) < count:
        got = context.get_events(1, count)
        assert got
        events += got
    return events


class TestDefectsNotCopied(WithFile):
    @pytest.fixture
    def context(self, engine: str) -> Iterator[ours.AIOContext]:
        with ours.AIOContext(8, engine=engine) as context:
            yield context

    def test_timeout_0_polls(self, context: ours.AIOContext, pipe: tuple[int, int]) -> None:
        context.submit(ours.PollBlock(pipe[0], select.POLLIN))
        assert context.get_events(1, 1, 0) == ()

    def test_never_waits_for_more_than_are_in_flight(self, context: ours.AIOContext, fd: int) -> None:
        assert context.get_events(1, 1) == ()
        assert context.submit(ours.ReadBlock(fd, bytearray(1))) == 1
        assert len(context.get_events(5, 8)) == 1

    @pytest.mark.parametrize("kind", ["pipe", "socket"])
    def test_an_empty_pipe_does_not_block(self, context: ours.AIOContext, kind: str) -> None:
        reader, writer = socket.socketpair() if kind == "socket" else map(open_fd, os.pipe(), ("rb", "wb"))
        with reader, writer:
            block = ours.ReadBlock(reader, bytearray(4))
            assert context.submit(block) == 1
            assert context.get_events(1, 1, 0) == ()
            os.write(writer.fileno(), b"abcd")
            (event,) = context.get_events(1, 1)
            assert event.buffer == b"abcd"

    def test_cancel_says_what_it_did(self, context: ours.AIOContext, pipe: tuple[int, int]) -> None:
        for block in (ours.PollBlock(pipe[0], select.POLLIN), ours.ReadBlock(pipe[0], bytearray(4))):
            assert context.submit(block) == 1
            event = context.cancel(block)
            assert event.aio_block is block
            assert event.response == -errno.ECANCELED
            assert context.get_events(0, 8, 0) == ()

    def test_a_cancel_keeps_the_others_events(
        self, context: ours.AIOContext, fd: int, pipe: tuple[int, int]
    ) -> None:
        reads = [ours.ReadBlock(fd, bytearray(5)) for _ in range(4)]
        poll = ours.PollBlock(pipe[0], select.POLLIN)
        assert context.submit(*reads, poll) == 5
        assert context.cancel(poll).aio_block is poll
        assert [event.response for event in run_rest(context, 4)] == [5] * 4

    def test_cancel_frees_the_slot_only_when_done(self, engine: str, pipe: tuple[int, int]) -> None:
        with ours.AIOContext(1, engine=engine) as context:
            block = ours.ReadBlock(pipe[0], bytearray(4))
            assert context.submit(block) == 1
            with pytest.raises(BlockingIOError):
                context.submit(block)
            context.cancel(block)
            assert context.submit(block) == 1

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

    def test_stripped_is_what_was_read(self, context: ours.AIOContext, fd: int) -> None:
        os.pwrite(fd, b"a\0\0", 8)
        (event,) = run(context, ours.ReadBlock(fd, bytearray(b"x" * 8), 6))
        assert event.stripped_buffer() == b"woa\0\0"
        (event,) = run(context, ours.ReadVBlock(fd, [bytearray(3), bytearray(8)], 6))
        assert event.stripped_buffer() == b"woa\0\0"

    def test_length_beyond_the_buffer(self, fd: int) -> None:
        with pytest.raises(ValueError, match="outside the buffer"):
            ours.ReadBlock(fd, bytearray(5), length=6)

    @pytest.mark.parametrize("jobs", [0, -1, 8_388_609, 2**70])
    def test_max_jobs_that_cannot_be(self, jobs: int, engine: str) -> None:
        with pytest.raises(OSError, match="Invalid argument") as refused:
            ours.AIOContext(jobs, engine=engine)
        assert refused.value.errno == errno.EINVAL

    def test_max_jobs_beyond_what_an_engine_holds(self, fd: int, pipe: tuple[int, int]) -> None:
        polls = [ours.PollBlock(pipe[0], select.POLLIN) for _ in range(32_780)]
        with ours.AIOContext(32_777, engine="threads") as context:
            assert context.submit(*polls) == 32_777

    def test_cancel_of_no_block(self, context: ours.AIOContext) -> None:
        not_a_block: Any = None
        with pytest.raises(TypeError, match="a block is needed"):
            context.cancel(not_a_block)

    def test_max_jobs_is_exact(self, context: ours.AIOContext, fd: int) -> None:
        assert context.submit(*(ours.ReadBlock(fd, bytearray(1)) for _ in range(20))) == 8
        assert len(run_rest(context, 8)) == 8

    def test_a_failure_is_an_event(self, context: ours.AIOContext, tmp_path: Path) -> None:
        directory = os.open(tmp_path, os.O_RDONLY)
        try:
            (event,) = run(context, ours.ReadBlock(directory, bytearray(4)))
        finally:
            os.close(directory)
        assert event.response == -errno.EISDIR
        assert event.stripped_buffer() == b""

    def test_signals_do_not_end_a_wait(self, context: ours.AIOContext, pipe: tuple[int, int]) -> None:
        reader, writer = pipe
        before = signal.signal(signal.SIGALRM, lambda *_: os.write(writer, b"x"))
        try:
            context.submit(ours.PollBlock(reader, select.POLLIN))
            signal.setitimer(signal.ITIMER_REAL, 0.02)
            (event,) = context.get_events(1, 1)
        finally:
            signal.signal(signal.SIGALRM, before)
        assert event.response & select.POLLIN

    def test_change_cmd_is_complete(self, context: ours.AIOContext, fd: int) -> None:
        read = ours.ReadBlock(fd, bytearray(5), 6)
        run(context, read)
        write = read.change_cmd(ours.IOCBCMD.PWRITE)
        write.offset = 0  # type: ignore[attr-defined]
        run(context, write)
        assert os.pread(fd, 20, 0) == b"world world"
        assert read.cmd == ours.IOCBCMD.PREAD
