"""`proactor.compat.linux_aio`, its contexts: parity with the original where it is followed."""

from __future__ import annotations

import errno
import os
import select
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from linux_aio_suite import SHORT_NS, Parity, run
from rivals import CONTENT

LIMIT = int(Path("/proc/sys/fs/aio-max-nr").read_text())
MAX_JOBS = [
    (0, errno.EINVAL),
    (1, None),
    (LIMIT + 1, errno.EAGAIN if LIMIT < 1 << 22 else errno.EINVAL),
    # Twice of it is what the kernel's ring may have at most.
    ((1 << 22) + 1, errno.EINVAL),
    ((1 << 31) - 1, errno.EINVAL),
    # Twice of it is 0, or next to nothing.
    (1 << 31, errno.EAGAIN),
    ((1 << 31) + 1, errno.EAGAIN),
    ((1 << 31) + (1 << 22) + 1, errno.EINVAL),
    ((1 << 32) - 1, errno.EINVAL),
    (1 << 32, errno.EINVAL),
    ((1 << 32) + 5, None),
    ((1 << 63) - 1, errno.EINVAL),
    (1 << 63, errno.EINVAL),
    ((1 << 64) + 1, None),
    (-1, errno.EINVAL),
    (-(1 << 31), errno.EAGAIN),
    (-(1 << 32) + 1, None),
]


class TestContextParity(Parity):
    def test_read(self, package: Any, context: Any, fd: int) -> None:
        buffer = bytearray(20)
        block = package.ReadBlock(fd, buffer)
        (event,) = run(context, block)
        assert isinstance(event, package.AIOEvent)
        assert (event.response, event.response2) == (len(CONTENT), 0)
        assert event.aio_block is block
        assert event.buffer is buffer
        assert buffer == CONTENT + bytes(9)
        assert event.stripped_buffer() == CONTENT
        assert isinstance(event.stripped_buffer(), bytearray)

    def test_events_are_a_tuple(self, package: Any, context: Any, fd: int) -> None:
        assert context.submit(package.ReadBlock(fd, bytearray(1))) == 1
        assert isinstance(context.get_events(1, 1), tuple)
        assert context.get_events(0, 1) == ()

    def test_offset_and_length(self, package: Any, context: Any, fd: int) -> None:
        buffer = bytearray(5)
        (event,) = run(context, package.ReadBlock(fd, buffer, 6, 3))
        assert event.response == 3
        assert buffer == b"wor\0\0"

    def test_end_of_file(self, package: Any, context: Any, fd: int) -> None:
        (event,) = run(context, package.ReadBlock(fd, bytearray(4), offset=100))
        assert event.response == 0
        assert event.stripped_buffer() == b""

    @pytest.mark.parametrize("content", [b"HELLO", bytearray(b"HELLO"), "HELLO"])
    def test_write(self, package: Any, context: Any, fd: int, content: Any) -> None:
        block = package.WriteBlock(fd, content, 6)
        assert block.buffer == b"HELLO"
        (event,) = run(context, block)
        assert event.response == 5
        assert event.stripped_buffer() == b"HELLO"
        assert os.pread(fd, 20, 0) == b"hello HELLO"

    def test_write_length(self, package: Any, context: Any, fd: int) -> None:
        (event,) = run(context, package.WriteBlock(fd, b"HELLO", length=2))
        assert event.response == 2
        assert os.pread(fd, 20, 0) == b"HEllo world"

    def test_vectors(self, package: Any, context: Any, fd: int) -> None:
        first, second = bytearray(2), bytearray(4)
        (event,) = run(context, package.ReadVBlock(fd, [first, second], 6))
        assert event.response == 5
        assert event.buffer == (b"wo", b"rld\0")
        assert event.buffer[0] is first
        (event,) = run(context, package.WriteVBlock(fd, (part for part in (b"AB", bytearray(b"CD")))))
        assert event.response == 4
        assert os.pread(fd, 20, 0) == b"ABCDo world"

    @pytest.mark.parametrize("kind", ["FsyncBlock", "FDsyncBlock"])
    def test_sync(self, package: Any, context: Any, fd: int, kind: str) -> None:
        (event,) = run(context, getattr(package, kind)(fd))
        assert (event.response, event.buffer) == (0, None)

    def test_poll(self, package: Any, context: Any, pipe: tuple[int, int]) -> None:
        reader, writer = pipe
        block = package.PollBlock(reader, select.POLLIN)
        assert context.submit(block) == 1
        assert context.get_events(0, 1, SHORT_NS) == ()
        os.write(writer, b"x")
        (event,) = context.get_events(1, 1)
        assert event.response & select.POLLIN
        assert event.aio_block is block

    def test_a_pipe_ignores_the_offset(self, package: Any, context: Any, pipe: tuple[int, int]) -> None:
        reader, writer = pipe
        (event,) = run(context, package.WriteBlock(writer, b"abc", 9))
        assert event.response == 3
        (event,) = run(context, package.ReadBlock(reader, bytearray(3), 5))
        assert event.buffer == b"abc"

    def test_counts(self, package: Any, context: Any, fd: int) -> None:
        assert context.submit() == 0
        blocks = [package.ReadBlock(fd, bytearray(1)) for _ in range(6)]
        assert context.submit(*blocks) == 6
        assert len(context.get_events(2, 2)) == 2
        assert context.get_events(0, 0) == ()
        rest: list[Any] = []
        while len(rest) < 4:
            rest += context.get_events(1, 100)
        assert {id(event.aio_block) for event in rest} <= {id(block) for block in blocks}

    def test_a_prefix_is_accepted(self, package: Any, context: Any, fd: int) -> None:
        good, bad = package.ReadBlock(fd, bytearray(5)), package.ReadBlock(9999, bytearray(5))
        assert context.submit(good, bad, good) == 1
        assert len(context.get_events(1, 8)) == 1

    @pytest.mark.parametrize(
        ("break_it", "code"),
        [
            (lambda block: setattr(block, "file", 9999), errno.EBADF),
            (lambda block: setattr(block, "file", -1), errno.EBADF),
            (lambda block: setattr(block, "offset", -1), errno.EINVAL),
            (lambda block: setattr(block, "res_fd", block.fileno), errno.EINVAL),
            (lambda block: setattr(block, "priority_value", 3), errno.EINVAL),
            (lambda block: block.set_priority(5, 1), errno.EINVAL),
        ],
        ids=["closed", "negative", "offset", "resfd", "value without class", "class"],
    )
    def test_refused_at_once(self, package: Any, context: Any, fd: int, break_it: Any, code: int) -> None:
        block = package.ReadBlock(fd, bytearray(5))
        break_it(block)
        with pytest.raises(OSError) as caught:  # noqa: PT011
            context.submit(block)
        assert caught.value.errno == code
        assert context.get_events(0, 1, SHORT_NS) == ()

    def test_wrong_mode(self, package: Any, context: Any, tmp_path: Path, fd: int) -> None:
        with (tmp_path / "file").open("wb") as file, pytest.raises(OSError, match="Bad file") as caught:
            context.submit(package.ReadBlock(file, bytearray(5)))
        assert caught.value.errno == errno.EBADF

    def test_a_closed_file_object(self, package: Any, context: Any, tmp_path: Path, fd: int) -> None:
        file = (tmp_path / "file").open("rb")
        block = package.ReadBlock(file, bytearray(5))
        file.close()
        with pytest.raises(OSError, match="Bad file") as caught:
            context.submit(block)
        assert caught.value.errno == errno.EBADF

    @pytest.mark.parametrize("bounds", [(3, 2), (-1, 2)])
    def test_bad_bounds(self, context: Any, bounds: tuple[int, int]) -> None:
        with pytest.raises(OSError) as caught:  # noqa: PT011
            context.get_events(*bounds, 1000)
        assert caught.value.errno == errno.EINVAL

    def test_a_timeout(self, package: Any, context: Any, pipe: tuple[int, int]) -> None:
        context.submit(package.PollBlock(pipe[0], select.POLLIN))
        assert context.get_events(1, 1, SHORT_NS) == ()

    def test_fewer_than_wanted_at_the_timeout(
        self, package: Any, context: Any, fd: int, pipe: tuple[int, int]
    ) -> None:
        read = package.ReadBlock(fd, bytearray(4))
        assert context.submit(package.PollBlock(pipe[0], select.POLLIN), read) == 2
        assert [event.aio_block for event in context.get_events(2, 2, 20 * SHORT_NS)] == [read]

    def test_full(self, package: Any, pipe: tuple[int, int]) -> None:
        with package.AIOContext(1) as context:
            accepted = 0
            with pytest.raises(BlockingIOError) as caught:  # noqa: PT012 - one of many
                while accepted < 5000:
                    accepted += context.submit(package.PollBlock(pipe[0], select.POLLIN))
            assert caught.value.errno == errno.EAGAIN
            assert accepted >= 1

    def test_resfd(self, package: Any, context: Any, fd: int) -> None:
        signalled = os.eventfd(0, os.EFD_CLOEXEC)
        try:
            block = package.ReadBlock(fd, bytearray(4), res_fd=signalled)
            assert block.res_fd == signalled
            assert block.flag == package.IOCBFlag.RESFD
            assert context.submit(block, block) == 2
            count = 0
            while count < 2:
                count += os.eventfd_read(signalled)
            assert len(context.get_events(2, 2)) == 2
        finally:
            os.close(signalled)

    def test_append(self, package: Any, context: Any, fd: int) -> None:
        (event,) = run(context, package.WriteBlock(fd, b"!", rw_flags=package.IOCBRWFlag.APPEND))
        assert event.response == 1
        assert os.pread(fd, 20, 0) == CONTENT + b"!"

    def test_cancel_of_what_is_not_in_flight(self, package: Any, context: Any, fd: int) -> None:
        block = package.ReadBlock(fd, bytearray(5))
        with pytest.raises(OSError) as caught:  # noqa: PT011
            context.cancel(block)
        assert caught.value.errno == errno.EINVAL
        run(context, block)
        with pytest.raises(OSError) as caught:  # noqa: PT011
            context.cancel(block)
        assert caught.value.errno == errno.EINVAL

    def test_close(self, package: Any, fd: int, pipe: tuple[int, int]) -> None:
        context = package.AIOContext(2)
        assert not context.closed
        context.submit(package.PollBlock(pipe[0], select.POLLIN))
        context.close()
        assert context.closed
        context.close()
        with pytest.raises(OSError) as caught:  # noqa: PT011
            context.submit(package.FsyncBlock(fd))
        assert caught.value.errno == errno.EINVAL
        with pytest.raises(OSError) as caught:  # noqa: PT011
            context.get_events(0, 1)
        assert caught.value.errno == errno.EINVAL

    def test_cancel_of_a_poll(self, package: Any, context: Any, pipe: tuple[int, int]) -> None:
        block = package.PollBlock(pipe[0], select.POLLIN)
        assert context.submit(block) == 1
        with pytest.raises(OSError, match=r"in progress|INPROGRESS") as told:
            context.cancel(block)
        assert told.value.errno == errno.EINPROGRESS
        (event,) = context.get_events(1, 1)
        assert (event.aio_block, event.response) == (block, 0)

    def test_the_kernel_rounds_max_jobs_up(self, package: Any, pipe: tuple[int, int]) -> None:
        with package.AIOContext(1) as context:
            blocks = [package.PollBlock(pipe[0], select.POLLIN) for _ in range(16)]
            assert context.submit(*blocks) == 16

    def test_more_than_the_system_allows(self, package: Any) -> None:
        limit = int(Path("/proc/sys/fs/aio-max-nr").read_text())
        with pytest.raises(OSError, match=r".") as refused:
            package.AIOContext(limit + 1)
        assert refused.value.errno == errno.EAGAIN

    @pytest.mark.parametrize(("max_jobs", "code"), MAX_JOBS)
    def test_what_io_setup_says_of_max_jobs(self, package: Any, max_jobs: int, code: int | None) -> None:
        """Its unsigned int loses the upper bits, and the kernel doubles it."""
        try:
            with package.AIOContext(max_jobs):
                found = None
        except OSError as error:
            found = error.errno
        assert found == code

    def test_stripped_is_without_nuls_at_the_end(self, package: Any, context: Any, fd: int) -> None:
        os.pwrite(fd, b"a\0\0", 8)
        (event,) = run(context, package.ReadBlock(fd, bytearray(b"x" * 8), 6))
        assert event.stripped_buffer() == b"woa\0\0xxx"
        (event,) = run(context, package.ReadBlock(fd, bytearray(5), 6))
        assert event.stripped_buffer() == b"woa"

    def test_a_block_that_was_changed_is_dead(self, package: Any, context: Any, fd: int) -> None:
        read = package.ReadBlock(fd, bytearray(5))
        read.change_cmd(package.IOCBCMD.PWRITE)
        for use in (context.submit, context.cancel):
            with pytest.raises(ValueError, match=r"another|transformed"):
                use(read)
        good = package.ReadBlock(fd, bytearray(5))
        with pytest.raises(ValueError, match=r"another|transformed"):
            context.submit(good, read)
        assert context.get_events(0, 1) == ()

    def test_a_changed_block_begins_anew(self, package: Any, context: Any, fd: int) -> None:
        block = package.ReadBlock(fd, bytearray(5), 6).change_cmd(package.IOCBCMD.PREADV)
        assert block.offset == 0
        block.buffer = (bytearray(2), bytearray(3))
        (event,) = run(context, block)
        assert event.buffer == (b"he", b"llo")

    def test_the_length_may_be_set_before_the_buffer(self, package: Any, context: Any, fd: int) -> None:
        block = package.ReadBlock(fd, bytearray(2))
        block.length = 5
        block.buffer = bytearray(5)
        (event,) = run(context, block)
        assert event.buffer == b"hello"

    def test_no_timeout_waits(self, package: Any, context: Any, pipe: tuple[int, int]) -> None:
        assert context.submit(package.PollBlock(pipe[0], select.POLLIN)) == 1
        writer = threading.Timer(0.05, os.write, (pipe[1], b"x"))
        writer.start()
        (event,) = context.get_events(1, 1, 0)
        writer.join()
        assert event.response & select.POLLIN

    def test_a_timeout_is_waited_for_with_nothing_in_flight(self, package: Any, context: Any) -> None:
        started = time.monotonic()
        assert context.get_events(1, 1, SHORT_NS) == ()
        assert time.monotonic() - started >= SHORT_NS / 1e9

    def test_with(self, package: Any) -> None:
        with package.AIOContext(2) as context:
            assert not context.closed
        assert context.closed

    def test_max_jobs_is_an_integer(self, package: Any) -> None:
        with pytest.raises(TypeError):
            package.AIOContext(1.5)
