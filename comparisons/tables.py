"""What the comparisons say: statistics, groups of rows that are compared with each other, and their tables.

A comparison is a module with `groups(data)`, which makes its groups from what it has kept as JSON, and a
docstring that says what is compared. What a script prints and what docs/speed.md shows come from there.
"""

from __future__ import annotations

import argparse
import os
import shlex
import statistics
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import lib
from lib import Measured

RESULTS = lib.ROOT / "comparisons" / "results"

# Statistics


@dataclass(frozen=True)
class Summary:
    """Of several rounds. The spread is the whole range and the median absolute deviation."""

    median: float
    lowest: float
    highest: float
    mad: float
    rounds: int

    @classmethod
    def of(cls, values: Iterable[float]) -> Summary:
        values = list(values)
        middle = statistics.median(values)
        mad = statistics.median(abs(value - middle) for value in values)
        return cls(middle, min(values), max(values), mad, len(values))

    def __format__(self, spec: str) -> str:
        """`median (lowest-highest, MAD x)`, each number by `spec`."""
        if self.rounds == 1:
            return format(self.median, spec)
        numbers = (format(n, spec) for n in (self.median, self.lowest, self.highest, self.mad))
        return "{} ({}-{}, MAD {})".format(*numbers)


def summarise(rounds: Sequence[Measured], key: str, scale: float = 1.0) -> Summary | None:
    """None if a round lacks the number."""
    values = [measured.get(key) for measured in rounds]
    if not values or any(value is None for value in values):
        return None
    return Summary.of(scale * value for value in values if value is not None)


def number(rounds: Sequence[Measured], key: str, scale: float = 1.0) -> Summary:
    """What each round must have."""
    found = summarise(rounds, key, scale)
    assert found is not None, f"a round without {key}"
    return found


def cpu_ms(rounds: Sequence[Measured]) -> str:
    """User and system."""
    return "+".join(f"{number(rounds, key, 1e3).median:.0f}" for key in ("user_s", "system_s"))


def late_ms(rounds: Sequence[Measured]) -> str:
    late = summarise(rounds, "late_max_s", 1e3)
    return f"{late.median:.1f} (max {late.highest:.1f})" if late else "-"


# What is compared


@dataclass(frozen=True)
class Row:
    """One contender: its name, what it was measured at, and more cells for the table."""

    name: str
    measured: Summary
    more: Sequence[str] = ()
    # None: by its name.
    of_ours: bool | None = None
    # An upper bound: other rows are not compared with it.
    is_floor: bool = False

    @property
    def is_ours(self) -> bool:
        return self.name.startswith("proactor") if self.of_ours is None else self.of_ours


@dataclass(frozen=True)
class Group:
    """Rows that did the same work: one table, and one panel of the chart. Ratios are to the first row."""

    title: str
    unit: str
    rows: Sequence[Row]
    head: Sequence[str] = ()
    """Of the rows' `more`."""
    digits: int = 0
    more_is_better: bool = False
    note: str = ""
    part: str = ""
    """Of a comparison whose summary is too long for one file."""

    @property
    def measure(self) -> str:
        return f"{self.unit}, {'more' if self.more_is_better else 'less'} is better"

    def ratio(self, row: Row) -> float:
        return row.measured.median / self.rows[0].measured.median

    def behind(self, row: Row) -> str:
        """For a row of ours, all others that are faster, the fastest first, and how many times each."""
        if not row.is_ours:
            return ""
        found = []
        for other in self.rows:
            factor = row.measured.median / other.measured.median
            if self.more_is_better:
                factor = 1 / factor
            # What would be written as 1.00 is none.
            if not other.is_ours and not other.is_floor and factor >= 1.005:
                found.append((factor, f"{other.name} ({factor:.2f})"))
        return "; ".join(text for _, text in sorted(found, reverse=True))


# Markdown


def table(head: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """A markdown table, aligned as plain text too: the first column to the left, the others to the right."""
    text = [[str(cell) for cell in row] for row in [head, *rows]]
    widths = [max(len(row[i]) for row in text) for i in range(len(head))]

    def line(row: Sequence[str]) -> str:
        cells = (cell.rjust(widths[i]) if i else cell.ljust(widths[i]) for i, cell in enumerate(row))
        return f"| {' | '.join(cells)} |"

    rule = (("-" * (width - 1) + ":") if i else "-" * width for i, width in enumerate(widths))
    return "\n".join([line(text[0]), f"| {' | '.join(rule)} |", *map(line, text[1:])])


def group_table(group: Group) -> str:
    """With a column that names what is faster than a row of ours, if anything is."""
    behind = [group.behind(row) for row in group.rows]
    more = ["slower than"] if any(behind) else []
    head = ["by", group.measure, f"of {group.rows[0].name}", *group.head, *more]
    rows = [
        [
            row.name,
            format(row.measured, f",.{group.digits}f"),
            f"{group.ratio(row):.2f}",
            *row.more,
            *([lost] if more else []),
        ]
        for row, lost in zip(group.rows, behind, strict=True)
    ]
    return table(head, rows)


def tables(groups: Iterable[Group], level: str = "##") -> str:
    parts = []
    for group in groups:
        rounds = max(row.measured.rounds for row in group.rows)
        fewer = " at most" if any(row.measured.rounds < rounds for row in group.rows) else ""
        note = f"{rounds} round{'s' if rounds > 1 else ''}{fewer}. {group.note}".rstrip()
        parts.append(f"{level} {group.title}\n\n{note}\n\n{group_table(group)}\n")
    return "\n".join(parts)


def header(name: str, data: Measured) -> str:
    """A title, the environment, and the command that repeats it."""
    facts = {**data["environment"], "command": f"`{data['command']}`"}
    return f"# {name}\n\n" + "\n".join(f"- {key}: {value}" for key, value in facts.items()) + "\n"


# A comparison's arguments, and its result


def add_arguments(parser: argparse.ArgumentParser, rounds: int, always: str = "") -> None:
    """`always`: whom --only never leaves out; without, there is no --only."""
    parser.add_argument(
        "--rounds", type=int, default=rounds, metavar="N", help="rounds (default: %(default)s)"
    )
    parser.add_argument(
        "--minutes",
        type=float,
        metavar="M",
        help="if it would take longer, the slowest have fewer rounds, one at least",
    )
    parser.add_argument("--smoke", action="store_true", help="tiny and quick: only to see that it runs")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write everything measured to FILE")
    parser.add_argument("--save", action="store_true", help="keep it by date and host")
    parser.add_argument(
        "--results", type=Path, default=RESULTS, help="where --save keeps it (default: comparisons/results)"
    )
    parser.add_argument(
        "--name", default="", help="of the result, for a device or a Python that is not the usual one"
    )
    if always:
        parser.add_argument(
            "--only",
            metavar="TEXT",
            help=f"only those with TEXT in their name (more texts with | between), and {always}",
        )


def parse(parser: argparse.ArgumentParser) -> argparse.Namespace:
    args = parser.parse_args()
    if args.smoke:
        args.rounds = 1
    return args


def chosen(names: Iterable[str], only: str | None, *always: str) -> list[str]:
    """Of the names what `--only` leaves."""
    texts = only.split("|") if only else [""]
    return [name for name in names if name in always or any(text in name for text in texts)]


def command_line() -> str:
    """How this script was called, from the root of a checkout."""
    return shlex.join(["python", os.path.relpath(sys.argv[0], lib.ROOT), *sys.argv[1:]])
