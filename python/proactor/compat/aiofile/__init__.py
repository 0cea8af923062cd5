"""The public names of aiofile 3.12 over proactor.

    from proactor.compat.aiofile import async_open  # was: from aiofile import async_open

Followed: `AIOFile` without a position, `async_open` with a plain `seek` and `tell` in bytes, `Reader`,
`Writer`, `LineReader`, `clone`, its modes, UTF-8 whatever the locale, no translation of line ends, what is
refused. Each write is with the kernel when it returns; closing a file that can be written brings its data to
the device.
`context` takes those of `proactor.compat.caio` and of caio.

Different on purpose:
- `readline` and small reads keep what they have read ahead for the next call; there each call reads anew. It
  is forgotten by `seek` and `write`.
- `readline(size)` goes on behind what it returned; there what follows in the line, and more, is lost.
- `async for` starts where the last `seek` went, and at 0 without one; there always at 0.
- `close` waits for operations that have begun or wait for their turn; there those fail, or use what has the
  descriptor by then. It goes on by itself when it is cancelled.
- A wrapper that is closed twice does not close its clone. `clone` opens a file that is not open yet.
- A cancelled operation's descriptor is not closed before the kernel is done with it.
- Reading to the end does so also where no size is stated; there it gives nothing. `/proc`, pipes and
  terminals work with every context.
- A separator of several characters is found wherever it is.
- UTF-16 and other encodings with a byte order mark work behind the first chunk.
- A text file decodes what it has read ahead: bytes that are no text fail the read of what is shortly before
  them, too.
- Any contiguous buffer can be written, not only `bytes`. Writing one to a text file is always a ValueError.
- A failed operation is an OSError with its errno that is a SystemError too (see `proactor.compat.caio`).
- Negative offsets are a ValueError. A name may be bytes; what is no path is a TypeError.
- `executor` is accepted and not used, with a RuntimeWarning: opening and closing take no thread of it.
"""

from __future__ import annotations

from proactor.compat.aiofile.aio import AIOFile
from proactor.compat.aiofile.utils import (
    BinaryFileWrapper,
    FileIOCloner,
    FileIOWrapperBase,
    LineReader,
    Reader,
    TextFileWrapper,
    Writer,
    async_open,
    clone,
)
from proactor.compat.aiofile.version import (
    __author__,
    __version__,
    author_info,
    package_info,
    package_license,
    project_home,
    team_email,
    version_info,
)

__all__ = (
    "AIOFile",
    "BinaryFileWrapper",
    "FileIOCloner",
    "FileIOWrapperBase",
    "LineReader",
    "Reader",
    "TextFileWrapper",
    "Writer",
    "__author__",
    "__version__",
    "async_open",
    "author_info",
    "clone",
    "package_info",
    "package_license",
    "project_home",
    "team_email",
    "version_info",
)
