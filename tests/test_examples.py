"""What the documentation shows runs: every Python block of the README and docs, and every example."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from capabilities import require

ROOT = Path(__file__).resolve().parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
BLOCKS = [
    pytest.param(match.group(1), id=f"{page.relative_to(ROOT)}-{number}")
    for page in PAGES
    for number, match in enumerate(BLOCK.finditer(page.read_text()))
]
# What a block may import beside the package (tests/capabilities.py).
PACKAGES = ("fastapi", "numpy", "pandas", "pyarrow", "torch")
# The demo has a test of its own.
EXAMPLES = [path for path in sorted((ROOT / "examples").glob("*.py")) if path.name != "demo.py"]


def run(*arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, *arguments], cwd=ROOT, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_readme_has_examples() -> None:
    assert BLOCKS


@pytest.mark.parametrize("code", BLOCKS)
def test_block(code: str) -> None:
    for package in PACKAGES:
        if re.search(rf"^(?:import|from) {package}\b", code, re.MULTILINE):
            require(package)
    assert run("-c", code).strip(), "an example shows something"


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.name)
def test_example(path: Path) -> None:
    assert run(str(path)).strip()
