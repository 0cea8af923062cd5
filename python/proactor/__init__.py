"""Asynchronous I/O for Linux: ops go in, completions come out.

Whole files on any asyncio loop::

    data = await proactor.read_bytes("a.bin")
    async for path, data in proactor.read_many(paths, concurrency=64):
        ...

Low-level contexts without a loop are in `proactor.aio`; `proactor.compat` has other packages' names.
"""

from proactor import aio
from proactor._files import read_bytes, read_many, read_text, write_bytes, write_text
from proactor._native import __version__, chosen_engine, engines
from proactor._open import BinaryFile, TextFile, open

__all__ = [
    "BinaryFile",
    "TextFile",
    "__version__",
    "aio",
    "chosen_engine",
    "engines",
    "open",
    "read_bytes",
    "read_many",
    "read_text",
    "write_bytes",
    "write_text",
]
