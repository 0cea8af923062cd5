"""The native half of the package: what the Rust module exposes, checked by stubtest."""

from collections.abc import Sequence
from typing import Final

__all__ = ["__version__", "cli_main"]

__version__: Final[str]

def cli_main(argv: Sequence[str]) -> int: ...
