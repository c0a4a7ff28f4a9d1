"""The differences of two runs side by side, as HTML."""

from __future__ import annotations

from batchai_magics.cards import card_parts
from batchai_magics.jobs.run_diff import SAME, Difference, RunDiff

_PRE = "margin:8px 0 0;font-family:var(--jp-code-font-family,monospace);font-size:12px;white-space:pre-wrap"
_COLOURS = {"+": card_parts.GREEN, "-": card_parts.RED, "@": card_parts.PURPLE}


def run_diff_html(diff: RunDiff) -> str:
    """The differences as one self-contained HTML element."""
    one, two = map(card_parts.title, diff.names)
    parts = [f"<div>{one} {card_parts.muted('→')} {two}</div>", *map(card_parts.warning, diff.notes)]
    if diff.code:
        parts.append(f'<div style="{_PRE}">{"".join(map(_line, diff.shown_code))}</div>')
    if diff.rows:
        parts.append(card_parts.html_table(("", "", *diff.names, ""), map(_row, diff.rows)))
    if not diff.is_different:
        parts.append(f"<div>{SAME}</div>")
    return card_parts.frame(*parts)


def _line(line: str) -> str:
    colour = _COLOURS.get(line[:1])
    text = card_parts.escaped(line) or "&nbsp;"
    return f'<div style="color:{colour}">{text}</div>' if colour else f"<div>{text}</div>"


def _row(row: Difference) -> list[str]:
    return [card_parts.muted(row.section), *map(card_parts.escaped, row[1:])]
