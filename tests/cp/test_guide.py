"""What the pages of `proactor cp` and the README show happens: every console block, from top to bottom."""

from __future__ import annotations

from pathlib import Path

import pytest
from guides import check_console_blocks


@pytest.mark.parametrize("page", ["copy.md", "copy-shards.md", "../README.md"])
def test_console_blocks(page: str, tmp_path: Path) -> None:
    check_console_blocks(page, tmp_path)
