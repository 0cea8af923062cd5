"""Asynchronous I/O for Linux: ops go in, completions come out."""

from proactor._native import __version__

__all__ = ["__version__"]
