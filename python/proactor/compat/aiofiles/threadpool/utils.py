"""Class decorators with which other packages make their own wrappers of synchronous files.

The class keeps the file as `_file`; a subclass of `AsyncBase` does.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from proactor.compat.aiofiles.base import run

__all__ = [
    "cond_delegate_to_executor",
    "delegate_to_executor",
    "proxy_method_directly",
    "proxy_property_directly",
]

Class = TypeVar("Class", bound=type)


def _adding(make: Callable[[str], Any], names: tuple[str, ...]) -> Callable[[Class], Class]:
    def decorate(cls: Class) -> Class:
        for name in names:
            setattr(cls, name, make(name))
        return cls

    return decorate


def _in_executor(name: str) -> Any:
    async def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        return await run(self._executor, getattr(self._file, name), *args, **kwargs)

    return method


def _in_executor_if_rolled(name: str) -> Any:
    in_executor = _in_executor(name)

    async def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        if self._file._rolled:
            return await in_executor(self, *args, **kwargs)
        return getattr(self._file, name)(*args, **kwargs)

    return method


def _directly(name: str) -> Any:
    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        return getattr(self._file, name)(*args, **kwargs)

    return method


def delegate_to_executor(*attrs: str) -> Callable[[Class], Class]:
    """Adds coroutine methods that call the file's methods of these names in a thread."""
    return _adding(_in_executor, attrs)


def cond_delegate_to_executor(*attrs: str) -> Callable[[Class], Class]:
    """The same for a spooled file, whose methods are called in place while it is in memory."""
    return _adding(_in_executor_if_rolled, attrs)


def proxy_method_directly(*attrs: str) -> Callable[[Class], Class]:
    """Adds methods that call the file's methods of these names in place."""
    return _adding(_directly, attrs)


def proxy_property_directly(*attrs: str) -> Callable[[Class], Class]:
    """Adds properties that give the file's attributes of these names."""
    return _adding(lambda name: property(lambda self: getattr(self._file, name)), attrs)
