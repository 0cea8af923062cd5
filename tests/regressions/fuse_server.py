"""A file system in user space whose files are opened with direct I/O: `fuse_server.py DIRECTORY`."""

from __future__ import annotations

import errno
import stat
import sys
from typing import Any

import mfusepy as fuse  # type: ignore[import-untyped]

DATA = bytes(range(256)) * 1200

# What stat says of a file's size need not be true, as in /proc.
SIZES = {"/exact": len(DATA), "/zero": 0, "/toobig": 2 * len(DATA)}

# The most bytes that one write takes.
WRITE_BYTES = 5000


class Files(fuse.Operations):  # type: ignore[misc]
    use_ns = True

    def __init__(self) -> None:
        self.written = bytearray()

    def getattr(self, path: str, fh: int | None = None) -> dict[str, Any]:
        if path == "/":
            return {"st_mode": stat.S_IFDIR | 0o755, "st_nlink": 2}
        if path == "/written":
            return {"st_mode": stat.S_IFREG | 0o644, "st_nlink": 1, "st_size": len(self.written)}
        if path not in SIZES:
            raise fuse.FuseOSError(errno.ENOENT)
        return {"st_mode": stat.S_IFREG | 0o644, "st_nlink": 1, "st_size": SIZES[path]}

    def open(self, path: str, flags: int) -> int:
        return 0

    def truncate(self, path: str, length: int, fh: int | None = None) -> int:
        del self.written[length:]
        return 0

    def read(self, path: str, size: int, offset: int, fh: int) -> bytes:
        data = bytes(self.written) if path == "/written" else DATA
        return data[offset : offset + size]

    def write(self, path: str, data: bytes, offset: int, fh: int) -> int:
        part = data[:WRITE_BYTES]
        self.written[offset : offset + len(part)] = part
        return len(part)


if __name__ == "__main__":
    fuse.FUSE(Files(), sys.argv[1], foreground=True, nothreads=True, direct_io=True)
