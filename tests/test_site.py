"""The documentation site: its navigation, the links of its pages, and the pages that programs write.

`make site` builds it, and fails on a broken link.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import site_pages as site
from guides import check_console_blocks

CONFIGURATION = site.CONFIGURATION.read_text()
NAVIGATION = re.findall(r'= "([\w/-]+\.md)"', CONFIGURATION)


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site") / "new"
    site.write_sources(folder)
    return folder


def test_each_page_is_in_the_navigation_once(sources: Path) -> None:
    pages = {str(path.relative_to(sources / "docs")) for path in (sources / "docs").rglob("*.md")}
    assert sorted(NAVIGATION) == sorted(pages)
    parts = re.findall(r'^  \{ "([\w-]+)"', CONFIGURATION, re.MULTILINE)
    assert parts == ["Home", "Tutorial", "How-to", "Reference", "Explanation"]


def test_links_stay_in_the_site(sources: Path) -> None:
    count = 0
    for page in (sources / "docs").rglob("*.md"):
        for text in site.FENCED.split(page.read_text())[::2]:
            for _, _, target in site.LINK.findall(text):
                path = target.partition("#")[0]
                if path and "://" not in path:
                    assert (page.parent / path).exists(), (page, target)
                    assert (page.parent / path).resolve().is_relative_to(sources), (page, target)
                    count += 1
    assert count > 100


def test_links_out_of_the_docs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("[a](#b) [the code](../tools) ![x](y.svg) [z](https://z)\n```\n[a](../b)\n```\n")
    files = {"how-to/page.md": page, "speed/y.svg": tmp_path / "y.svg"}
    text = site.page_text("how-to/page.md", files)
    assert text == "[a](#b) the code ![x](../speed/y.svg) [z](https://z)\n```\n[a](../b)\n```\n"
    monkeypatch.setattr(site, "REPOSITORY", "https://example.com/tree")
    monkeypatch.setattr(site, "ROOT", tmp_path.parent)
    assert "[the code](https://example.com/tree/tools)" in site.page_text("how-to/page.md", files)


def test_the_reference_has_every_command(sources: Path) -> None:
    text = (sources / "docs" / "reference" / "command-line.md").read_text()
    helps = {path.stem for path in site.GOLDEN.glob("*help.txt")}
    shown = {f"{command}-help" if command else "help" for command in site.COMMANDS}
    assert shown == {name for name in helps if "short" not in name}
    assert text.count("```text\n") == len(site.COMMANDS)
    assert "--iodepth" in text
    # clap pads empty lines.
    assert not re.search(r" +$", text, re.MULTILINE)


def test_nothing_is_fetched_when_a_page_is_read() -> None:
    assert "\nfont = false\n" in CONFIGURATION
    assert "social" not in CONFIGURATION


@pytest.mark.parametrize("page", ["tutorial.md", "how-to/copy-a-data-set.md"])
def test_commands_print_what_the_page_says(page: str, tmp_path: Path) -> None:
    check_console_blocks(page, tmp_path)
