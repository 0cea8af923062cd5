"""What docs/bench.md shows happens."""

from __future__ import annotations

from pathlib import Path

from guides import check_console_blocks


def test_console_blocks(tmp_path: Path) -> None:
    check_console_blocks("bench.md", tmp_path)
