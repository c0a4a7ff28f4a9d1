"""How far a line says that its run is: the counts of its bar and of its positions, and the time left."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple

from batchai_magics.metrics.grammar.bar_tokens import bar_count, time_left
from batchai_magics.metrics.grammar.json_objects import message_span
from batchai_magics.metrics.grammar.line_reading import LineScan
from batchai_magics.metrics.grammar.line_tokens import scan_line
from batchai_magics.metrics.grammar.metric_names import TRAIN, phase_of_word
from batchai_magics.metrics.grammar.plain_lines import plain_line
from batchai_magics.metrics.grammar.position_grammar import Position
from batchai_magics.metrics.grammar.prefix_grammar import read_prefixes

CELL = "cell"
_CELLS = re.compile(rb"cell (?P<done>\d{1,9})/(?P<total>\d{1,9})")  # of a notebook, as its runner prints them
_SCALES = {"k": 1e3, "K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15}
_SECONDS = (1, 60, 3600)
_MAX_LABEL_LENGTH = 40
_KEPT_LINES = 256
_BAR_OF_EPOCHS = re.compile(r"epochs?", re.IGNORECASE)
_NOTHING = re.compile(rb"[\s\W]*")
_FIELD_END = re.compile(rb'[|"]')
_COUNTED = re.compile(  # things that are no steps: `12/80 GiB used`, `95/100 passed`, `3/4 shards loaded`
    rb"[ \t]*(?:[KMGTP]i?B\b|(?i:correct|passed|failed|used)\b"
    rb"|(?<!\])(?!(?i:steps?|it|iters?|iterations?|batch|updates?)\b)"
    rb"[A-Za-z]\w*(?:[ ][A-Za-z]\w*)*[ \t]*(?:[,;|]|\Z))"  # words without a number
)
# CNTK: `Epoch[ 3 of 160]-Minibatch[ 11- 20, 4.00%]: …`
_MINIBATCH = re.compile(rb"Minibatch\[[\d \t-]+, (?P<percent>\d{1,3}(?:\.\d{1,4})?)%\]")


class Count(NamedTuple):
    """`done` out of `total`, as printed, with the unit named by `noun` (may be empty).

    If only a percentage was printed, `done` is in percent and `total` is empty.
    """

    done: str
    total: str
    noun: str = ""

    @property
    def words(self) -> str:
        """The count as text: `step 30/100`, `total 36.67 %`."""
        return (
            f"{self.noun} {self.done}/{self.total}".strip()
            if self.total
            else f"{self.noun} {self.done} %".strip()
        )

    @property
    def is_of_cells(self) -> bool:
        """Whether it counts the cells of a notebook, which are told when they begin and differ in length."""
        return self.noun == CELL

    @property
    def fraction(self) -> float | None:
        """Between 0 and 1; None if the numbers are not a valid fraction."""
        done, total = parse_number(self.done), parse_number(self.total or "100")
        return (done - self.is_of_cells) / total if 0 <= done <= total and total > 0 else None


class LineCounts(NamedTuple):
    """The epoch on a line, the position within it or within the run, and the seconds left.

    `is_epoch_start`: the line is printed when its epoch starts, not when it ends. `is_of_epoch`: the position
    is that within an epoch.
    """

    epoch: Count | None = None
    within: Count | None = None
    left_s: float | None = None
    is_epoch_start: bool = False
    is_of_epoch: bool = False


def parse_number(text: str) -> float:
    """Parse a number as bars print it: `45`, `45.0M`."""
    return float(text.rstrip("kKMGTP").replace(",", "").replace("_", "")) * _SCALES.get(text[-1:], 1.0)


def parse_duration(text: str) -> float | None:
    """Parse a duration as bars print it: `01:30`, `1:02:03`, `1 day, 2:03:04`, `12s`; None for `?`."""
    days, _, clock = text.rpartition(", ")
    if not clock[:1].isdigit():
        return None
    if clock.endswith("s"):
        return float(clock[:-1])
    parts = [float(part) for part in reversed(clock.split(":"))]
    whole_days = int(days.split()[0]) if days else 0
    return 86_400 * whole_days + sum(part * unit for part, unit in zip(parts, _SECONDS, strict=False))


@lru_cache(_KEPT_LINES)  # the newest line is read for its epoch and its bar, and again until it ends
def counts_of(line: bytes, *, is_whole: bool) -> LineCounts | None:
    """The counts on a line without escape sequences, as far as they are part of a whole.

    Empty if its totals are not those of the run; None if lines that differ only in their digits have none. A
    line without an end has no more than a bar.
    """
    text = _message(plain_line(line))
    if cells := _CELLS.fullmatch(text.strip()):
        return LineCounts(None, _valid(_count(cells, CELL))) if is_whole else None
    bar = bar_count(text)
    if not (bar or is_whole):
        return None
    scan = scan_line(text, read_prefixes(text), is_of_metrics=False)
    left_s = parse_duration(time_left(text, has_bar=bar is not None).decode())
    return _counts_of_bar(scan, *bar, left_s) if bar else _counts_of_positions(scan, left_s)


def _message(text: bytes) -> bytes:
    """A line, or the message in its JSON object."""
    span = message_span(text, read_prefixes(text).begin) if b'{"' in text else None
    return text[slice(*span)] if span else text


def _counts_of_bar(scan: LineScan, before: bytes, found: re.Match[bytes], left_s: float | None) -> LineCounts:
    epoch, label = _count_at(scan, _with_total(scan, "epoch")), _stripped(before)
    count = _valid(_count(found, _last_words(before)))
    if count is None:
        return LineCounts()
    if epoch:  # the bar belongs to this epoch
        return LineCounts(epoch, count._replace(noun=""), left_s, is_epoch_start=True)
    if count.total and _BAR_OF_EPOCHS.fullmatch(label):
        return LineCounts(count._replace(noun="epoch"), None, left_s)
    return LineCounts(None, count, left_s, is_of_epoch=label.lower().startswith("epoch "))


def _last_words(before: bytes) -> str:
    """The label of a bar: what stands before it in its field, as far as it is short."""
    label = _stripped(_FIELD_END.split(before)[-1])
    if len(label) <= _MAX_LABEL_LENGTH:
        return label
    return label[-_MAX_LABEL_LENGTH - 1 :].partition(" ")[2] or label[-_MAX_LABEL_LENGTH:]


def _counts_of_positions(scan: LineScan, left_s: float | None) -> LineCounts | None:
    at_epoch, at_step = _with_total(scan, "epoch"), _with_total(scan, "step")
    epoch, within = _count_at(scan, at_epoch), _count_at(scan, at_step)
    if epoch is None and at_step and _is_of_other_phase(scan, at_step):
        within = None
    if epoch and within is None and (share := _MINIBATCH.search(scan.text)):
        within = _valid(_count(share, ""))
    if epoch is None and within is None:
        return LineCounts() if any(each.total for each in scan.positions) else None
    is_begun = within is not None or (at_epoch is not None and _is_alone(scan, at_epoch))
    return LineCounts(epoch, within, left_s, is_begun, at_step is not None and not at_step.noun)


def _is_of_other_phase(scan: LineScan, position: Position) -> bool:
    """Whether a position is one of a validation or a test, which count their own batches."""
    return (phase_of_word(position.phase) or scan.phase or TRAIN) != TRAIN


def _is_alone(scan: LineScan, epoch: Position) -> bool:
    """Whether a line has no more than its epoch, as when that begins."""
    return not scan.numbers and _NOTHING.fullmatch(scan.text, epoch.end, scan.end) is not None


def _with_total(scan: LineScan, kind: str) -> Position | None:
    """The first position of a kind that has a total."""
    of_kind = (each for each in scan.positions if each.kind == kind and each.total)
    return next((each for each in of_kind if each.noun or _is_counter(scan, each)), None)


def _is_counter(scan: LineScan, position: Position) -> bool:
    """Whether a position without a word counts steps: numbers or an epoch are beside it, and no unit."""
    has_company = bool(scan.numbers) or position is not scan.positions[0]
    return has_company and not _COUNTED.match(scan.text, position.end, scan.end)


def _count_at(scan: LineScan, position: Position | None) -> Count | None:
    if position is None or position.total is None:
        return None
    done, total = _text(scan, position.span), _text(scan, position.total)
    return _valid(Count(done, total, position.noun or _epoch_of(scan))) if total[0].isdigit() else None


def _epoch_of(scan: LineScan) -> str:
    """The epoch to which a counter without a word belongs."""
    epoch = next((each for each in scan.positions if each.kind == "epoch" and not each.total), None)
    return f"epoch {_text(scan, epoch.span)} ·" if epoch else ""


def _count(found: re.Match[bytes], noun: str) -> Count:
    parts = {name: text.decode() for name, text in found.groupdict(b"").items()}
    return Count(parts.get("done") or parts["percent"], parts.get("total", ""), noun)


def _valid(count: Count) -> Count | None:
    return None if count.fraction is None else count


def _text(scan: LineScan, span: tuple[int, int]) -> str:
    return _stripped(scan.text[slice(*span)])


def _stripped(text: bytes) -> str:
    return text.decode("utf-8", "replace").strip(" :\t")
