"""Asynchronous I/O for Linux: ops go in, completions come out.

Whole files on any asyncio loop::

    data = await proactor.read_bytes("a.bin")
    async for path, data in proactor.read_many(paths, concurrency=64):
        ...

Low-level contexts without a loop are in `proactor.aio`; `proactor.compat` has other packages' names.
"""

from proactor import aio
from proactor._native import __version__, chosen_engine, engines

# What `typing` says of itself, without importing it: it is a quarter of what importing this package takes.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from proactor import bench as bench
    from proactor import net as net
    from proactor import os as os
    from proactor import ospath as ospath
    from proactor import shutil as shutil
    from proactor import sync as sync
    from proactor import tempfile as tempfile
    from proactor._copying import CopyError, CopyProgress, CopyReport, copy
    from proactor._files import read_bytes, read_bytes_many, read_many, read_text, write_bytes, write_text
    from proactor._open import BinaryFile, TextFile, open
    from proactor._path import Path
    from proactor._shards import CopyPlan, copy_finish, copy_plan, copy_shard
    from proactor._stdio import stderr, stderr_bytes, stdin, stdin_bytes, stdout, stdout_bytes
    from proactor._wrap import WrappedFile, wrap

__all__ = [
    "BinaryFile",
    "CopyError",
    "CopyPlan",
    "CopyProgress",
    "CopyReport",
    "Path",
    "TextFile",
    "WrappedFile",
    "__version__",
    "aio",
    "chosen_engine",
    "copy",
    "copy_finish",
    "copy_plan",
    "copy_shard",
    "engines",
    "open",
    "read_bytes",
    "read_bytes_many",
    "read_many",
    "read_text",
    "stderr",
    "stderr_bytes",
    "stdin",
    "stdin_bytes",
    "stdout",
    "stdout_bytes",
    "wrap",
    "write_bytes",
    "write_text",
]

# Imported when first used, with asyncio and all that it imports: a program which needs contexts alone has
# neither its memory (9 MB) nor its time (70 ms).
_LATER = {
    "BinaryFile": "proactor._open",
    "CopyError": "proactor._copying",
    "CopyPlan": "proactor._shards",
    "CopyProgress": "proactor._copying",
    "CopyReport": "proactor._copying",
    "Path": "proactor._path",
    "TextFile": "proactor._open",
    "WrappedFile": "proactor._wrap",
    "copy": "proactor._copying",
    "copy_finish": "proactor._shards",
    "copy_plan": "proactor._shards",
    "copy_shard": "proactor._shards",
    "open": "proactor._open",
    "read_bytes": "proactor._files",
    "read_bytes_many": "proactor._files",
    "read_many": "proactor._files",
    "read_text": "proactor._files",
    "stderr": "proactor._stdio",
    "stderr_bytes": "proactor._stdio",
    "stdin": "proactor._stdio",
    "stdin_bytes": "proactor._stdio",
    "stdout": "proactor._stdio",
    "stdout_bytes": "proactor._stdio",
    "wrap": "proactor._wrap",
    "write_bytes": "proactor._files",
    "write_text": "proactor._files",
}

_MODULES = {"bench", "net", "os", "ospath", "shutil", "sync", "tempfile", "compat"}

if not TYPE_CHECKING:

    def __getattr__(name):
        from importlib import import_module

        if name in _MODULES:
            return import_module(f"{__name__}.{name}")
        if name not in _LATER:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        value = globals()[name] = getattr(import_module(_LATER[name]), name)
        return value

    def __dir__():
        return sorted({*globals(), *__all__})
