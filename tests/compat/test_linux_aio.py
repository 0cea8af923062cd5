"""`proactor.compat.linux_aio`: parity with the original where it is followed; its defects that are not."""

from __future__ import annotations

import array
import errno
import inspect
import mmap
import os
import select
import signal
import socket
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from proactor.compat import linux_aio as ours
from rivals import THEIRS, rival

CONTENT = b"hello world"
SHORT_NS = 10_000_000


def _patient(context: Any) -> Any:
    """The original's context, waiting again where anything interrupts it: the kernel's work on a ring that an
    earlier test has closed does."""

    class Patient(context):  # type: ignore[misc]
        def get_events(self, *args: Any, **kwargs: Any) -> Any:
            while True:
                try:
                    return super().get_events(*args, **kwargs)
                except InterruptedError:
                    continue

    return Patient


@pytest.fixture(params=["ours", THEIRS])
def names(request: pytest.FixtureRequest) -> Any:
    """The package's public names, with the constants that the original keeps in its binding."""
    if request.param == "ours":
        return ours
    package = rival("linux_aio", "linux_aio package")
    binding = rival("linux_aio_bind", "linux_aio package")
    constants = (
        "IOCBFlag",
        "IOCBRWFlag",
        "IOCBPriorityClass",
        "IOCBCMD",
        "IOPRIO_CLASS_SHIFT",
        "gen_io_priority",
    )
    found = {name: getattr(package, name) for name in dir(package) if not name.startswith("_")}
    found |= {name: getattr(binding, name) for name in constants}
    found |= {"AIOEvent": package.aio_event.AIOEvent, "AIOBlock": package.block.AIOBlock}
    found["AIOContext"] = _patient(package.AIOContext)
    return SimpleNamespace(**found)


@pytest.fixture
def fd(tmp_path: Path) -> Iterator[int]:
    path = tmp_path / "file"
    path.write_bytes(CONTENT)
    fd = os.open(path, os.O_RDWR)
    yield fd
    os.close(fd)


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    ends = os.pipe()
    yield ends
    for end in ends:
        os.close(end)


def run(context: Any, *blocks: Any) -> list[Any]:
    """Submit and wait for all."""
    assert context.submit(*blocks) == len(blocks)
    events: list[Any] = []
    while len(events) < len(blocks):
        events += context.get_events(1, len(blocks))
    return events


class TestParity:
    """True of both packages."""

    @pytest.fixture
    def context(self, names: Any) -> Iterator[Any]:
        with names.AIOContext(8) as context:
            yield context

    def test_read(self, names: Any, context: Any, fd: int) -> None:
        buffer = bytearray(20)
        block = names.ReadBlock(fd, buffer)
        (event,) = run(context, block)
        assert isinstance(event, names.AIOEvent)
        assert (event.response, event.response2) == (len(CONTENT), 0)
        assert event.aio_block is block
        assert event.buffer is buffer
        assert buffer == CONTENT + bytes(9)
        assert event.stripped_buffer() == CONTENT
        assert isinstance(event.stripped_buffer(), bytearray)

    def test_events_are_a_tuple(self, names: Any, context: Any, fd: int) -> None:
        assert context.submit(names.ReadBlock(fd, bytearray(1))) == 1
        assert isinstance(context.get_events(1, 1), tuple)
        assert context.get_events(0, 1) == ()

    def test_offset_and_length(self, names: Any, context: Any, fd: int) -> None:
        buffer = bytearray(5)
        (event,) = run(context, names.ReadBlock(fd, buffer, 6, 3))
        assert event.response == 3
        assert buffer == b"wor\0\0"

    def test_end_of_file(self, names: Any, context: Any, fd: int) -> None:
        (event,) = run(context, names.ReadBlock(fd, bytearray(4), offset=100))
        assert event.response == 0
        assert event.stripped_buffer() == b""

    def test_a_block_is_reusable(self, names: Any, context: Any, fd: int) -> None:
        block = names.ReadBlock(fd, bytearray(5))
        run(context, block)
        block.offset = 6
        (event,) = run(context, block)
        assert event.buffer == b"world"

    def test_a_block_twice_at_once(self, names: Any, context: Any, fd: int) -> None:
        block = names.ReadBlock(fd, bytearray(5))
        assert [event.response for event in run(context, block, block)] == [5, 5]

    def test_bytes_as_a_read_buffer(self, names: Any, context: Any, fd: int) -> None:
        # Made at run time: the original writes into the object itself.
        given = bytes(bytearray(20))
        (event,) = run(context, names.ReadBlock(fd, given))
        assert event.buffer == CONTENT + bytes(9)
        assert event.stripped_buffer() == CONTENT

    @pytest.mark.parametrize("content", [b"HELLO", bytearray(b"HELLO"), "HELLO"])
    def test_write(self, names: Any, context: Any, fd: int, content: Any) -> None:
        block = names.WriteBlock(fd, content, 6)
        assert block.buffer == b"HELLO"
        (event,) = run(context, block)
        assert event.response == 5
        assert event.stripped_buffer() == b"HELLO"
        assert os.pread(fd, 20, 0) == b"hello HELLO"

    def test_text_is_utf8(self, names: Any, fd: int) -> None:
        assert names.WriteBlock(fd, "hé").buffer == "hé".encode()

    def test_write_length(self, names: Any, context: Any, fd: int) -> None:
        (event,) = run(context, names.WriteBlock(fd, b"HELLO", length=2))
        assert event.response == 2
        assert os.pread(fd, 20, 0) == b"HEllo world"

    def test_vectors(self, names: Any, context: Any, fd: int) -> None:
        first, second = bytearray(2), bytearray(4)
        (event,) = run(context, names.ReadVBlock(fd, [first, second], 6))
        assert event.response == 5
        assert event.buffer == (b"wo", b"rld\0")
        assert event.buffer[0] is first
        (event,) = run(context, names.WriteVBlock(fd, (part for part in (b"AB", bytearray(b"CD")))))
        assert event.response == 4
        assert os.pread(fd, 20, 0) == b"ABCDo world"

    @pytest.mark.parametrize("kind", ["FsyncBlock", "FDsyncBlock"])
    def test_sync(self, names: Any, context: Any, fd: int, kind: str) -> None:
        (event,) = run(context, getattr(names, kind)(fd))
        assert (event.response, event.buffer) == (0, None)

    def test_poll(self, names: Any, context: Any, pipe: tuple[int, int]) -> None:
        reader, writer = pipe
        block = names.PollBlock(reader, select.POLLIN)
        assert context.submit(block) == 1
        assert context.get_events(0, 1, SHORT_NS) == ()
        os.write(writer, b"x")
        (event,) = context.get_events(1, 1)
        assert event.response & select.POLLIN
        assert event.aio_block is block

    def test_a_pipe_ignores_the_offset(self, names: Any, context: Any, pipe: tuple[int, int]) -> None:
        reader, writer = pipe
        (event,) = run(context, names.WriteBlock(writer, b"abc", 9))
        assert event.response == 3
        (event,) = run(context, names.ReadBlock(reader, bytearray(3), 5))
        assert event.buffer == b"abc"

    def test_counts(self, names: Any, context: Any, fd: int) -> None:
        assert context.submit() == 0
        blocks = [names.ReadBlock(fd, bytearray(1)) for _ in range(6)]
        assert context.submit(*blocks) == 6
        assert len(context.get_events(2, 2)) == 2
        assert context.get_events(0, 0) == ()
        rest: list[Any] = []
        while len(rest) < 4:
            rest += context.get_events(1, 100)
        assert {id(event.aio_block) for event in rest} <= {id(block) for block in blocks}

    def test_a_prefix_is_accepted(self, names: Any, context: Any, fd: int) -> None:
        good, bad = names.ReadBlock(fd, bytearray(5)), names.ReadBlock(9999, bytearray(5))
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
    def test_refused_at_once(self, names: Any, context: Any, fd: int, break_it: Any, code: int) -> None:
        block = names.ReadBlock(fd, bytearray(5))
        break_it(block)
        with pytest.raises(OSError) as caught:  # noqa: PT011
            context.submit(block)
        assert caught.value.errno == code
        assert context.get_events(0, 1, 0 if names is ours else SHORT_NS) == ()

    def test_wrong_mode(self, names: Any, context: Any, tmp_path: Path, fd: int) -> None:
        with (tmp_path / "file").open("wb") as file, pytest.raises(OSError, match="Bad file") as caught:
            context.submit(names.ReadBlock(file, bytearray(5)))
        assert caught.value.errno == errno.EBADF

    def test_a_closed_file_object(self, names: Any, context: Any, tmp_path: Path, fd: int) -> None:
        file = (tmp_path / "file").open("rb")
        block = names.ReadBlock(file, bytearray(5))
        file.close()
        with pytest.raises(OSError, match="Bad file") as caught:
            context.submit(block)
        assert caught.value.errno == errno.EBADF

    def test_not_a_file(self, names: Any, tmp_path: Path) -> None:
        with pytest.raises(AttributeError):
            names.ReadBlock(str(tmp_path), bytearray(5))

    @pytest.mark.parametrize("bounds", [(3, 2), (-1, 2)])
    def test_bad_bounds(self, context: Any, bounds: tuple[int, int]) -> None:
        with pytest.raises(OSError) as caught:  # noqa: PT011
            context.get_events(*bounds, 1000)
        assert caught.value.errno == errno.EINVAL

    def test_a_timeout(self, names: Any, context: Any, pipe: tuple[int, int]) -> None:
        context.submit(names.PollBlock(pipe[0], select.POLLIN))
        assert context.get_events(1, 1, SHORT_NS) == ()

    def test_fewer_than_wanted_at_the_timeout(
        self, names: Any, context: Any, fd: int, pipe: tuple[int, int]
    ) -> None:
        read = names.ReadBlock(fd, bytearray(4))
        assert context.submit(names.PollBlock(pipe[0], select.POLLIN), read) == 2
        assert [event.aio_block for event in context.get_events(2, 2, 20 * SHORT_NS)] == [read]

    def test_full(self, names: Any, pipe: tuple[int, int]) -> None:
        with names.AIOContext(1) as context:
            accepted = 0
            with pytest.raises(BlockingIOError) as caught:  # noqa: PT012 - one of many
                while accepted < 5000:
                    accepted += context.submit(names.PollBlock(pipe[0], select.POLLIN))
            assert caught.value.errno == errno.EAGAIN
            assert accepted >= 1

    def test_resfd(self, names: Any, context: Any, fd: int) -> None:
        signalled = os.eventfd(0, os.EFD_CLOEXEC)
        try:
            block = names.ReadBlock(fd, bytearray(4), res_fd=signalled)
            assert block.res_fd == signalled
            assert block.flag == names.IOCBFlag.RESFD
            assert context.submit(block, block) == 2
            count = 0
            while count < 2:
                count += os.eventfd_read(signalled)
            assert len(context.get_events(2, 2)) == 2
        finally:
            os.close(signalled)

    def test_append(self, names: Any, context: Any, fd: int) -> None:
        (event,) = run(context, names.WriteBlock(fd, b"!", rw_flags=names.IOCBRWFlag.APPEND))
        assert event.response == 1
        assert os.pread(fd, 20, 0) == CONTENT + b"!"

    @pytest.mark.parametrize(("cls", "value"), [("BE", 3), ("BE", 0), ("IDLE", 3), ("IDLE", 0)])
    def test_priority(self, names: Any, context: Any, fd: int, cls: str, value: int) -> None:
        block = names.ReadBlock(fd, bytearray(5))
        block.set_priority(getattr(names.IOCBPriorityClass, cls), value)
        (event,) = run(context, block)
        assert event.response == 5

    def test_a_sync_takes_a_priority(self, names: Any, context: Any, fd: int) -> None:
        (event,) = run(context, names.FsyncBlock(fd, names.IOCBPriorityClass.BE, 3))
        assert event.response == 0

    def test_cancel_of_what_is_not_in_flight(self, names: Any, context: Any, fd: int) -> None:
        block = names.ReadBlock(fd, bytearray(5))
        with pytest.raises(OSError) as caught:  # noqa: PT011
            context.cancel(block)
        assert caught.value.errno == errno.EINVAL
        run(context, block)
        with pytest.raises(OSError) as caught:  # noqa: PT011
            context.cancel(block)
        assert caught.value.errno == errno.EINVAL

    def test_close(self, names: Any, fd: int, pipe: tuple[int, int]) -> None:
        context = names.AIOContext(2)
        assert not context.closed
        context.submit(names.PollBlock(pipe[0], select.POLLIN))
        context.close()
        assert context.closed
        context.close()
        with pytest.raises(OSError) as caught:  # noqa: PT011
            context.submit(names.FsyncBlock(fd))
        assert caught.value.errno == errno.EINVAL
        with pytest.raises(OSError) as caught:  # noqa: PT011
            context.get_events(0, 1)
        assert caught.value.errno == errno.EINVAL

    def test_with(self, names: Any) -> None:
        with names.AIOContext(2) as context:
            assert not context.closed
        assert context.closed

    @pytest.mark.parametrize("max_jobs", [0, -1])
    def test_max_jobs(self, names: Any, max_jobs: int) -> None:
        with pytest.raises(OSError) as caught:  # noqa: PT011
            names.AIOContext(max_jobs)
        assert caught.value.errno == errno.EINVAL

    def test_max_jobs_is_an_integer(self, names: Any) -> None:
        with pytest.raises(TypeError):
            names.AIOContext(1.5)

    def test_block_properties(self, names: Any, fd: int) -> None:
        block = names.ReadBlock(fd, bytearray(20))
        assert (block.file, block.fileno, block.offset, block.length) == (fd, fd, 0, 20)
        assert (block.flag, block.rw_flag, block.res_fd) == (0, 0, None)
        assert (block.priority_class, block.priority_value) == (0, 0)
        assert block.cmd == names.IOCBCMD.PREAD
        block.buffer = bytearray(9)
        assert block.length == 9
        block.length = 3
        assert (block.length, len(block.buffer)) == (3, 9)
        block.rw_flag = names.IOCBRWFlag.NOWAIT
        assert block.rw_flag == 8

    def test_priority_properties(self, names: Any, fd: int) -> None:
        block = names.ReadBlock(fd, bytearray(4), 0, None, 0, names.IOCBPriorityClass.BE, 3)
        assert (block.flag, block.priority_class, block.priority_value) == (2, 2, 3)
        block.set_priority(names.IOCBPriorityClass.RT, 2)
        assert (block.priority_class, block.priority_value) == (1, 2)
        block.priority_value = 5
        block.priority_class = names.IOCBPriorityClass.NONE
        assert (block.flag, block.priority_class, block.priority_value) == (2, 0, 5)

    def test_poll_properties(self, names: Any) -> None:
        block = names.PollBlock(0)
        assert block.event_masks == select.POLLIN | select.POLLPRI | select.POLLOUT
        block.event_masks = select.POLLIN
        assert block.event_masks == select.POLLIN
        assert not hasattr(block, "buffer")

    def test_file_objects(self, names: Any, context: Any, tmp_path: Path, fd: int) -> None:
        with (tmp_path / "file").open("rb") as file:
            block = names.ReadBlock(file, bytearray(5))
            assert block.file is file
            assert block.fileno == file.fileno()
            (event,) = run(context, block)
        assert event.buffer == b"hello"

    def test_a_buffer_is_held(self, names: Any, fd: int) -> None:
        buffer = bytearray(4)
        block = names.ReadBlock(fd, buffer)
        with pytest.raises(BufferError):
            buffer.extend(b"more")
        assert block.length == 4

    @pytest.mark.parametrize(
        ("cmd", "kind"),
        [
            ("PWRITE", "WriteBlock"),
            ("FSYNC", "FsyncBlock"),
            ("FDSYNC", "FDsyncBlock"),
            ("POLL", "PollBlock"),
            ("PREADV", "ReadVBlock"),
            ("PWRITEV", "WriteVBlock"),
        ],
    )
    def test_change_cmd(self, names: Any, fd: int, cmd: str, kind: str) -> None:
        block = names.ReadBlock(fd, bytearray(4), 5)
        assert block.change_cmd(names.IOCBCMD.PREAD) is block
        changed = block.change_cmd(getattr(names.IOCBCMD, cmd))
        assert type(changed) is getattr(names, kind)
        assert (changed.cmd, changed.file) == (getattr(names.IOCBCMD, cmd), fd)

    def test_constants(self, names: Any) -> None:
        assert {flag.name: flag.value for flag in names.IOCBFlag} == {"RESFD": 1, "IOPRIO": 2}
        assert [flag.value for flag in names.IOCBRWFlag] == [1, 2, 4, 8, 16]
        assert [cls.name for cls in names.IOCBPriorityClass] == ["NONE", "RT", "BE", "IDLE"]
        assert names.gen_io_priority(names.IOCBPriorityClass.BE, 4) == (2 << names.IOPRIO_CLASS_SHIFT) | 4

    @pytest.mark.parametrize(
        ("kind", "parameters"),
        [
            (
                "ReadBlock",
                "file buffer offset length rw_flags priority_class priority_value res_fd",
            ),
            (
                "WriteBlock",
                "file content offset length rw_flags priority_class priority_value res_fd",
            ),
            ("ReadVBlock", "file buffer_list offset rw_flags priority_class priority_value res_fd"),
            ("WriteVBlock", "file content_list offset rw_flags priority_class priority_value res_fd"),
            ("FsyncBlock", "file priority_class priority_value res_fd"),
            ("FDsyncBlock", "file priority_class priority_value res_fd"),
            ("PollBlock", "file event_masks priority_class priority_value res_fd"),
        ],
    )
    def test_signatures(self, names: Any, kind: str, parameters: str) -> None:
        signature = inspect.signature(getattr(names, kind))
        assert list(signature.parameters) == parameters.split()
        assert issubclass(getattr(names, kind), names.AIOBlock)


class TestDefectsNotCopied:
    """What the original gets wrong."""

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

    def test_a_read_only_buffer_is_refused(self, fd: int) -> None:
        with pytest.raises(TypeError, match="read-only"):
            ours.ReadBlock(fd, memoryview(b"abc"))

    def test_bytes_are_not_changed(self, context: ours.AIOContext, fd: int) -> None:
        given = bytes(20)
        (event,) = run(context, ours.ReadBlock(fd, given))
        assert given == bytes(20)
        assert event.buffer == CONTENT + bytes(9)

    def test_direct(self, context: ours.AIOContext, tmp_path: Path) -> None:
        path, content = tmp_path / "direct", os.urandom(8192)
        path.write_bytes(content)
        try:
            fd = os.open(path, os.O_RDWR | os.O_DIRECT)
        except OSError as error:
            pytest.skip(f"needs O_DIRECT: {error}")
        try:
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
        finally:
            os.close(fd)

    def test_stripped_is_what_was_read(self, context: ours.AIOContext, fd: int) -> None:
        os.pwrite(fd, b"a\0\0", 8)
        (event,) = run(context, ours.ReadBlock(fd, bytearray(b"x" * 8), 6))
        assert event.stripped_buffer() == b"woa\0\0"
        (event,) = run(context, ours.ReadVBlock(fd, [bytearray(3), bytearray(8)], 6))
        assert event.stripped_buffer() == b"woa\0\0"

    def test_length_beyond_the_buffer(self, fd: int) -> None:
        with pytest.raises(ValueError, match="outside the buffer"):
            ours.ReadBlock(fd, bytearray(5), length=6)

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


def open_fd(fd: int, mode: str) -> Any:
    return os.fdopen(fd, mode, buffering=0)


def run_rest(context: ours.AIOContext, count: int) -> list[ours.AIOEvent]:
    events: list[ours.AIOEvent] = []
    while len(events) < count:
        got = context.get_events(1, count)
        assert got
        events += got
    return events
