"""Components of the static cards as HTML and text, and cards that are only a table."""

from __future__ import annotations

import html
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from batchai_magics.errors import visible
from batchai_magics.models.states import CANCELLED, STOPPED, ExecutionState

FRAME = (
    "border:1px solid var(--jp-border-color2,#bbb);border-radius:8px;padding:12px 14px;max-width:1200px;"
    "box-sizing:border-box;color:var(--jp-content-font-color1,inherit);line-height:1.5;overflow-x:auto;"
    "font-family:var(--jp-ui-font-family,system-ui,sans-serif);font-size:13px"
)
MUTED = "color:var(--jp-ui-font-color2,#767676)"
GREY, BLUE, AMBER, PURPLE, GREEN, RED = "#546e7a", "#1565c0", "#8d6200", "#6a4fb3", "#2e7d32", "#c62828"
BROWN = "#795548"
JOB_COLOURS = {  # by state name
    ExecutionState.QUEUED.value: GREY,
    ExecutionState.RUNNING.value: BLUE,
    ExecutionState.TERMINATING.value: AMBER,
    ExecutionState.SUCCEEDED.value: GREEN,
    ExecutionState.FAILED.value: RED,
    CANCELLED: BROWN,
    STOPPED: BROWN,
}

# `background-color`, never `background`: for that one, JupyterLab compiles an expression of 12 KB (60 ms).
_BADGE = (
    "background-color:{colour};color:#fff;border-radius:10px;padding:1px 10px;font-weight:600;font-size:12px"
)
_ALARM = "margin-top:8px;padding:4px 10px;border-left:3px solid #c62828"
_WARNING = f"margin-top:8px;padding:4px 10px;border-left:3px solid {AMBER}"
_TABLE = "border:none;border-collapse:collapse;margin:8px 0 0;font-size:13px"
_CELL = "text-align:left;vertical-align:top;padding:2px 10px 2px 0;background-color:transparent;border:none"
_SHORT, _LONG = "white-space:nowrap", "overflow-wrap:anywhere;min-width:7em"
_MAX_UNWRAPPED = 16  # letters of a cell that never wrap
_FACT = "text-align:left;vertical-align:top;padding:1px 16px 1px 0;background-color:transparent;border:none"
_LABEL = f"{_FACT};{MUTED};font-weight:normal"
_TAG = re.compile(r"<[^>]*>")


def frame(*parts: str) -> str:
    """HTML parts in a bordered frame."""
    return f'<div style="{FRAME}">{"".join(parts)}</div>'


def badge(word: str, colour: str) -> str:
    """A state as a coloured badge."""
    return f'<span style="{_BADGE.format(colour=colour)}">{escaped(word)}</span>'


def muted(text: str) -> str:
    """Text in a muted colour."""
    return f'<span style="{MUTED}">{escaped(text)}</span>'


def title(text: str) -> str:
    """A heading."""
    return f'<strong style="font-size:15px">{escaped(text)}</strong>'


def problem(text: str) -> str:
    """A problem, on its own line."""
    return f'<div style="{_ALARM}">{escaped(text)}</div>'


def warning(text: str) -> str:
    """A warning, on its own line."""
    return f'<div style="{_WARNING}">{escaped(text)}</div>'


AGAIN, JOB_AGAIN = "Show it again", "Show this job again"


def reopen_hint(command: str, words: str = AGAIN) -> str:
    """The command that reopens the live view."""
    return f'<div style="{MUTED};margin-top:8px">{words}: <code>{escaped(command)}</code></div>'


def html_table(titles: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table whose cells are HTML."""
    head = "".join(
        f'<th style="{_CELL};{_SHORT};{MUTED};font-weight:normal">{escaped(text)}</th>' for text in titles
    )
    body = "".join(_row(f'<td style="{_CELL};{_width(cell)}">{cell}</td>' for cell in row) for row in rows)
    return f'<table style="{_TABLE}"><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>'


def _width(cell: str) -> str:
    """The CSS that controls wrapping of a cell."""
    return _LONG if len(html.unescape(_TAG.sub("", cell))) > _MAX_UNWRAPPED else _SHORT


def details_table(facts: Mapping[str, str]) -> str:
    """A table of labelled details."""
    body = "".join(
        _row((f'<th style="{_LABEL}">{escaped(label)}</th>', f'<td style="{_FACT}">{escaped(text)}</td>'))
        for label, text in facts.items()
    )
    return f'<table style="{_TABLE}"><tbody>{body}</tbody></table>'


def plain_table(titles: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table of text in the notebook's own style."""
    head = "".join(f"<th>{escaped(title)}</th>" for title in titles)
    body = "".join(f"<tr>{''.join(f'<td>{escaped(text)}</td>' for text in row)}</tr>" for row in rows)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _row(cells: Iterable[str]) -> str:
    return f'<tr style="background-color:transparent">{"".join(cells)}</tr>'


def text_table(titles: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table as aligned text."""
    lines = [[visible(cell) for cell in row] for row in (titles, *rows)]
    widths = [max(len(line[i]) for line in lines) for i in range(len(titles))]
    cells = ("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)) for line in lines)
    return "\n".join(f"  {line}".rstrip() for line in cells)


def pluralize(count: int, noun: str) -> str:
    """A count with its noun: `1 node`, `2 nodes`."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def escaped(text: str) -> str:
    """Text escaped for HTML."""
    return html.escape(text, quote=True)


@dataclass(frozen=True)
class TableCard:
    """Rows under a heading: the first cell of a row is its name, the second its state, a coloured badge.

    A cell may have a second line, shown muted. `title` is next to the name, `counts` below it; `omitted` is a
    note on rows that are not listed, `sentences` are about several rows.
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
    sentences: Sequence[str] = ()
    reopen_command: str = ""


def table_card_html(card: TableCard) -> str:
    """The card as one self-contained HTML element."""
    label = f"{badge(*card.badge)} &nbsp;" if card.badge else ""
    counts = f'<div style="margin-top:8px">{escaped(card.counts)}</div>' if card.counts else ""
    return frame(
        f"<div>{label}{title(card.name)} &nbsp;{muted(card.title)}</div>{counts}",
        *map(problem, card.problems),
        html_table(card.titles, [_html_row(row, card.colours) for row in card.rows]) if card.rows else "",
        muted(card.omitted),
        *(f"<div>{escaped(sentence)}</div>" for sentence in card.sentences),
        reopen_hint(card.reopen_command) if card.reopen_command else "",
    )


def table_card_text(card: TableCard) -> str:
    """The card as plain text."""
    badge = f"[{card.badge[0]}] " if card.badge else ""
    lines = [f"{badge}{card.name}   {card.title}"]
    if card.counts:
        lines.append(f"  {card.counts}")
    lines += [f"  ! {problem}" for problem in card.problems]
    if card.rows:
        lines.append(text_table(card.titles, card.rows))
    if card.omitted:
        lines.append(f"  {card.omitted}")
    lines += [f"  {sentence}" for sentence in card.sentences]
    if card.reopen_command:
        lines.append(f"{AGAIN}: {card.reopen_command}")
    return "\n".join(lines)


def _html_row(row: Sequence[str], colours: Mapping[str, str]) -> list[str]:
    cells = []
    for index, cell in enumerate(row):
        first, _, second = cell.partition("\n")
        shown = f"<strong>{escaped(first)}</strong>" if index == 0 else escaped(first)
        shown = badge(first, colours[first]) if index == 1 else shown
        cells.append(f"{shown}<br>{muted(second)}" if second else shown)
    return cells
