"""The summary of a comparison, as it is kept in the repository: the machine and the statistics of each row.

One row a line. A comparison with many groups has a file for each of their parts, `<stem>.<part>.json`. Each
file has at most 300 lines (tools/tidy.py). The rounds themselves are in a folder that git ignores.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import lib
import tables
from tables import Group, Row, Summary


@dataclass
class Kept:
    """What report.py makes a part of docs/speed.md of."""

    environment: dict[str, str]
    command: str
    groups: list[Group]
    table: str = ""
    """Over all groups, in Markdown."""


# Files


def newest(results: Path, name: str) -> list[Path]:
    """The files of a comparison's newest summary, by the date in their names, and then by host."""
    files = [
        path
        for pattern in (f"{name}.json", f"{name}.*.json")
        for path in sorted(results.glob(f"????-??-??-*-{pattern}"))
    ]
    last = max((_stem(path) for path in files), default=None)
    return [path for path in files if _stem(path) == last]


def _stem(path: Path) -> str:
    return path.name.partition(".")[0]


def read(paths: Sequence[Path]) -> Kept:
    """The parts of one summary, in the order in which they were measured."""
    parts = sorted((json.loads(path.read_text()) for path in paths), key=lambda part: part.get("number", 0))
    first = parts[0]
    groups = [_group(found) for part in parts for found in part["groups"]]
    return Kept(first["environment"], first["command"], groups, "\n".join(first["table"]))


def write(folder: Path, stem: str, kept: Kept) -> list[Path]:
    """Replaces what is there of the same stem."""
    folder.mkdir(parents=True, exist_ok=True)
    for path in (*folder.glob(f"{stem}.json"), *folder.glob(f"{stem}.*.json")):
        path.unlink()
    written = []
    for number, part in enumerate(dict.fromkeys(group.part for group in kept.groups)):
        path = folder / (f"{stem}.{part}.json" if part else f"{stem}.json")
        groups = [group for group in kept.groups if group.part == part]
        path.write_text(_text(kept, number, groups))
        written.append(path)
    return written


def merged(before: Kept, after: Kept) -> list[Group]:
    """The groups of both in the order of the first; those of one title are the second's."""
    by_title = {group.title: group for group in before.groups}
    return list((by_title | {group.title: group for group in after.groups}).values())


# As JSON


def _text(kept: Kept, number: int, groups: Iterable[Group]) -> str:
    head: dict[str, object] = {"number": number} if number else {}
    head |= {"environment": kept.environment, "command": kept.command}
    head["table"] = [] if number else kept.table.splitlines()
    parts = [",\n".join(_group_lines(group)) for group in groups]
    start = json.dumps(head, indent=1).removesuffix("\n}")
    return start + ',\n "groups": [\n' + ",\n".join(parts) + "\n ]\n}\n"


def _group_lines(group: Group) -> list[str]:
    """A line for the group, and one for each row."""
    facts = {
        "title": group.title,
        "unit": group.unit,
        "head": list(group.head),
        "digits": group.digits,
        "more_is_better": group.more_is_better,
        "note": group.note,
        "part": group.part,
    }
    head = json.dumps(facts).removesuffix("}")
    rows = [json.dumps(_row_facts(row)) for row in group.rows]
    rows[0] = f'  {head}, "rows": [\n   {rows[0]}'
    rows[1:] = [f"   {row}" for row in rows[1:]]
    rows[-1] += "]}"
    return rows


def _row_facts(row: Row) -> dict[str, object]:
    measured = row.measured
    numbers = [measured.median, measured.lowest, measured.highest, measured.mad]
    facts: dict[str, object] = {"name": row.name, "measured": numbers}
    facts |= {"rounds": measured.rounds, "more": list(row.more)}
    if row.of_ours is not None:
        facts["of_ours"] = row.of_ours
    if row.is_floor:
        facts["is_floor"] = True
    return facts


def _group(found: dict[str, Any]) -> Group:
    return Group(**{**found, "head": tuple(found["head"]), "rows": [_row(row) for row in found["rows"]]})


def _row(found: dict[str, Any]) -> Row:
    median, lowest, highest, mad = found["measured"]
    summary = Summary(median, lowest, highest, mad, found["rounds"])
    more = {key: value for key, value in found.items() if key not in ("measured", "rounds", "more")}
    return Row(measured=summary, more=tuple(found["more"]), **more)


# A comparison's result


def finish(
    name: str, data: lib.Measured, groups: Iterable[Group], args: argparse.Namespace, table: str = ""
) -> None:
    """Prints the result. With --save, keeps its summary, and its rounds in a folder that git ignores.

    `table`: over all groups, in Markdown. With --add, kept groups that were not measured now stay.
    """
    name = "_".join(filter(None, [name, args.name]))
    data = {"environment": data["environment"], "command": tables.command_line(), **data}
    summary = Kept(data["environment"], data["command"], list(groups), table)
    print(tables.header(name, data) + "\n" + tables.tables(summary.groups))
    content = json.dumps(data, indent=1) + "\n"
    if args.json:
        args.json.write_text(content)
    if args.save:
        before = newest(args.results, name) if getattr(args, "add", False) else []
        if before:
            summary.groups = merged(read(before), summary)
        env = data["environment"]
        stem = f"{env['date'][:10]}-{env['host']}-{name}"
        raw = raw_folder(args.results) / f"{stem}.json"
        raw.parent.mkdir(parents=True, exist_ok=True)
        raw.write_text(content)
        written = write(args.results, stem, summary)
        print(f"kept: {', '.join(os.path.relpath(path) for path in [*written, raw])}", file=sys.stderr)


def raw_folder(results: Path) -> Path:
    """Where the rounds of results go: git ignores it."""
    return results / "raw"


def newest_rounds(results: Path, name: str) -> lib.Measured:
    """The newest rounds, to add others to them. Empty where this checkout has none."""
    files = sorted(raw_folder(results).glob(f"????-??-??-*-{name}.json"))
    found: lib.Measured = json.loads(files[-1].read_text()) if files else {}
    return found
