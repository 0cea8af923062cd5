"""Each test that docs/internals/server-tests.md names exists."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PAGE = (ROOT / "docs/internals/server-tests.md").read_text()
NAMED = sorted(set(re.findall(r"`([\w./]+)::(\w+)`", PAGE)))
# How a test begins, by the kind of its file. Python's collects functions, cargo's those with the attribute.
BEGINS = {
    ".py": r"^def {}\(",
    ".rs": r"#\[test\]\n(?:\s*#\[ignore[^\n]*\n)?\s*fn {}\(",
    ".c": r"^CASE\({}\)",
}


def test_the_page_names_tests() -> None:
    assert len(NAMED) > 50
    rows = [line for line in PAGE.splitlines() if line.startswith("| ") and not line.startswith("| ---")]
    headings = len(re.findall(r"^\| -", PAGE, re.MULTILINE))
    assert sum("::" in row for row in rows) == len(rows) - headings


@pytest.mark.parametrize(("file", "name"), NAMED, ids="::".join)
def test_it_exists(file: str, name: str) -> None:
    path = ROOT / file
    assert re.search(BEGINS[path.suffix].format(name), path.read_text(), re.MULTILINE)
