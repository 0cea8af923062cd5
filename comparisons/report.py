"""Writes docs/speed.md and docs/speed/*.svg from the summaries under comparisons/results.

    python comparisons/report.py
    python comparisons/report.py --results DIR --docs DIR    # another's, elsewhere
    python comparisons/report.py --print bench_fio           # the tables of one, on standard output

It takes the newest summary of each comparison. It measures nothing; the same summaries make the same bytes.
"""

from __future__ import annotations

import argparse
import importlib
import inspect
import sys
from pathlib import Path
from typing import Any

import charts
import lib
import summaries
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

A number is the median of the rounds, with the lowest, the highest and the median absolute deviation. A number
without them is of one round. `of` is the ratio to the first row. Where anything is faster than proactor, even
a plain synchronous call, the column `slower than` names it with the factor, and the bar in the picture is
hollow. Each part was measured on one machine, which may have been shared with others. Trust ratios more than
times, and no difference that is within the spread.
"""


def section(name: str, kept: summaries.Kept) -> tuple[str, str]:
    """Its part of the page, and its picture."""
    module: Any = importlib.import_module(MODULES.get(name, name))
    groups = kept.groups
    about = inspect.cleandoc(module.__doc__ or "")
    # What comes after an indented block is how to run it.
    about = about.partition("\n\n    ")[0]
    facts = "; ".join(f"{key}: {value}" for key, value in kept.environment.items())
    command = f"\n\nRepeat it: `{kept.command}`"
    ours = [(group, row) for group in groups for row in group.rows if row.is_ours]
    lost = sum(bool(group.behind(row)) for group, row in ours)
    score = f"Of proactor's {len(ours)} cells, {lost} are slower than something else."
    remarks = module.remarks(kept.environment) if hasattr(module, "remarks") else ""
    table = module.overview(groups) if hasattr(module, "overview") else kept.table
    score = "\n\n".join(filter(None, [score, remarks, table]))
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
        paths = summaries.newest(results, name)
        if not paths:
            missing.append(name)
            continue
        text, picture = section(name, summaries.read(paths))
        parts.append(text)
        (pictures / f"{name}.svg").write_text(picture)
    if missing:
        parts.append(f"Not measured yet: {', '.join(missing)}.\n")
    (docs / "speed.md").write_text("\n".join(parts))
    return missing


def show(results: Path, name: str) -> None:
    """Prints what the comparison printed when it was measured."""
    paths = summaries.newest(results, name)
    if not paths:
        sys.exit(f"{results} has no summary of {name}")
    kept = summaries.read(paths)
    print(tables.header(name, {"environment": kept.environment, "command": kept.command}))
    print(tables.tables(kept.groups))


def main() -> None:
    parser = argparse.ArgumentParser(description="Write docs/speed.md from the results that are kept.")
    parser.add_argument("--results", type=Path, default=tables.RESULTS)
    parser.add_argument("--docs", type=Path, default=lib.ROOT / "docs", help="where speed.md and speed/ go")
    parser.add_argument("--print", metavar="NAME", help="print the tables of one comparison, and end")
    args = parser.parse_args()
    if args.print:
        show(args.results, args.print)
        return
    missing = write(args.results, args.docs)
    print(f"{args.docs / 'speed.md'}" + (f", without {', '.join(missing)}" if missing else ""))


if __name__ == "__main__":
    main()
