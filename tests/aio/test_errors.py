"""Failures: the event carries an OSError of the right class, with errno, filename and op."""

from __future__ import annotations

import errno
import os
import socket
from pathlib import Path
from typing import Any

import pytest
from aio_helpers import run_one
from proactor import aio

pytest_plugins = ["aio_fixtures"]


def failure(context: aio.Context, op: aio.Op) -> OSError:
    event = run_one(context, op)
    error = event.error
    assert isinstance(error, OSError)
    assert error.errno is not None
    assert event.result == -error.errno
    # A hint may follow.
    assert (error.strerror or "").startswith(os.strerror(error.errno))
    assert error.op == type(op).__name__.lower()  # type: ignore[attr-defined]
    with pytest.raises(type(error)) as caught:
        event.check()
    assert caught.value is error
    return error


@pytest.mark.parametrize(
    "make",
    [
        lambda: aio.Read(9999, 1),
        lambda: aio.Write(9999, b"x"),
        lambda: aio.ReadV(9999, [1]),
        lambda: aio.WriteV(9999, [b"x"]),
        lambda: aio.Fsync(9999),
        lambda: aio.Fdatasync(9999),
        lambda: aio.Read(9999, 1, 0),
        lambda: aio.Poll(9999, 1),
    ],
)
def test_a_descriptor_that_is_not_open(context: aio.Context, make: Any) -> None:
    error = failure(context, make())
    assert error.errno == errno.EBADF
    assert error.filename is None


def test_the_wrong_mode(context: aio.Context, path: Path) -> None:
    with path.open("rb") as reader, path.open("wb") as writer:
        assert failure(context, aio.Read(writer, 1)).errno == errno.EBADF
        assert failure(context, aio.Write(reader, b"x")).errno == errno.EBADF


def test_a_directory(context: aio.Context, tmp_path: Path) -> None:
    fd = os.open(tmp_path, os.O_RDONLY)
    try:
        assert type(failure(context, aio.Read(fd, 1, 0))) is IsADirectoryError
    finally:
        os.close(fd)


def test_a_pipe_without_a_reader(context: aio.Context) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    try:
        # And no SIGPIPE: the interpreter ignores it, and so does every engine.
        assert type(failure(context, aio.Write(writer, b"x"))) is BrokenPipeError
    finally:
        os.close(writer)


@pytest.mark.parametrize("offset", [0, 5, 2**63 - 100])
def test_a_pipe_ignores_an_offset(context: aio.Context, pipe: tuple[int, int], offset: int) -> None:
    ops = [
        (aio.Write(pipe[1], b"ab", offset), aio.Read(pipe[0], 9, offset)),
        (aio.WriteV(pipe[1], [b"a", b"b"], offset), aio.ReadV(pipe[0], [9], offset)),
    ]
    for write, read in ops:
        assert run_one(context, write).check() == 2
        assert run_one(context, read).check() == 2


@pytest.mark.parametrize("offset", [0, 5])
def test_a_socket_ignores_an_offset(context: aio.Context, offset: int) -> None:
    left, right = socket.socketpair()
    with left, right:
        assert run_one(context, aio.Write(left, b"ab", offset)).check() == 2
        assert run_one(context, aio.Read(right, 9, offset)).data == b"ab"


def test_no_space(context: aio.Context) -> None:
    with open("/dev/full", "wb", buffering=0) as full:
        error = failure(context, aio.Write(full, b"x"))
    assert error.errno == errno.ENOSPC
    assert error.filename == "/dev/full"


def test_a_sync_of_a_pipe(context: aio.Context, pipe: tuple[int, int]) -> None:
    assert failure(context, aio.Fsync(pipe[0])).errno == errno.EINVAL


def test_unaligned_direct(context: aio.Context, direct_file: tuple[Path, int]) -> None:
    _, fd = direct_file
    view = aio.aligned(4097)[1:]
    try:
        os.preadv(fd, [view], 0)
    except OSError:
        assert failure(context, aio.Read(fd, view, 0)).errno == errno.EINVAL
    else:
        assert run_one(context, aio.Read(fd, view, 0)).check() == 4096


def test_the_filename(context: aio.Context, path: Path) -> None:
    with path.open("wb") as file:
        error = failure(context, aio.Read(file, 1))
    assert error.filename == str(path)
    assert str(path) in str(error)


def test_a_name_that_is_not_a_path(context: aio.Context, pipe: tuple[int, int]) -> None:
    # os.fdopen's name is the descriptor's number.
    with os.fdopen(os.dup(pipe[1]), "wb", buffering=0) as file:
        assert failure(context, aio.Read(file, 1)).filename in (None, file.name)


def test_no_data_after_a_failure(context: aio.Context) -> None:
    event = run_one(context, aio.Read(9999, 4))
    assert event.data is None or len(event.data) == 0


def test_an_event_is_constant(context: aio.Context, fd: int) -> None:
    event = run_one(context, aio.Read(fd, 1))
    for name in ("op", "result", "buffer", "data", "error", "user_data"):
        with pytest.raises(AttributeError):
            setattr(event, name, None)


def test_a_failure_stops_nothing_else(context: aio.Context, fd: int) -> None:
    ops = [aio.Read(9999 if at % 2 else fd, 1, 0) for at in range(20)]
    assert context.submit(*ops) == 20
    results = {event.op: event.result for event in context.wait(20)}
    assert [results[op] for op in ops] == [1, -errno.EBADF] * 10
