"""A comparison as a picture: a panel of bars for each group, as SVG that is readable on light and on dark.

A bar is the median, from zero; the line on it goes from the lowest round to the highest. Knows groups and no
comparison. The same groups make the same bytes.
"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

import svg
from tables import Group, Row

WIDTH, COLUMNS, MARGIN = 960, 2, 12
PANEL = (WIDTH - MARGIN * (COLUMNS + 1)) // COLUMNS
ROW, BAR, TITLE, LEGEND = 20, 12, 44, 30
# Of a character in a label and in a value, about: no font is at hand to ask.
LETTER = 6.8

# `proactor` where something else is faster has a hollow bar, for those who cannot tell the colours apart.
STYLE = """
text { font: 12px system-ui, sans-serif; fill: #1f2328; }
.title { font-weight: 600; }
.faint { fill: #59636e; }
.other { fill: #afb8c1; }
.ours { fill: #0969da; }
.behind { fill: #0969da; fill-opacity: 0.15; stroke: #0969da; stroke-width: 1.5; }
.spread { stroke: #1f2328; stroke-width: 1; }
@media (prefers-color-scheme: dark) {
text { fill: #f0f6fc; }
.faint { fill: #9198a1; }
.other { fill: #656c76; }
.ours { fill: #4493f8; }
.behind { fill: #4493f8; stroke: #4493f8; }
.spread { stroke: #f0f6fc; }
}
"""
LEGENDS = {
    "ours": "proactor",
    "behind": "proactor, where something else is faster",
    "other": "others",
}


def chart(title: str, groups: Sequence[Group]) -> str:
    parts: list[svg.Element] = [svg.Title(text=escape(title)), svg.Style(text=STYLE), *_legend()]
    top = LEGEND
    for start in range(0, len(groups), COLUMNS):
        line = groups[start : start + COLUMNS]
        for column, group in enumerate(line):
            parts += _panel(group, MARGIN + column * (PANEL + MARGIN), top)
        top += TITLE + ROW * max(len(group.rows) for group in line) + MARGIN
    picture = svg.SVG(width=WIDTH, height=top, viewBox=svg.ViewBoxSpec(0, 0, WIDTH, top), elements=parts)
    return picture.as_str().replace("><", ">\n<") + "\n"


def _legend() -> list[svg.Element]:
    parts: list[svg.Element] = []
    x = float(MARGIN)
    for kind, meaning in LEGENDS.items():
        parts += [_rectangle(x, 9, BAR, BAR, kind), _text(x + BAR + 6, 19, meaning, "faint")]
        x += BAR + 6 + len(meaning) * LETTER + 24
    parts += [*_spread(x, x + 24, 15), _text(x + 30, 19, "the lowest and the highest round", "faint")]
    return parts


def _panel(group: Group, left: float, top: float) -> list[svg.Element]:
    labels = max(len(row.name) for row in group.rows) * LETTER
    zero = left + labels + 8
    # A bar, its spread and its value are within the panel.
    right = left + PANEL - 6
    scale = min(
        (right - len(_value(group, row)) * LETTER - zero) / row.measured.highest for row in group.rows
    )
    parts = [_text(left, top + 16, group.title, "title"), _text(left, top + 32, group.measure, "faint")]
    for number, row in enumerate(group.rows):
        parts += _row(group, row, left, zero, top + TITLE + number * ROW, scale)
    return parts


def _row(group: Group, row: Row, left: float, zero: float, top: float, scale: float) -> list[svg.Element]:
    kind = ("behind" if group.behind(row) else "ours") if row.is_ours else "other"
    measured = row.measured
    end = zero + max(measured.highest, measured.median) * scale
    parts = [
        _text(left, top + BAR - 1, row.name),
        _rectangle(zero, top, measured.median * scale, BAR, kind),
        _text(end + 6, top + BAR - 1, _value(group, row)),
    ]
    if measured.rounds > 1:
        parts += _spread(zero + measured.lowest * scale, zero + measured.highest * scale, top + BAR / 2)
    return parts


def _value(group: Group, row: Row) -> str:
    return f"{row.measured.median:,.{group.digits}f} ({group.ratio(row):.2f})"


def _spread(start: float, end: float, y: float) -> list[svg.Element]:
    ends = [(start, y, end, y), (start, y - 3, start, y + 3), (end, y - 3, end, y + 3)]
    return [
        svg.Line(x1=_round(x1), y1=_round(y1), x2=_round(x2), y2=_round(y2), class_=["spread"])
        for x1, y1, x2, y2 in ends
    ]


def _rectangle(x: float, y: float, width: float, height: float, kind: str) -> svg.Element:
    return svg.Rect(x=_round(x), y=_round(y), width=_round(width), height=_round(height), class_=[kind])


def _text(x: float, y: float, content: str, kind: str = "") -> svg.Element:
    return svg.Text(x=_round(x), y=_round(y), text=escape(content), class_=[kind] if kind else None)


def _round(number: float) -> float:
    """Of a pixel, a tenth is enough."""
    return round(number, 1)
