"""`SpooledTemporaryFile`: in memory until it is too large for that."""

from __future__ import annotations

import io
from functools import partial
from typing import TYPE_CHECKING, Any, AnyStr

from proactor._methods import PLAIN, Methods
from proactor._open import start_close
from proactor._temporary import Settings, temporary_file
from proactor._text_base import Turn

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from proactor._native import BinaryFile
    from proactor._text import TextFile


class SpooledFile(Methods[AnyStr]):
    """What `SpooledTemporaryFile` gives: its calls do not suspend until it has rolled over to the disk.

    The calls run one after the other, in the order in which they were awaited. A cancelled roll-over leaves
    everything in memory, and the next call that needs one begins anew.
    """

    def __init__(
        self, settings: Settings, max_size: int, make: Callable[[], Coroutine[Any, Any, Any]]
    ) -> None:
        self._settings, self._max_size, self._make = settings, max_size, make
        self._bytes = io.BytesIO()
        self._memory: Any = self._bytes
        if settings.is_text:
            self._memory = io.TextIOWrapper(
                self._bytes, settings.encoding, settings.errors, settings.newline, write_through=True
            )
        self._file: BinaryFile | TextFile | None = None
        self._turn = Turn()

    async def _call(self, name: str, *arguments: Any) -> Any:
        async with self._turn:
            if name == "truncate" and arguments[0] is not None and arguments[0] > self._max_size:
                await self._roll_over()
            if self._file is not None:
                return await getattr(self._file, name)(*arguments)
            result = getattr(self._memory, name)(*arguments)
            if name in ("write", "writelines") and self._is_too_long():
                await self._roll_over()
            return result

    def _is_too_long(self) -> bool:
        # Nothing is short enough for a negative bound, as in the standard library.
        return self._max_size != 0 and self._bytes.tell() > self._max_size

    async def rollover(self) -> None:
        """Moves to a file on disk, whatever the size; does nothing if it is one already."""
        async with self._turn:
            await self._roll_over()

    async def fileno(self) -> int:
        """Rolls over, since nothing else has a descriptor, and returns it."""
        async with self._turn:
            await self._roll_over()
            descriptor: int = self._here.fileno()
            return descriptor

    async def _roll_over(self) -> None:
        if self._file is not None:
            return
        place = self._memory.tell()
        file = await self._make()
        binary = file.buffer if self._settings.is_text else file
        try:
            await binary.write(self._bytes.getvalue())
            await file.seek(place)
        except BaseException:
            start_close(binary)
            raise
        self._file = file
        self._memory.close()

    @property
    def _here(self) -> Any:
        return self._memory if self._file is None else self._file

    @property
    def name(self) -> int | None:
        """The descriptor, or None as long as there is none."""
        return None if self._file is None else self._file.name

    @property
    def mode(self) -> str:
        """The mode, as it was given or as the file on disk writes it."""
        return self._settings.mode if self._file is None else self._file.mode

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._here, name)
        if name in PLAIN or not callable(value):
            return value
        return partial(self._call, name)

    def __repr__(self) -> str:
        where = "in memory" if self._file is None else f"on disk, {self._file!r}"
        return f"<proactor.SpooledTemporaryFile {where}>"


async def spooled_file(
    settings: Settings, max_size: int, suffix: Any, prefix: Any, folder: Any
) -> SpooledFile[Any]:
    return SpooledFile(settings, max_size, lambda: temporary_file(settings, suffix, prefix, folder))
