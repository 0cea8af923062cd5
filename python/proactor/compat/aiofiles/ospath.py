"""Functions of `os.path` as coroutines in threads. They take `loop` and `executor` as well."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from os import path
from typing import Any

from proactor.compat.aiofiles.base import wrap

__all__ = [
    "abspath",
    "exists",
    "getatime",
    "getctime",
    "getmtime",
    "getsize",
    "isdir",
    "isfile",
    "islink",
    "ismount",
    "samefile",
    "sameopenfile",
]

abspath: Callable[..., Coroutine[Any, Any, Any]] = wrap(path.abspath)
exists: Callable[..., Coroutine[Any, Any, bool]] = wrap(path.exists)
getatime: Callable[..., Coroutine[Any, Any, float]] = wrap(path.getatime)
getctime: Callable[..., Coroutine[Any, Any, float]] = wrap(path.getctime)
getmtime: Callable[..., Coroutine[Any, Any, float]] = wrap(path.getmtime)
getsize: Callable[..., Coroutine[Any, Any, int]] = wrap(path.getsize)
isdir: Callable[..., Coroutine[Any, Any, bool]] = wrap(path.isdir)
isfile: Callable[..., Coroutine[Any, Any, bool]] = wrap(path.isfile)
islink: Callable[..., Coroutine[Any, Any, bool]] = wrap(path.islink)
ismount: Callable[..., Coroutine[Any, Any, bool]] = wrap(path.ismount)
samefile: Callable[..., Coroutine[Any, Any, bool]] = wrap(path.samefile)
sameopenfile: Callable[..., Coroutine[Any, Any, bool]] = wrap(path.sameopenfile)
