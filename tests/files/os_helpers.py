"""What the tests of `proactor.os` and `proactor.ospath` share."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

NOBODY = 65534


class Plain:
    """The functions of a module of the standard library as coroutines."""

    def __init__(self, module: Any) -> None:
        self.module = module

    def __getattr__(self, name: str) -> Callable[..., Coroutine[Any, Any, Any]]:
        function = getattr(self.module, name)

        async def call(*arguments: Any, **options: Any) -> Any:
            return function(*arguments, **options)

        return call


async def outcome(root: Path, coroutine: Coroutine[Any, Any, Any]) -> Any:
    """What it gives or raises, told in a way that is the same for two equal trees."""
    try:
        result = await coroutine
    except OSError as error:
        return type(error), error.errno, relative(root, error.filename), relative(root, error.filename2)
    except (ValueError, TypeError) as error:
        return type(error), str(error)
    if isinstance(result, os.stat_result):
        return result.st_mode, result.st_nlink, result.st_uid, result.st_gid, result.st_rdev
    if isinstance(result, os.statvfs_result):
        return result.f_bsize, result.f_namemax
    if isinstance(result, list):
        return sorted(result)
    return relative(root, result)


def relative(root: Path, value: Any) -> Any:
    if isinstance(value, str):
        return value.replace(str(root), "ROOT")
    if isinstance(value, bytes):
        return value.replace(os.fsencode(root), b"ROOT")
    return value


def snapshot(root: Path) -> dict[str, Any]:
    """Every entry of a tree: its kind and mode, links, and what it holds."""
    found = {}
    for path in sorted(root.rglob("*")):
        info = path.lstat()
        holds: Any = None
        if stat.S_ISLNK(info.st_mode):
            holds = relative(root, os.readlink(path))
        elif stat.S_ISREG(info.st_mode):
            holds = path.read_bytes()
        found[str(path.relative_to(root))] = info.st_mode, info.st_nlink, holds
    return found


def now(coroutine: Coroutine[Any, Any, Any]) -> Any:
    """The result of a coroutine that does not suspend."""
    try:
        coroutine.send(None)
    except StopIteration as end:
        return end.value
    coroutine.close()
    raise AssertionError("it suspended")


@contextmanager
def unprivileged(*paths: Path) -> Iterator[None]:
    """Without root's rights, where the tests have them; the paths are made another user's."""
    if os.geteuid() != 0:
        yield
        return
    for path in paths:
        os.chown(path, NOBODY, NOBODY, follow_symlinks=False)
    os.seteuid(NOBODY)
    try:
        yield
    finally:
        os.seteuid(0)
