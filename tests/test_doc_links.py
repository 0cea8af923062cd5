"""Each relative link of the Markdown pages leads to a file, and to a heading in it."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
FENCED = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\(([^)\s]+)\)")
# rustdoc checks its own paths.
ELSEWHERE = ("https://", "http://", "crate::", "std::")


def pages() -> list[str]:
    done = subprocess.run(["git", "ls-files", "*.md"], cwd=ROOT, capture_output=True, text=True, check=True)
    return [name for name in done.stdout.splitlines() if not name.startswith("comparisons/results/")]


def prose(page: Path) -> str:
    return FENCED.sub("", page.read_text())


def anchor(heading: str) -> str:
    return re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-")


def anchors(page: Path) -> set[str]:
    return {anchor(heading) for heading in re.findall(r"^#+ (.*)$", prose(page), re.MULTILINE)}


@pytest.mark.parametrize("name", pages())
def test_links(name: str) -> None:
    page = ROOT / name
    for link in LINK.findall(prose(page)):
        if link.startswith(ELSEWHERE):
            continue
        path, _, heading = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        assert target.exists(), link
        if heading and target.suffix == ".md":
            assert heading in anchors(target), link
