"""A table with a head as a still picture: what the cards of clusters and of lists of jobs have in common."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from batchai_magics.cards import parts

STATE = 1  # the column that holds a state


@dataclass(frozen=True)
class Sheet:
    """Rows under a name. The first cell of a row is its name, the second its state, in that state's colour.

    A cell may have a second line, that matters less. `title` stands beside the name, `counts` below it;
    `left_out` says what the rows do not show.
    """

    name: str
    title: str
    titles: Sequence[str]
    rows: Sequence[Sequence[str]]
    colours: Mapping[str, str]
    badge: tuple[str, str] | None = None  # a word and its colour
    counts: str = ""
    problems: Sequence[str] = ()
    left_out: str = ""
    way_back: str = ""


def sheet_html(sheet: Sheet) -> str:
    """The sheet as one self-contained HTML element."""
    badge = f"{parts.badge(*sheet.badge)} &nbsp;" if sheet.badge else ""
    counts = f'<div style="margin-top:8px">{parts.escaped(sheet.counts)}</div>' if sheet.counts else ""
    return parts.frame(
        f"<div>{badge}{parts.title(sheet.name)} &nbsp;{parts.muted(sheet.title)}</div>{counts}",
        *map(parts.alarm, sheet.problems),
        parts.html_table(sheet.titles, [_html_row(row, sheet.colours) for row in sheet.rows])
        if sheet.rows
        else "",
        parts.muted(sheet.left_out),
        parts.way_back(sheet.way_back) if sheet.way_back else "",
    )


def sheet_text(sheet: Sheet) -> str:
    """The sheet as plain text."""
    badge = f"[{sheet.badge[0]}] " if sheet.badge else ""
    lines = [f"{badge}{sheet.name}   {sheet.title}"]
    if sheet.counts:
        lines.append(f"  {sheet.counts}")
    lines += [f"  ! {problem}" for problem in sheet.problems]
    if sheet.rows:
        lines.append(parts.text_table(sheet.titles, sheet.rows))
    if sheet.left_out:
        lines.append(f"  {sheet.left_out}")
    if sheet.way_back:
        lines.append(f"Again: {sheet.way_back}")
    return "\n".join(lines)


def _html_row(row: Sequence[str], colours: Mapping[str, str]) -> list[str]:
    name, state, *rest = (_lines(cell) for cell in row)
    return [
        f"<strong>{parts.escaped(name[0])}</strong>{name[1]}",
        f"{parts.badge(state[0], colours[state[0]])}{state[1]}",
        *(f"{parts.escaped(first)}{second}" for first, second in rest),
    ]


def _lines(cell: str) -> tuple[str, str]:
    """The first line of a cell, and the HTML of its second one."""
    first, _, second = cell.partition("\n")
    return first, f"<br>{parts.muted(second)}" if second else ""
