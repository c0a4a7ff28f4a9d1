"""Tracks how far a run has come: the newest bar or counter and the newest epoch in its output.

Only the last few kilobytes of each chunk are scanned, so the cost of following a log does not grow with it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import lru_cache
from typing import NamedTuple

from batchai_magics.log_lines import state_start
from batchai_magics.metrics.grammar.bar_tokens import bar_count, time_left
from batchai_magics.metrics.grammar.json_objects import message_span
from batchai_magics.metrics.grammar.line_tokens import scan_line
from batchai_magics.metrics.grammar.metric_names import TRAIN, phase_of_word
from batchai_magics.metrics.grammar.parsed_line import LineScan
from batchai_magics.metrics.grammar.plain_lines import plain_line
from batchai_magics.metrics.grammar.position_grammar import Position
from batchai_magics.metrics.grammar.prefix_grammar import read_prefixes
from batchai_magics.metrics.reading.line_splitter import strip_escapes
from batchai_magics.metrics.timestamps import DIGITS_TO_ZERO

BAR_BYTES = 1 << 13  # searched for the newest bar
MAX_LINES = 64
MAX_LINE_BYTES = 1 << 11
MAX_SHAPES = 1 << 10  # of lines without counts that are remembered
EPOCH_BYTES = 1 << 18  # searched for the newest epoch
MAX_EPOCH_CANDIDATES = 4
MIN_PACE_FRACTION = 0.02  # of the run, after which its pace predicts the end
MAX_PACE_FRACTION = 0.95  # of an epoch, after which the time left is too imprecise to predict its length
_EPOCH = b"poch"
_ENDS = re.compile(rb"[\r\n]+")
_MAY_COUNT = re.compile(rb"\d\s*(?:/|of |out of |%)")
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

    @classmethod
    def of(cls, match: re.Match[bytes], noun: str = "") -> Count:
        """The count of a match with groups `done` and `total`, or `percent`."""
        parts = {name: text.decode() for name, text in match.groupdict(b"").items()}
        return cls(parts.get("done") or parts["percent"], parts.get("total", ""), noun)

    @property
    def words(self) -> str:
        """The count as text: `step 30/100`, `total 36.67 %`."""
        share = f"{self.done}/{self.total}" if self.total else f"{self.done} %"
        return f"{self.noun} {share}".strip()

    @property
    def is_of_cells(self) -> bool:
        """Whether it counts a notebook's cells, which are printed when they begin and differ in duration."""
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
    """The counts with a total, or in percent, on a line without escape sequences.

    Empty if its totals are not the run's; None if no line that differs only in digits has any. A line that is
    not whole is searched only for a bar.
    """
    text = plain_line(line)
    if b'{"' in text and (span := message_span(text, read_prefixes(text).begin)):
        text = text[slice(*span)]
    if cells := _CELLS.fullmatch(text.strip()):
        return LineCounts(None, _valid(Count.of(cells, CELL))) if is_whole else None
    bar = bar_count(text)
    if not (bar or is_whole):
        return None
    scan = scan_line(text, read_prefixes(text), is_of_metrics=False)
    left_s = parse_duration(time_left(text, has_bar=bar is not None).decode())
    return _counts_of_bar(scan, *bar, left_s) if bar else _counts_of_positions(scan, left_s)


def _counts_of_bar(scan: LineScan, before: bytes, match: re.Match[bytes], left_s: float | None) -> LineCounts:
    epoch, label = _count_at(scan, _with_total(scan, "epoch")), _stripped(before)
    noun = _stripped(_FIELD_END.split(before)[-1])  # in its field
    if len(noun) > _MAX_LABEL_LENGTH:
        noun = noun[-_MAX_LABEL_LENGTH - 1 :].partition(" ")[2] or noun[-_MAX_LABEL_LENGTH:]
    count = _valid(Count.of(match, noun))
    if count is None:
        return LineCounts()
    if epoch:  # the bar belongs to this epoch
        return LineCounts(epoch, count._replace(noun=""), left_s, is_epoch_start=True)
    if count.total and _BAR_OF_EPOCHS.fullmatch(label):
        return LineCounts(count._replace(noun="epoch"), None, left_s)
    return LineCounts(None, count, left_s, is_of_epoch=label.lower().startswith("epoch "))


def _counts_of_positions(scan: LineScan, left_s: float | None) -> LineCounts | None:
    at_epoch, at_step = _with_total(scan, "epoch"), _with_total(scan, "step")
    epoch, within = _count_at(scan, at_epoch), _count_at(scan, at_step)
    if epoch is None and at_step and (phase_of_word(at_step.phase) or scan.phase or TRAIN) != TRAIN:
        within = None  # validations and tests count their own batches
    if epoch and within is None and (share := _MINIBATCH.search(scan.text)):
        within = _valid(Count.of(share))
    if epoch is None and within is None:
        return LineCounts() if any(position.total for position in scan.positions) else None
    # a line with nothing but an epoch marks its beginning
    is_alone = at_epoch and not scan.numbers and _NOTHING.fullmatch(scan.text, at_epoch.end, scan.end)
    is_begun = within is not None or bool(is_alone)
    return LineCounts(epoch, within, left_s, is_begun, at_step is not None and not at_step.noun)


def _with_total(scan: LineScan, kind: str) -> Position | None:
    """The first position of a kind that has a total.

    One without a word counts only next to numbers or another position, and if no unit follows it.
    """
    for position in scan.positions:
        has_company = bool(scan.numbers) or position is not scan.positions[0]
        counts = position.noun or (has_company and not _COUNTED.match(scan.text, position.end, scan.end))
        if position.kind == kind and position.total and counts:
            return position
    return None


def _count_at(scan: LineScan, position: Position | None) -> Count | None:
    if position is None or position.total is None:
        return None
    done, total = (_stripped(scan.text[slice(*span)]) for span in (position.span, position.total))
    # a counter without a word belongs to an epoch
    epochs = (other.span for other in scan.positions if other.kind == "epoch" and not other.total)
    epoch = next((f"epoch {_stripped(scan.text[slice(*span)])} ·" for span in epochs), "")
    return _valid(Count(done, total, position.noun or epoch)) if total[0].isdigit() else None


def _valid(count: Count) -> Count | None:
    return None if count.fraction is None else count


def _stripped(text: bytes) -> str:
    return text.decode("utf-8", "replace").strip(" :\t")


@dataclass(frozen=True)
class Progress:
    """The completed `fraction` of a run, between 0 and 1, with the run's own description of it.

    `ends_at` is the estimated end in seconds since the epoch; None if unknown. `is_of_epoch`: everything
    refers to the current epoch, because the run does not print the number of epochs.
    """

    fraction: float
    words: str
    ends_at: float | None = None
    is_of_epoch: bool = False

    @property
    def percent(self) -> int:
        """The fraction in whole percent, rounded down."""
        return int(self.fraction * 100)

    def left_s(self, now: float) -> float | None:
        """The estimated seconds left at `now`."""
        return None if self.ends_at is None else max(0.0, self.ends_at - now)

    def sentence(self, now: float) -> str:
        """One line: `45 %, epoch 5/10, 3 min left`."""
        left_s = self.left_s(now)
        remaining = f"{format_duration(left_s)} left{' in this epoch' * self.is_of_epoch}" if left_s else ""
        return ", ".join(filter(None, (f"{self.percent} %", self.words, remaining)))

    @property
    def position_text(self) -> str:
        """How far an ended run came: `step 120/500, 24 %`."""
        return ", ".join(filter(None, (self.words, f"{self.percent} %")))


def format_duration(seconds: float) -> str:
    """A duration in its two largest units: `2 h 5 min`, `12 min`, `40 s`."""
    whole = max(0, int(seconds))
    days, hours, minutes = whole // 86_400, whole // 3600 % 24, whole // 60 % 60
    for (large, unit), (small, subunit) in (((days, "d"), (hours, "h")), ((hours, "h"), (minutes, "min"))):
        if large:
            return f"{large} {unit} {small} {subunit}" if small else f"{large} {unit}"
    return f"{minutes} min" if minutes else f"{whole} s"


@dataclass
class ProgressReader:
    """The progress of one run from its streams. `started_at` is in seconds since the epoch.

    With several ranks, the lowest one that prints progress counts: `wants` says whose output to feed.
    """

    started_at: float | None = None
    _open: dict[str, bytes] = field(default_factory=dict)
    _rank: int | None = None
    _epoch: LineCounts | None = None
    _bar: LineCounts | None = None
    _counts_from_0: bool = False
    _at: float = 0.0
    _epoch_s: float | None = None  # duration of one epoch, from its bar
    _first_fraction: tuple[float, float] | None = None  # (time, fraction) when progress was first seen
    _silent: set[bytes] = field(default_factory=set)  # shapes of lines without counts

    def wants(self, rank: int | None) -> bool:
        """Whether the output of this rank can matter."""
        return rank is None or self._rank is None or rank <= self._rank

    def feed(self, data: bytes, *, at: float, stream: str = "", rank: int | None = None) -> bool:
        """Parse the next bytes of a stream, written at `at`; return whether they contained progress."""
        if not self.wants(rank):
            return False
        is_cut = len(data) > EPOCH_BYTES
        text = data[-EPOCH_BYTES:] if is_cut else self._open.pop(stream, b"") + data
        cut = state_start(text)
        self._open[stream] = text[cut:][-MAX_LINE_BYTES:]
        is_news = self._take(text, is_cut=is_cut)
        if is_news:
            self._rank, self._at = rank, at
            within = self._within
            left_s = self._bar.left_s if self._bar else None
            if left_s is not None and within is not None and within < MAX_PACE_FRACTION:
                self._epoch_s = left_s / (1 - within)
            if self._first_fraction is None or self._fraction < self._first_fraction[1]:
                self._first_fraction = (at, self._fraction)
        return is_news

    @property
    def progress(self) -> Progress | None:
        """The current progress; None until any was printed."""
        if self._bar is None and self._epoch is None:
            return None
        words = [self._epoch.epoch.words] if self._epoch and self._epoch.epoch else []
        if self._bar and self._bar.within:
            words.append(self._bar.within.words)
        is_of_epoch = self._epoch is None and self._bar is not None and self._bar.is_of_epoch
        return Progress(self._fraction, " · ".join(words), self._ends, is_of_epoch=is_of_epoch)

    def _take(self, text: bytes, *, is_cut: bool) -> bool:
        epoch_at, epoch = self._newest_epoch(text)
        bar_at, bar = self._newest_bar(text)
        if epoch:
            self._epoch, self._bar = epoch, epoch if epoch.within else None
            self._counts_from_0 |= epoch.epoch is not None and parse_number(epoch.epoch.done) == 0
        elif is_cut:
            self._epoch = None
        if bar and bar_at > epoch_at:
            self._bar = bar
            last = self._epoch
            if last and last.epoch and not last.is_epoch_start:  # the bar is of the next epoch
                done, total = parse_number(last.epoch.done), parse_number(last.epoch.total)
                count = last.epoch._replace(done=f"{min(done + 1, total):g}")
                self._epoch = last._replace(epoch=count, is_epoch_start=done < total)
        return bool(epoch or bar)

    @property
    def _within(self) -> float | None:
        """The fraction of the newest bar or counter."""
        return self._bar.within.fraction if self._bar and self._bar.within else None

    @property
    def _fraction(self) -> float:
        within = self._within or 0.0
        if self._epoch is None or self._epoch.epoch is None:
            return within
        done, total = parse_number(self._epoch.epoch.done), parse_number(self._epoch.epoch.total)
        done, total = done - self._epoch.is_epoch_start + self._counts_from_0, total + self._counts_from_0
        return min(1.0, max(0.0, (done + within) / total))

    @property
    def _ends(self) -> float | None:
        """The estimated end: from the bar of an epoch or of the whole run, else from the pace so far.

        None without progress, and for the cells of a notebook.
        """
        is_of_run = self._epoch is None or self._epoch.epoch is None
        if self._epoch and self._epoch.epoch and self._epoch_s is not None:
            whole = parse_number(self._epoch.epoch.total) + self._counts_from_0
            return self._at + self._epoch_s * whole * (1 - self._fraction)
        newest = self._bar or self._epoch
        if (self._bar is None or is_of_run) and newest and newest.left_s is not None:
            return self._at + newest.left_s
        if self._bar and self._bar.within and self._bar.within.is_of_cells:
            return None
        since, done = self._first_fraction or (self._at, self._fraction)
        if self._fraction - done < MIN_PACE_FRACTION and self.started_at is not None:
            since, done = self.started_at, 0.0
        if self._fraction <= done or self._at <= since:
            return None
        return self._at + (self._at - since) * (1 - self._fraction) / (self._fraction - done)

    def _newest_bar(self, text: bytes) -> tuple[int, LineCounts | None]:
        """Where the line of the last bar or counter starts, and its counts; -1 and None without one."""
        tail = text[-BAR_BYTES:]
        end, is_whole = len(tail), False
        for _ in range(MAX_LINES):
            start = state_start(tail, end) if end > 0 else end
            line = tail[start:end]
            if len(line) <= MAX_LINE_BYTES and _MAY_COUNT.search(line):
                counts = self._counts_of(line, is_whole=is_whole)
                if counts and counts.within and not (counts.epoch and counts.epoch.total):
                    return len(text) - len(tail) + start, counts
            end, is_whole = start - 1, True
            if end <= 0:
                break
        return -1, None

    def _newest_epoch(self, text: bytes) -> tuple[int, LineCounts | None]:
        """Where the last line with an epoch and its total starts, and its counts; -1 and None without one."""
        end = len(text)
        for _ in range(MAX_EPOCH_CANDIDATES):
            at = text.rfind(_EPOCH, 0, end)
            if at < 0:
                break
            start = state_start(text, at)
            line_end = _ENDS.search(text, at)
            line = text[start : line_end.start() if line_end else len(text)][:MAX_LINE_BYTES]
            counts = self._counts_of(line, is_whole=line_end is not None)
            if counts and counts.epoch:
                return start, counts
            end = at
        return -1, None

    def _counts_of(self, line: bytes, *, is_whole: bool) -> LineCounts | None:
        """The counts on a line; if it has none, later lines that differ only in digits are not searched."""
        shape = line.translate(DIGITS_TO_ZERO)
        if shape in self._silent:
            return None
        counts = counts_of(strip_escapes(line), is_whole=is_whole)
        if counts is None and is_whole:
            if len(self._silent) >= MAX_SHAPES:
                self._silent.clear()
            self._silent.add(shape)
        return counts
