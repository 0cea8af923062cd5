"""The public names of aiofiles 25.1 over `proactor.open`.

    from proactor.compat import aiofiles  # was: import aiofiles

Followed: `open`, `os` and `ospath`, `tempfile`, the standard streams, the classes of `threadpool` and which
of their methods are coroutines, `executor`, `threadpool.wrap` and how tests replace `threadpool.sync_open`.

Different on purpose:
- Files that `open` opens are proactor's: what is buffered or cached is read and written without a thread.
  With an `executor`, or with `threadpool.sync_open` replaced, a file is the standard library's, in threads.
- Without an `executor` threads are those of a pool of proactor's own, at most 16, and not the loop's.
- `loop` can only be the running loop, as a file belongs to the loop in which it was opened; any other is a
  RuntimeError at once.
- `writelines` takes asynchronous iterables too.
- A cancelled read consumes nothing; there a thread goes on with it, and what it reads is lost.
- A cancelled `open` leaves no descriptor behind.
- The methods of a file that proactor has opened are native: they return coroutines, and
  `inspect.iscoroutinefunction` says False of them.
- `os.scandir` has read all entries before it returns, so that iterating does not block.
- `raw`, and `detach` of a text file, raise `io.UnsupportedOperation`, for there is no synchronous file
  underneath, and a text file's `buffer` is asynchronous. Open the file with an `executor` to have them.
- `detach` of a binary file is a new raw file at the same position. What was written has to be flushed before.
"""

from __future__ import annotations

from proactor.compat.aiofiles import os, ospath, tempfile
from proactor.compat.aiofiles.threadpool import (
    open,
    stderr,
    stderr_bytes,
    stdin,
    stdin_bytes,
    stdout,
    stdout_bytes,
)

__all__ = [
    "open",
    "os",
    "ospath",
    "stderr",
    "stderr_bytes",
    "stdin",
    "stdin_bytes",
    "stdout",
    "stdout_bytes",
    "tempfile",
]
