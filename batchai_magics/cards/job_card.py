"""The static card of a job, and the differences of two runs: HTML, the card also as plain text."""

from __future__ import annotations

from batchai_magics.cards import card_parts
from batchai_magics.errors import visible_lines
from batchai_magics.jobs.job_handle import Job
from batchai_magics.jobs.job_overview import JobOverview, job_overview
from batchai_magics.jobs.log_tail import clean_lines
from batchai_magics.jobs.run_diff import SAME, RunDiff

_LOG = (
    "margin:6px 0 0;padding:8px 10px;overflow-x:auto;white-space:pre;"
    "font-size:12px;line-height:1.5;border:1px solid var(--jp-border-color2,#bbb);border-radius:4px;"
    "background-color:var(--jp-layout-color1,transparent);color:var(--jp-content-font-color1,inherit);"
    "font-family:var(--jp-code-font-family,monospace)"
)
_CODE = "margin:8px 0 0;font-family:var(--jp-code-font-family,monospace);font-size:12px;white-space:pre-wrap"
_DIFF_COLOURS = {"+": card_parts.GREEN, "-": card_parts.RED, "@": card_parts.PURPLE}


def job_html(job: Job) -> str:
    """The job as an HTML card."""
    return to_html(job_overview(job))


def to_html(card: JobOverview) -> str:
    """The card as one self-contained HTML element."""
    badge = card_parts.badge(card.job.word, card_parts.JOB_COLOURS[card.job.word])
    return card_parts.frame(
        f"<div>{badge} &nbsp;{card_parts.title(card.job.id.name)} &nbsp;{card_parts.muted(card.title)}</div>",
        card_parts.details_table(card.details),
        *map(card_parts.problem, card.problems),
        *(card_parts.warning(f"Warning: {warning}") for warning in card.warnings),
        _html_log("first failure", list(card.failure_lines)),
        _html_log("last lines", clean_lines(card.lines)),
        card_parts.reopen_hint(card.reopen_command, card_parts.JOB_AGAIN) if card.reopen_command else "",
    )


def to_text(card: JobOverview) -> str:
    """The card as plain text."""
    lines = [f"[{card.job.word}] {card.job.id.name}   {card.title}"]
    details = card.details
    width = max(map(len, details))
    lines += [f"  {label:<{width}}  {value}" for label, value in details.items()]
    lines += [f"  ! {problem}" for problem in card.problems]
    lines += [f"  warning: {warning}" for warning in card.warnings]
    for label, tail in (("first failure", card.failure_lines), ("last lines", clean_lines(card.lines))):
        if tail:
            lines += [f"-- {label} --", *tail]
    if card.reopen_command:
        lines.append(f"{card_parts.JOB_AGAIN}: {card.reopen_command}")
    return visible_lines("\n".join(lines))


def _html_log(label: str, lines: list[str]) -> str:
    if not lines:
        return ""
    text = "\n".join(card_parts.escaped(line) for line in lines)
    return f'<div style="{card_parts.MUTED};margin-top:8px">{label}</div><pre style="{_LOG}">{text}</pre>'


def run_diff_html(diff: RunDiff) -> str:
    """The differences as one self-contained HTML element."""
    one, two = map(card_parts.title, diff.names)
    parts = [f"<div>{one} {card_parts.muted('→')} {two}</div>", *map(card_parts.warning, diff.notes)]
    if diff.code:
        lines = []
        for line in diff.shown_code:
            colour = _DIFF_COLOURS.get(line[:1])
            style = f' style="color:{colour}"' if colour else ""
            lines.append(f"<div{style}>{card_parts.escaped(line) or '&nbsp;'}</div>")
        parts.append(f'<div style="{_CODE}">{"".join(lines)}</div>')
    if diff.rows:
        rows = ([card_parts.muted(row.section), *map(card_parts.escaped, row[1:])] for row in diff.rows)
        parts.append(card_parts.html_table(("", "", *diff.names, ""), rows))
    if not diff.is_different:
        parts.append(f"<div>{SAME}</div>")
    return card_parts.frame(*parts)
