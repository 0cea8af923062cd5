"""Each op of `proactor.aio`: what it does, what it refuses, and what its event says."""

from __future__ import annotations

import errno
import importlib
import os
import select
from pathlib import Path
from typing import Any

import pytest
from aio_helpers import CONTENT, run, run_one
from capabilities import require
from proactor import aio

pytest_plugins = ["aio_fixtures"]

IOV_MAX = os.sysconf("SC_IOV_MAX")

TRANSFERS = [
    lambda file, **options: aio.Read(file, 4, **options),
    lambda file, **options: aio.Write(file, b"abcd", **options),
    lambda file, **options: aio.ReadV(file, [bytearray(4)], **options),
    lambda file, **options: aio.WriteV(file, [b"abcd"], **options),
]
SYNCS = [aio.Fsync, aio.Fdatasync]
ALL = [*TRANSFERS, *SYNCS, lambda file, **options: aio.Poll(file, select.POLLIN, **options)]
IDS = ["Read", "Write", "ReadV", "WriteV", "Fsync", "Fdatasync", "Poll"]


class TestData:
    def test_read(self, context: aio.Context, fd: int) -> None:
        buffer = bytearray(20)
        op = aio.Read(fd, buffer, 6)
        event = run_one(context, op)
        assert event.op is op
        assert event.result == event.check() == 5
        assert event.buffer is buffer
        assert event.data == b"world"
        assert event.error is None

    def test_read_at_the_position(self, context: aio.Context, fd: int) -> None:
        assert run_one(context, aio.Read(fd, 6)).data == b"hello "
        assert run_one(context, aio.Read(fd, 6)).data == b"world"
        assert os.lseek(fd, 0, os.SEEK_CUR) == 11

    def test_an_offset_leaves_the_position(self, context: aio.Context, fd: int) -> None:
        run(context, aio.Read(fd, 4, 2), aio.Write(fd, b"x", 3))
        assert os.lseek(fd, 0, os.SEEK_CUR) == 0

    def test_write(self, context: aio.Context, fd: int) -> None:
        event = run_one(context, aio.Write(fd, b"HELLO", 6))
        assert event.result == 5
        assert event.data is None
        assert os.pread(fd, 20, 0) == b"hello HELLO"

    def test_write_at_the_position(self, context: aio.Context, fd: int) -> None:
        run_one(context, aio.Write(fd, b"abc"))
        run_one(context, aio.Write(fd, b"def"))
        assert os.pread(fd, 20, 0) == b"abcdefworld"

    def test_readv(self, context: aio.Context, fd: int) -> None:
        buffers = [bytearray(4), bytearray(4), bytearray(8)]
        event = run_one(context, aio.ReadV(fd, buffers, 1))
        assert event.result == 10
        assert all(seen is given for seen, given in zip(event.buffer, buffers, strict=True))
        assert [bytes(part) for part in event.data] == [b"ello", b" wor", b"ld"]

    def test_writev(self, context: aio.Context, fd: int) -> None:
        event = run_one(context, aio.WriteV(fd, (part for part in (b"ab", b"cd", b"ef")), 0))
        assert event.result == 6
        assert os.pread(fd, 20, 0) == b"abcdefworld"

    def test_sizes_for_buffers(self, context: aio.Context, fd: int) -> None:
        event = run_one(context, aio.Read(fd, 5))
        assert (event.data, event.buffer.nbytes, event.buffer.readonly) == (b"hello", 5, False)
        event = run_one(context, aio.ReadV(fd, [2, 3], 0))
        assert [bytes(part) for part in event.data] == [b"he", b"llo"]

    def test_end_of_file(self, context: aio.Context, fd: int) -> None:
        event = run_one(context, aio.Read(fd, 5, 100))
        assert (event.check(), event.data) == (0, b"")

    def test_zero_length(self, context: aio.Context, fd: int) -> None:
        ops = [aio.Read(fd, 0, 0), aio.Write(fd, b"", 0), aio.ReadV(fd, [], 0), aio.WriteV(fd, [], 0)]
        assert [event.check() for event in run(context, *ops)] == [0] * 4
        assert os.pread(fd, 20, 0) == CONTENT

    @pytest.mark.parametrize("op", SYNCS)
    def test_sync(self, context: aio.Context, fd: int, op: Any) -> None:
        event = run_one(context, op(fd))
        assert (event.check(), event.buffer, event.data) == (0, None, None)

    def test_poll(self, context: aio.Context, pipe: tuple[int, int]) -> None:
        reader, writer = pipe
        op = aio.Poll(reader, select.POLLIN)
        assert op.events == select.POLLIN
        context.submit(op)
        assert context.wait(timeout=0) == []
        os.write(writer, b"x")
        (event,) = context.wait()
        assert event.result & select.POLLIN
        assert event.data is None
        assert run_one(context, aio.Poll(writer, select.POLLOUT)).result & select.POLLOUT

    def test_poll_sees_a_hangup(self, context: aio.Context) -> None:
        reader, writer = os.pipe()
        os.close(writer)
        try:
            assert run_one(context, aio.Poll(reader, select.POLLIN)).result & select.POLLHUP
        finally:
            os.close(reader)

    def test_as_many_buffers_as_can_be(self, context: aio.Context, fd: int) -> None:
        op = aio.WriteV(fd, [b"x"] * IOV_MAX, 0)
        assert run_one(context, op).result == IOV_MAX
        with pytest.raises(ValueError, match="1024"):
            op.buffers = [b"x"] * (IOV_MAX + 1)
        for make in (aio.WriteV, aio.ReadV):
            with pytest.raises(ValueError, match="1024"):
                make(fd, [bytearray(1)] * (IOV_MAX + 1), 0)
            with pytest.raises(ValueError, match="1024"):
                # Not even an endless iterable is a problem.
                make(fd, iter(lambda: bytearray(1), None))

    def test_a_pipe(self, context: aio.Context, pipe: tuple[int, int]) -> None:
        reader, writer = pipe
        read = aio.Read(reader, 10)
        context.submit(read)
        assert context.wait(timeout=0) == []
        assert context.submit(aio.Write(writer, b"abc")) == 1
        results = {type(event.op): event.check() for event in context.wait(2)}
        assert results == {aio.Read: 3, aio.Write: 3}


class TestFlags:
    def test_append(self, context: aio.Context, fd: int) -> None:
        assert run_one(context, aio.Write(fd, b"!", 0, rw_flags=aio.RWF_APPEND)).check() == 1
        assert os.pread(fd, 20, 0) == CONTENT + b"!"

    @pytest.mark.parametrize("flag", [aio.RWF_DSYNC, aio.RWF_SYNC])
    def test_sync(self, context: aio.Context, fd: int, flag: int) -> None:
        assert run_one(context, aio.Write(fd, b"x", 0, rw_flags=flag)).check() == 1

    def test_nowait(self, context: aio.Context, fd: int, pipe: tuple[int, int]) -> None:
        os.pread(fd, 20, 0)  # cached from here on
        event = run_one(context, aio.Read(fd, 5, 0, rw_flags=aio.RWF_NOWAIT))
        assert event.result == 5 or event.result == -errno.EAGAIN
        event = run_one(context, aio.Read(pipe[0], 5, rw_flags=aio.RWF_NOWAIT))
        assert isinstance(event.error, BlockingIOError)

    def test_values(self) -> None:
        flags = (aio.RWF_HIPRI, aio.RWF_DSYNC, aio.RWF_SYNC, aio.RWF_NOWAIT, aio.RWF_APPEND)
        assert flags == (1, 2, 4, 8, 16)

    @pytest.mark.parametrize("make", TRANSFERS, ids=IDS[:4])
    def test_unknown(self, context: aio.Context, fd: int, make: Any) -> None:
        event = run_one(context, make(fd, offset=0, rw_flags=1 << 30))
        assert event.result == -errno.EOPNOTSUPP

    def test_bad(self, fd: int) -> None:
        with pytest.raises((ValueError, OverflowError)):
            aio.Read(fd, 1, rw_flags=-1)


class TestPriority:
    @pytest.mark.parametrize(
        ("cls", "value"),
        [
            (aio.PriorityClass.BEST_EFFORT, 8),
            (aio.PriorityClass.BEST_EFFORT, -1),
            (aio.PriorityClass.REALTIME, 8),
            (aio.PriorityClass.IDLE, 1),
            (aio.PriorityClass.NONE, 1),
            (9, 0),
        ],
    )
    def test_what_ioprio_set_would_refuse(self, cls: Any, value: int) -> None:
        with pytest.raises(ValueError, match="priority"):
            aio.Priority(cls, value)

    def test_fields(self) -> None:
        priority = aio.Priority(aio.PriorityClass.BEST_EFFORT, 3)
        assert (priority.cls, priority.value) == (aio.PriorityClass.BEST_EFFORT, 3)
        assert priority == aio.Priority(aio.PriorityClass.BEST_EFFORT, 3)
        assert [cls.value for cls in aio.PriorityClass] == [0, 1, 2, 3]

    @pytest.mark.parametrize("make", TRANSFERS, ids=IDS[:4])
    def test_it_counts_or_is_refused(self, context: aio.Context, fd: int, make: Any) -> None:
        op = make(fd, offset=0, priority=aio.Priority(aio.PriorityClass.BEST_EFFORT, 7))
        refused = None
        try:
            context.submit(op)
        except (ValueError, OSError) as error:
            refused = str(error)
        if refused is None:
            assert context.wait()[0].check() == 4
        else:
            assert "priority" in refused

    @pytest.mark.parametrize("op", SYNCS)
    def test_what_the_kernel_would_ignore(self, context: aio.Context, fd: int, op: Any) -> None:
        with pytest.raises(ValueError, match="priority"):
            op(fd, priority=aio.Priority(aio.PriorityClass.BEST_EFFORT, 3))
        assert run_one(context, op(fd, priority=aio.Priority(aio.PriorityClass.NONE))).check() == 0

    def test_not_a_priority(self, fd: int) -> None:
        with pytest.raises(TypeError):
            aio.Read(fd, 1, priority=3)  # type: ignore[arg-type]


class TestResfd:
    @pytest.mark.parametrize("make", ALL, ids=IDS)
    def test_signalled_once_per_op(self, context: aio.Context, path: Path, make: Any) -> None:
        fd, signalled = os.open(path, os.O_RDWR), os.eventfd(0, os.EFD_CLOEXEC)
        try:
            options = {"offset": 0} if make in TRANSFERS else {}
            run(context, *(make(fd, resfd=signalled, **options) for _ in range(5)))
            assert os.eventfd_read(signalled) == 5
        finally:
            os.close(fd)
            os.close(signalled)

    def test_signalled_for_a_failure_and_a_cancel(self, context: aio.Context, pipe: tuple[int, int]) -> None:
        signalled = os.eventfd(0, os.EFD_CLOEXEC)
        try:
            waiting = aio.Read(pipe[0], 1, resfd=signalled)
            assert context.submit(waiting, aio.Read(9999, 1, resfd=signalled)) == 2
            # An op that signals may be a worker's.
            assert context.cancel(waiting) in (aio.CancelOutcome.CANCELLED, aio.CancelOutcome.RUNNING)
            results = {event.op: event.result for event in context.wait(2)}
            assert results[waiting] == -errno.ECANCELED
            assert os.eventfd_read(signalled) == 2
        finally:
            os.close(signalled)

    def test_not_before_it_is_done(self, context: aio.Context, pipe: tuple[int, int]) -> None:
        signalled = os.eventfd(0, os.EFD_CLOEXEC)
        try:
            context.submit(aio.Read(pipe[0], 1, resfd=signalled))
            assert not select.select([signalled], [], [], 0.01)[0]
            os.write(pipe[1], b"x")
            assert select.select([signalled], [], [], 10)[0]
            assert len(context.wait()) == 1
        finally:
            os.close(signalled)

    def test_not_an_eventfd(self, context: aio.Context, fd: int) -> None:
        for bad, code in ((fd, errno.EINVAL), (9999, errno.EBADF)):
            with pytest.raises(OSError, match=os.strerror(code)):
                context.submit(aio.Read(fd, 1, resfd=bad))
        assert context.pending == 0


class TestOps:
    @pytest.mark.parametrize("make", ALL, ids=IDS)
    def test_user_data(self, context: aio.Context, fd: int, make: Any) -> None:
        thing = object()
        op = make(fd, user_data=thing)
        assert op.user_data is thing
        assert run_one(context, op).user_data is thing

    @pytest.mark.parametrize("make", ALL, ids=IDS)
    def test_states_and_reuse(self, context: aio.Context, fd: int, make: Any) -> None:
        op = make(fd)
        assert op.state == "new"
        for _ in range(3):
            assert context.submit(op) == 1
            assert op.state == "submitted"
            (event,) = context.wait()
            assert event.op is op
            assert op.state == "done"

    def test_changed_and_reused(self, context: aio.Context, fd: int, pipe: tuple[int, int]) -> None:
        op = aio.Read(fd, 5, 0)
        run_one(context, op)
        op.offset, op.user_data, op.buffer = 6, "again", bytearray(3)
        event = run_one(context, op)
        assert (event.data, event.user_data) == (b"wor", "again")
        op.file, op.offset = pipe[0], None
        os.write(pipe[1], b"xyz")
        assert run_one(context, op).data == b"xyz"

    @pytest.mark.parametrize(
        ("name", "value"),
        [
            ("file", 0),
            ("buffer", bytearray(1)),
            ("offset", 1),
            ("rw_flags", 0),
            ("priority", None),
            ("resfd", None),
            ("user_data", 1),
        ],
    )
    def test_no_change_while_submitted(
        self, context: aio.Context, pipe: tuple[int, int], name: str, value: Any
    ) -> None:
        op = aio.Read(pipe[0], 1)
        before = getattr(op, name)
        context.submit(op)
        with pytest.raises(RuntimeError, match="submitted"):
            setattr(op, name, value)
        assert getattr(op, name) is before or getattr(op, name) == before

    def test_no_change_of_a_vector_or_a_poll(self, context: aio.Context, pipe: tuple[int, int]) -> None:
        vector, poll = aio.ReadV(pipe[0], [bytearray(1)]), aio.Poll(pipe[0], select.POLLIN)
        context.submit(vector, poll)
        with pytest.raises(RuntimeError, match="submitted"):
            vector.buffers = ()
        with pytest.raises(RuntimeError, match="submitted"):
            poll.events = 0

    @pytest.mark.parametrize("make", ALL, ids=IDS)
    def test_files(self, context: aio.Context, path: Path, make: Any) -> None:
        with path.open("r+b", buffering=0) as file:
            op = make(file)
            assert op.file is file
            assert run_one(context, op).check() >= 0

    @pytest.mark.parametrize("make", ALL, ids=IDS)
    def test_what_is_no_file_is_refused(self, context: aio.Context, make: Any) -> None:
        for bad in (None, 1.5, [3], object()):
            with pytest.raises(TypeError):
                context.submit(make(bad))

    def test_a_closed_file_object(self, context: aio.Context, path: Path) -> None:
        file = path.open("rb")
        op = aio.Read(file, 1)
        file.close()
        with pytest.raises(ValueError, match="closed"):
            context.submit(op)
        assert op.state == "new"

    def test_a_file_object_lives_while_in_flight(self, context: aio.Context, pipe: tuple[int, int]) -> None:
        op = aio.Read(os.fdopen(os.dup(pipe[0]), "rb", buffering=0), 3)
        context.submit(op)
        os.write(pipe[1], b"abc")
        (event,) = context.wait()
        assert event.data == b"abc"
        op.file.close()  # type: ignore[union-attr]

    @pytest.mark.parametrize("make", TRANSFERS, ids=IDS[:4])
    def test_offsets(self, fd: int, make: Any) -> None:
        with pytest.raises(ValueError, match="offset"):
            make(fd, offset=-1)
        with pytest.raises(OverflowError):
            make(fd, offset=1 << 63)
        with pytest.raises(TypeError):
            make(fd, offset=1.5)

    def test_a_negative_size(self, fd: int) -> None:
        with pytest.raises(ValueError, match="negative"):
            aio.Read(fd, -1)

    def test_options_are_keywords(self, fd: int) -> None:
        with pytest.raises(TypeError):
            aio.Read(fd, 1, 0, 0)  # type: ignore[call-arg]

    def test_classes(self) -> None:
        kinds = (aio.Read, aio.Write, aio.ReadV, aio.WriteV, aio.Fsync, aio.Fdatasync, aio.Poll)
        assert all(issubclass(kind, aio.Op) for kind in kinds)
        with pytest.raises(TypeError):
            aio.Op()

    @pytest.mark.parametrize("make", ALL, ids=IDS)
    def test_a_negative_descriptor(self, make: Any) -> None:
        with pytest.raises(ValueError, match="negative"):
            make(-1)

    def test_numpys_integers_are_sizes(self, context: aio.Context, fd: int) -> None:
        require("numpy")
        numpy: Any = importlib.import_module("numpy")
        assert run_one(context, aio.Read(fd, numpy.int64(5), 0)).data == b"hello"
        zero_dimensions = numpy.zeros((), dtype="u1")
        assert run_one(context, aio.Read(fd, zero_dimensions, 0)).data == b"h"

    def test_an_op_is_found_again(self, context: aio.Context, fd: int) -> None:
        ops: dict[aio.Op, int] = {aio.Read(fd, 1, at): at for at in range(10)}
        context.submit(*ops)
        for event in context.wait(10):
            at = ops.pop(event.op)
            assert event.data == CONTENT[at : at + 1]
        assert not ops
