"""A static card that consists of a heading and a table: the layout of cluster and job list cards."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from batchai_magics.cards import card_parts


@dataclass(frozen=True)
class TableCard:
    """Rows under a heading: the first cell of a row is its name, the second its state, a coloured badge.

    A cell may have a second line, shown muted. `title` is next to the name, `counts` below it; `omitted` is a
    note on rows that are not listed.
    """

    name: str
    title: str
    titles: Sequence[str]
    rows: Sequence[Sequence[str]]
    colours: Mapping[str, str]
    badge: tuple[str, str] | None = None  # a word and its colour
    counts: str = ""
    problems: Sequence[str] = ()
    omitted: str = ""
    reopen_command: str = ""


def table_card_html(sheet: TableCard) -> str:
    """The card as one self-contained HTML element."""
    badge = f"{card_parts.badge(*sheet.badge)} &nbsp;" if sheet.badge else ""
    counts = f'<div style="margin-top:8px">{card_parts.escaped(sheet.counts)}</div>' if sheet.counts else ""
    return card_parts.frame(
        f"<div>{badge}{card_parts.title(sheet.name)} &nbsp;{card_parts.muted(sheet.title)}</div>{counts}",
        *map(card_parts.problem, sheet.problems),
        card_parts.html_table(sheet.titles, [_html_row(row, sheet.colours) for row in sheet.rows])
        if sheet.rows
        else "",
        card_parts.muted(sheet.omitted),
        card_parts.reopen_hint(sheet.reopen_command) if sheet.reopen_command else "",
    )


def table_card_text(sheet: TableCard) -> str:
    """The card as plain text."""
    badge = f"[{sheet.badge[0]}] " if sheet.badge else ""
    lines = [f"{badge}{sheet.name}   {sheet.title}"]
    if sheet.counts:
        lines.append(f"  {sheet.counts}")
    lines += [f"  ! {problem}" for problem in sheet.problems]
    if sheet.rows:
        lines.append(card_parts.text_table(sheet.titles, sheet.rows))
    if sheet.omitted:
        lines.append(f"  {sheet.omitted}")
    if sheet.reopen_command:
        lines.append(f"Again: {sheet.reopen_command}")
    return "\n".join(lines)


def _html_row(row: Sequence[str], colours: Mapping[str, str]) -> list[str]:
    name, state, *rest = (_lines(cell) for cell in row)
    return [
        f"<strong>{card_parts.escaped(name[0])}</strong>{name[1]}",
        f"{card_parts.badge(state[0], colours[state[0]])}{state[1]}",
        *(f"{card_parts.escaped(first)}{second}" for first, second in rest),
    ]


def _lines(cell: str) -> tuple[str, str]:
    """The first line of a cell, and the HTML of its second line."""
    first, _, second = cell.partition("\n")
    return first, f"<br>{card_parts.muted(second)}" if second else ""
