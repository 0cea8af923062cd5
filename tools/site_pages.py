"""Builds the documentation site from docs/ into target/site/html: `make site`.

    python tools/site_pages.py              # in the environment of requirements/site.txt
    python tools/site_pages.py --sources    # only the pages, which needs no other package

Pages stay where they are in the repository. Their copies below target/site/docs lose the links that lead
out of the site. The page of all options is written from what clap prints. Needs no network.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"
SITE = ROOT / "target" / "site"
CONFIGURATION = ROOT / "tools" / "site_pages.toml"

# Where the repository's files can be read. While it is empty, links to them are plain text.
REPOSITORY = ""

# Pages from elsewhere in the repository.
MORE = {
    "ARCHITECTURE.md": "architecture.md",
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "comparisons/README.md": "comparisons.md",
}

FENCED = re.compile(r"(^```.*?^```$)", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"(!?)\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^)\s]+)\)")

GOLDEN = ROOT / "crates" / "cli" / "tests" / "golden"
# In the order of the page.
COMMANDS = (
    "",
    "cp",
    "bench",
    "bench-io",
    "bench-files",
    "bench-cp",
    "bench-net",
    "serve",
    "run",
    "doctor",
    "completions",
)


def sources() -> dict[str, Path]:
    """Each file of the site by its name there, with the file of the repository that it comes from."""
    own = {str(path.relative_to(DOCS)): path for path in sorted(DOCS.rglob("*")) if path.is_file()}
    return own | {page: ROOT / path for path, page in MORE.items()}


def page_text(name: str, files: dict[str, Path]) -> str:
    """A page with links that lead to pages of the site, or out of it."""
    source = files[name]
    by_path = {path.resolve(): page for page, path in files.items()}

    def link(match: re.Match[str]) -> str:
        image, text, target = match.groups()
        path, _, heading = target.partition("#")
        if "://" in target or not path:
            return match[0]
        wanted = (source.parent / path).resolve()
        if page := by_path.get(wanted):
            relative = os.path.relpath(page, Path(name).parent)
            return f"{image}[{text}]({relative}{'#' if heading else ''}{heading})"
        if REPOSITORY:
            return f"{image}[{text}]({REPOSITORY}/{wanted.relative_to(ROOT)})"
        return text

    parts = FENCED.split(source.read_text())
    return "".join(part if number % 2 else LINK.sub(link, part) for number, part in enumerate(parts))


def command_line() -> str:
    """The options of each command, as `--help` prints them."""
    parts = [(DOCS / "reference" / "command-line.md").read_text()]
    for command in COMMANDS:
        words = " ".join(["proactor", *command.split("-")]).strip()
        printed = (GOLDEN / f"{command + '-' if command else ''}help.txt").read_text()
        printed = "\n".join(line.rstrip() for line in printed.splitlines())
        parts.append(f"## {words}\n\n```text\n{printed}\n```\n")
    return "\n".join(parts)


def write_sources(site: Path) -> None:
    """Everything that the site is built from, in a new folder."""
    shutil.rmtree(site, ignore_errors=True)
    folder = site / "docs"
    files = sources()
    for name, source in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.suffix == ".md":
            path.write_text(page_text(name, files))
        else:
            shutil.copyfile(source, path)
    (folder / "reference" / "command-line.md").write_text(command_line())
    shutil.copyfile(CONFIGURATION, site / "zensical.toml")


def build() -> int:
    """Strict: a broken link ends it with a failure."""
    command = [str(Path(sys.executable).parent / "zensical"), "build", "--clean", "--strict"]
    return subprocess.run(command, cwd=SITE, check=False).returncode


def main() -> int:
    parser = argparse.ArgumentParser(description="Build the documentation site into target/site/html.")
    parser.add_argument(
        "--sources", action="store_true", help="write the pages that it is built from, and end"
    )
    args = parser.parse_args()
    write_sources(SITE)
    return 0 if args.sources else build()


if __name__ == "__main__":
    sys.exit(main())
