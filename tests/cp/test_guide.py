"""What docs/copy.md shows happens: every console block, in one directory, from top to bottom."""

from __future__ import annotations

from pathlib import Path

from guides import check_console_blocks


def test_console_blocks(tmp_path: Path) -> None:
    check_console_blocks("copy.md", tmp_path)
