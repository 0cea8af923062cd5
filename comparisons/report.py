"""Writes docs/speed.md and docs/speed/*.svg from what is kept under comparisons/results.

    python comparisons/report.py
    python comparisons/report.py --results DIR --docs DIR    # another's, elsewhere

Of each comparison the newest result by date. Measures nothing; the same results make the same bytes.
"""

from __future__ import annotations

import argparse
import importlib
import inspect
import json
from pathlib import Path
from typing import Any

import charts
import lib
import tables

# The comparisons, in the page's order: module -> title.
COMPARISONS = {
    "lines": "Lines",
    "lines_py313": "Lines, on Python 3.13",
    "chunks": "Chunks of a large file",
    "depths": "Random reads, from Python",
    "create": "Small files, created",
    "calls": "Calls",
    "read_many": "Many whole files",
    "read_many_py313": "Many whole files, on Python 3.13",
    "linux_aio_rounds": "Rounds of linux_aio's README",
    "linux_aio_rounds_py313": "Rounds of linux_aio's README, on Python 3.13",
    "perop": "One op",
    "randread": "Random reads, from Rust",
    "randread_zram": "Random reads, from Rust, of a file in memory",
    "rust_programs": "Programs in Rust",
    "copier": "Trees, copied",
    "servers_lockstep": "Echo servers at an exact batch",
    "servers_live": "Echo servers under load",
    "servers_redis": "Redis, plain and under `proactor run`",
    "servers_programs": "Other unmodified servers, plain and under `proactor run`",
    "servers_model": "Kernel workers on more cores: a model",
    "servers_streams": "Echo servers in Python at an exact batch",
}
# Results by the same module, of another device or another Python.
MODULES = {
    "lines_py313": "lines",
    "read_many_py313": "read_many",
    "linux_aio_rounds_py313": "linux_aio_rounds",
    "randread_zram": "randread",
}
HEAD = """# Speed

Made from `comparisons/results` by `python comparisons/report.py`.
[How it is measured](../comparisons/README.md).

A number is the median of the rounds, with the lowest, the highest and the median absolute deviation; a number
alone is of one round. `of` is the ratio to the first row. Where anything else that is measured is faster than
proactor, be it a plain synchronous call, the column `slower than` says what and how many times, and the bar
in the picture is hollow. Each part is of one machine, which may be shared with others: trust the ratios, and
within the spread not even those.
"""


def newest(results: Path, name: str) -> Path | None:
    """By the date in the name; of one date, the last by host."""
    return max(results.glob(f"????-??-??-*-{name}.json"), key=lambda path: path.name, default=None)


def section(name: str, data: lib.Measured) -> tuple[str, str]:
    """Its part of the page, and its picture."""
    module: Any = importlib.import_module(MODULES.get(name, name))
    groups: list[tables.Group] = list(module.groups(data))
    about = inspect.cleandoc(module.__doc__ or "")
    # What comes after an indented block is how to run it.
    about = about.partition("\n\n    ")[0]
    facts = "; ".join(f"{key}: {value}" for key, value in data["environment"].items())
    command = f"\n\nRepeat it: `{data['command']}`" if "command" in data else ""
    ours = [(group, row) for group in groups for row in group.rows if row.is_ours]
    lost = sum(bool(group.behind(row)) for group, row in ours)
    score = f"Of proactor's {len(ours)} cells, {lost} are slower than something else."
    if summary := hasattr(module, "summary") and module.summary(data):
        score += f"\n\n{summary}"
    title = COMPARISONS[name]
    picture = f"![{title}](speed/{name}.svg)"
    text = f"## {title}\n\n{about}\n\n{score}\n\n{picture}\n\n{tables.tables(groups, '###')}\n"
    return f"{text}Measured with {facts}.{command}\n", charts.chart(title, groups)


def write(results: Path, docs: Path) -> list[str]:
    """The page and its pictures; the names of the comparisons of which nothing is kept."""
    parts, missing = [HEAD], []
    pictures = docs / "speed"
    pictures.mkdir(parents=True, exist_ok=True)
    for name in COMPARISONS:
        path = newest(results, name)
        if path is None:
            missing.append(name)
            continue
        text, picture = section(name, json.loads(path.read_text()))
        parts.append(text)
        (pictures / f"{name}.svg").write_text(picture)
    if missing:
        parts.append(f"Not measured yet: {', '.join(missing)}.\n")
    (docs / "speed.md").write_text("\n".join(parts))
    return missing


def main() -> None:
    parser = argparse.ArgumentParser(description="Write docs/speed.md from the results that are kept.")
    parser.add_argument("--results", type=Path, default=tables.RESULTS)
    parser.add_argument("--docs", type=Path, default=lib.ROOT / "docs", help="where speed.md and speed/ go")
    args = parser.parse_args()
    missing = write(args.results, args.docs)
    print(f"{args.docs / 'speed.md'}" + (f", without {', '.join(missing)}" if missing else ""))


if __name__ == "__main__":
    main()
