"""Functions of ours with a value for each parameter: of `test_arguments_without_effect.py`."""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import proactor
import proactor.net
from proactor import aio

Place = Path
# What is refused, with words of the message.
Refused = Mapping[tuple[str, ...], str]


@dataclass(frozen=True)
class Case:
    """A function with a value for each of its parameters."""

    name: str
    function: Callable[..., Any]
    call: Callable[[Place, dict[str, Any]], Awaitable[object]]
    values: Callable[[Place], dict[str, Any]]
    refused: Refused = field(default_factory=dict)
    given: Sequence[str] = ()
    """Parameters that all calls have, or that are no matter here."""
    needs: Sequence[str] = ()

    def __str__(self) -> str:
        return self.name


async def read(place: Place, arguments: dict[str, Any]) -> None:
    async with proactor.open(place / "file", **arguments) as file:
        await file.read()


async def take_many(place: Place, arguments: dict[str, Any]) -> None:
    async for _ in proactor.read_many([place / "file"] * 3, **arguments):
        pass


async def take_many_into_buffers(place: Place, arguments: dict[str, Any]) -> None:
    items = [(place / "file", bytearray(100)) for _ in range(3)]
    async for _ in proactor.read_bytes_many(items, **arguments):
        pass


async def write_anew(place: Place, arguments: dict[str, Any]) -> None:
    (place / "new").unlink(missing_ok=True)
    await proactor.write_bytes(place / "new", b"x", **arguments)


async def write_text_anew(place: Place, arguments: dict[str, Any]) -> None:
    (place / "new").unlink(missing_ok=True)
    await proactor.write_text(place / "new", "x", **arguments)


def context_on(engine: str | None) -> Callable[[Place, dict[str, Any]], Awaitable[object]]:
    async def make(place: Place, arguments: dict[str, Any]) -> None:
        with aio.Context(**({"engine": engine} if engine else {}) | arguments):
            pass

    return make


def op(kind: Any, *memory: Any) -> Callable[[Place, dict[str, Any]], Awaitable[object]]:
    async def submit(place: Place, arguments: dict[str, Any]) -> None:
        fd = os.open(place / "file", os.O_RDWR)
        try:
            with aio.Context() as context:
                context.submit(kind(fd, *memory, **arguments))
                (event,) = context.wait()
                event.check()
        finally:
            os.close(fd)

    return submit


def event_descriptor(place: Place) -> int:
    fd = os.eventfd(0) if hasattr(os, "eventfd") else -1
    DESCRIPTORS.append(fd)
    return fd


DESCRIPTORS: list[int] = []


def close_descriptors() -> None:
    while DESCRIPTORS:
        os.close(DESCRIPTORS.pop())


def of_transfer(place: Place) -> dict[str, Any]:
    return {
        "offset": 0,
        "rw_flags": aio.RWF_HIPRI,
        "priority": aio.Priority(aio.PriorityClass.BEST_EFFORT, 3),
        "resfd": event_descriptor(place),
        "user_data": 1,
    }


def of_sync(place: Place) -> dict[str, Any]:
    return {
        "priority": aio.Priority(aio.PriorityClass.BEST_EFFORT, 3),
        "resfd": event_descriptor(place),
        "user_data": 1,
    }


async def copied(place: Place, arguments: dict[str, Any]) -> None:
    shutil.rmtree(place / "copy", ignore_errors=True)
    # Only a pair that is refused is of interest, and not what this file system can do.
    await proactor.copy(place / "tree", place / "copy", check=False, **arguments)


async def planned(place: Place, arguments: dict[str, Any]) -> None:
    await proactor.copy_plan(place / "tree", place / "planned", **arguments)
    for left in place.glob("planned*"):
        shutil.rmtree(left)


def of_copies(place: Place) -> dict[str, Any]:
    return {
        "preserve": ("mode",),
        "exclude": ["*.o"],
        "include": ["a.o"],
        "dereference": "always",
        "link": "hard",
        "sparse": "always",
        "reflink": "never",
        "fsync": "end",
        "one_file_system": True,
        "attributes_only": True,
        "verify": True,
        "bwlimit": 1 << 30,
        "jobs": 2,
        "engine": "threads",
    }


def of_copy(place: Place) -> dict[str, Any]:
    more = {
        "into": False,
        "recursive": False,
        "update": "none",
        "backup": "simple",
        "force": True,
        "in_place": True,
        "resume": True,
        "keep_directory_symlink": True,
        "dry_run": True,
        "progress": print,
    }
    return of_copies(place) | more


OF_CONTENTS: Refused = {
    (name, other): f"{name} has no effect with link or attributes_only"
    for name in ("verify", "bwlimit", "resume", "in_place", "sparse", "reflink")
    for other in ("link", "attributes_only")
}
OF_METHODS: Refused = {
    ("attributes_only", "link"): "attributes_only has no effect with link",
}
OF_PATTERNS: Refused = {("include",): "include has no effect without exclude"}


async def handled(stream: proactor.net.Stream) -> None:
    pass


async def served(place: Place, arguments: dict[str, Any]) -> None:
    async with await proactor.net.serve(handled, **{"host": "127.0.0.1"} | arguments):
        pass


async def served_unix(place: Place, arguments: dict[str, Any]) -> None:
    (place / "socket").unlink(missing_ok=True)
    async with await proactor.net.serve_unix(handled, place / "socket", **arguments):
        pass


async def connected(place: Place, arguments: dict[str, Any]) -> None:
    async with await proactor.net.serve(handled, "127.0.0.1") as server:
        stream = await proactor.net.connect(*server.addresses[0][:2], **arguments)
        stream.close()
        await stream.wait_closed()


async def connected_unix(place: Place, arguments: dict[str, Any]) -> None:
    (place / "socket").unlink(missing_ok=True)
    async with await proactor.net.serve_unix(handled, place / "socket"):
        stream = await proactor.net.connect_unix(place / "socket", **arguments)
        stream.close()
        await stream.wait_closed()


def opened(**more: Any) -> Callable[[Place], dict[str, Any]]:
    def values(place: Place) -> dict[str, Any]:
        own = {"opener": os.open, "direct": True, "engine": "threads", "limiter": asyncio.Semaphore()}
        return {"buffering": 4096} | own | more

    return values


CASES = [
    Case(
        "open a text file",
        proactor.open,
        read,
        opened(mode="r+", encoding="utf-8", errors="replace", newline="\n", closefd=False),
        {("closefd",): "closefd=False with file name"},
    ),
    Case(
        "open a binary file",
        proactor.open,
        lambda place, given: read(place, {"mode": "rb"} | given),
        opened(mode="r+b", encoding="utf-8", errors="replace", newline="\n"),
        {
            ("encoding",): "binary mode doesn't take an encoding",
            ("errors",): "binary mode doesn't take an errors",
            ("newline",): "binary mode doesn't take a newline",
        },
        given=("closefd",),
    ),
    Case(
        "open to append",
        proactor.open,
        lambda place, given: read(place, given | {"mode": "a+"}),
        opened(),
        {("direct",): "append"},
        given=("mode", "encoding", "errors", "newline", "closefd"),
    ),
    Case(
        "read_bytes",
        proactor.read_bytes,
        lambda place, given: proactor.read_bytes(place / "file", **given),
        lambda _: {"engine": "threads"},
    ),
    Case(
        "read_text",
        proactor.read_text,
        lambda place, given: proactor.read_text(place / "file", **given),
        lambda _: {"encoding": "utf-8", "errors": "replace", "newline": "\n", "engine": "threads"},
    ),
    Case(
        "write_bytes",
        proactor.write_bytes,
        write_anew,
        lambda _: {"append": True, "exclusive": True, "mode": 0o600, "sync": True, "engine": "threads"},
        {("append", "exclusive"): "append has no effect with exclusive"},
    ),
    Case(
        "write_text",
        proactor.write_text,
        write_text_anew,
        lambda _: {
            "encoding": "utf-8",
            "errors": "replace",
            "newline": "\n",
            "append": True,
            "exclusive": True,
            "mode": 0o600,
            "sync": True,
            "engine": "threads",
        },
        {("append", "exclusive"): "append has no effect with exclusive"},
    ),
    Case(
        "read_many",
        proactor.read_many,
        take_many,
        lambda _: {
            "concurrency": 3,
            "ordered": False,
            "return_exceptions": True,
            "workers": 1,
            "engine": "threads",
            "into": bytearray,
            "progress": lambda files, size: None,
        },
        {
            ("concurrency", "workers"): "workers has no effect with concurrency=3",
            ("into", "workers"): "workers has no effect on files that are read into",
        },
    ),
    Case(
        "read_bytes_many",
        proactor.read_bytes_many,
        take_many_into_buffers,
        lambda _: {
            "concurrency": 3,
            "ordered": False,
            "return_exceptions": True,
            "engine": "threads",
            "progress": lambda files, size: None,
        },
    ),
    Case(
        "a context on io_uring",
        aio.Context,
        context_on("io_uring"),
        lambda _: {
            "max_jobs": 8,
            "sqpoll": 0.01,
            "sqpoll_cpu": min(os.sched_getaffinity(0)),
            "iopoll": True,
            "backlog": 3,
            "inline": False,
            "max_threads": 2,
            "shared": True,
        },
        {("shared",): "cannot be on io_uring", ("sqpoll_cpu",): "sqpoll_cpu needs sqpoll"},
        given=("engine",),
        needs=("io_uring",),
    ),
    *(
        Case(
            f"a context on {engine}",
            aio.Context,
            context_on(engine),
            lambda _: {
                "max_jobs": 8,
                "sqpoll": True,
                "iopoll": True,
                "backlog": 3,
                "inline": False,
                "max_threads": 2,
                "shared": True,
            },
            {
                ("sqpoll",): f"sqpoll has no effect on the engine {engine}",
                ("iopoll",): f"iopoll has no effect on the engine {engine}",
            },
            given=("engine", "sqpoll_cpu"),
        )
        for engine in ("threads", "posix_aio")
    ),
    Case("Read", aio.Read, op(aio.Read, 3), of_transfer, given=("file", "buffer")),
    Case("Write", aio.Write, op(aio.Write, b"x"), of_transfer, given=("file", "buffer")),
    Case("ReadV", aio.ReadV, op(aio.ReadV, [3]), of_transfer, given=("file", "buffers")),
    Case("WriteV", aio.WriteV, op(aio.WriteV, [b"x"]), of_transfer, given=("file", "buffers")),
    *(
        Case(kind.__name__, kind, op(kind), of_sync, {("priority",): "would ignore the priority"}, ("file",))
        for kind in (aio.Fsync, aio.Fdatasync)
    ),
    Case(
        "Poll",
        aio.Poll,
        op(aio.Poll, 1),
        lambda place: {"resfd": event_descriptor(place), "user_data": 1},
        given=("file", "events"),
    ),
    Case(
        "copy",
        proactor.copy,
        copied,
        of_copy,
        {
            **OF_CONTENTS,
            **OF_METHODS,
            **OF_PATTERNS,
            ("in_place", "backup"): "in_place has no effect with backup",
            ("force", "update"): "force has no effect with update",
            ("backup", "update"): "backup has no effect with update",
            ("keep_directory_symlink", "recursive"): "keep_directory_symlink has no effect",
            ("one_file_system", "recursive"): "one_file_system has no effect",
        },
        given=("check",),
    ),
    Case(
        "copy_plan",
        proactor.copy_plan,
        planned,
        of_copies,
        {**OF_CONTENTS, **OF_METHODS, **OF_PATTERNS},
        ("shards",),
    ),
    Case(
        "serve",
        proactor.net.serve,
        served,
        lambda _: {
            "host": ["127.0.0.1"],
            "port": 0,
            "family": 2,
            "backlog": 3,
            "reuse_port": True,
            "limit": 3,
            "engine": "epoll",
        },
    ),
    Case(
        "serve_unix",
        proactor.net.serve_unix,
        served_unix,
        lambda _: {"backlog": 3, "limit": 3, "engine": "epoll"},
    ),
    Case(
        "connect",
        proactor.net.connect,
        connected,
        lambda _: {"family": 2, "limit": 3, "engine": "epoll"},
    ),
    Case(
        "connect_unix",
        proactor.net.connect_unix,
        connected_unix,
        lambda _: {"limit": 3, "engine": "epoll"},
    ),
]
