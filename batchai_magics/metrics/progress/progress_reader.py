"""Reads how far a run is from the ends of what it prints: the newest bar counts, and the newest epoch.

Only the last few kilobytes of each piece are looked at, so that following a log costs the same with it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from batchai_magics.metrics.progress.progress_lines import Sighting, bar_in, count_in, number
from batchai_magics.metrics.reading.lines import without_controls


@dataclass(frozen=True)
class Progress:
    """`fraction` of all that a run has to do, between 0 and 1, and the same in the run's own words.

    `ends` is when it will be done, in seconds since 1970; None where nobody can tell. `is_of_epoch`: all
    this is of the epoch that runs, since the run does not say how many there are.
    """

    fraction: float
    words: str
    ends: float | None = None
    is_of_epoch: bool = False

    @property
    def percent(self) -> int:
        """The fraction in whole percent; 100 only when all is done."""
        return int(self.fraction * 100)

    def left_s(self, now: float) -> float | None:
        """How long it takes from `now` on, in seconds."""
        return None if self.ends is None else max(0.0, self.ends - now)

    def sentence(self, now: float) -> str:
        """It in one line: `45 %, epoch 5/10, 3 min left`."""
        left_s = self.left_s(now)
        left = f"{span(left_s)} left{' in this epoch' * self.is_of_epoch}" if left_s else ""
        return ", ".join(filter(None, (f"{self.percent} %", self.words, left)))

    @property
    def reached(self) -> str:
        """How far it came, of a run that ended there: `step 120/500, 24 %`."""
        return ", ".join(filter(None, (self.words, f"{self.percent} %")))


def span(seconds: float) -> str:
    """A span of time by its two greatest units: `2 h 5 min`, `12 min`, `40 s`."""
    whole = max(0, int(seconds))
    days, hours, minutes = whole // 86_400, whole // 3600 % 24, whole // 60 % 60
    for (much, unit), (more, finer) in (((days, "d"), (hours, "h")), ((hours, "h"), (minutes, "min"))):
        if much:
            return f"{much} {unit} {more} {finer}" if more else f"{much} {unit}"
    return f"{minutes} min" if minutes else f"{whole} s"


BAR_BYTES = 1 << 13  # in which the newest bar is looked for
MOST_LINES = 64
LONGEST_LINE = 1 << 11
EPOCH_BYTES = 1 << 18  # in which the newest epoch is looked for
EPOCH_TRIES = 4
LEAST_SHARE = 0.02  # of the run, after which its own pace tells its end
MOST_OF_EPOCH = 0.95  # behind that, what is left of it tells too little of its length
_EPOCH = b"poch"
_ENDS = re.compile(rb"[\r\n]+")
_MAY_COUNT = re.compile(rb"\d\s*(?:/|of |out of |%)")


@dataclass
class ProgressReader:
    """What the streams of one run have told so far. `began` is when it began, in seconds since 1970.

    Of several ranks, the lowest one that shows anything is believed: `wants` says whose output to feed.
    """

    began: float | None = None
    _open: dict[str, bytes] = field(default_factory=dict)
    _rank: int | None = None
    _epoch: Sighting | None = None
    _bar: Sighting | None = None
    _counts_from_0: bool = False
    _at: float = 0.0
    _epoch_s: float | None = None  # that one epoch takes, as its bar has told
    _first: tuple[float, float] | None = None  # when which fraction was done

    def wants(self, rank: int | None) -> bool:
        """Whether this rank's output may tell anything that counts."""
        return rank is None or self._rank is None or rank <= self._rank

    def feed(self, data: bytes, *, at: float, stream: str = "", rank: int | None = None) -> bool:
        """Takes the next bytes of a stream, written at `at`; whether they told anything."""
        if not self.wants(rank):
            return False
        is_cut = len(data) > EPOCH_BYTES
        text = data[-EPOCH_BYTES:] if is_cut else self._open.pop(stream, b"") + data
        cut = max(text.rfind(b"\n"), text.rfind(b"\r")) + 1
        self._open[stream] = text[cut:][-LONGEST_LINE:]
        is_news = self._take(text, is_cut=is_cut)
        if is_news:
            self._rank, self._at = rank, at
            self._note_pace()
        return is_news

    @property
    def progress(self) -> Progress | None:
        """How far the run is; None while it has told nothing."""
        if self._bar is None and self._epoch is None:
            return None
        words = [self._epoch.epoch.words] if self._epoch and self._epoch.epoch else []
        if self._bar and self._bar.within:
            words.append(self._bar.within.words)
        return Progress(self._fraction, " · ".join(words), self._ends, is_of_epoch=self._is_of_epoch)

    def _take(self, text: bytes, *, is_cut: bool) -> bool:
        epoch_at, epoch = _newest_epoch(text)
        bar_at, bar = _newest_bar(text)
        if epoch:
            self._epoch, self._bar = epoch, epoch if epoch.within else None
            self._counts_from_0 |= epoch.epoch is not None and number(epoch.epoch.done) == 0
        elif is_cut:
            self._epoch = None
        if bar and bar_at > epoch_at:
            self._bar = bar
            self._epoch = _next_if_ended(self._epoch)
        return bool(epoch or bar)

    @property
    def _within(self) -> float | None:
        """How much of its own count the newest bar has done."""
        return self._bar.within.fraction if self._bar and self._bar.within else None

    @property
    def _fraction(self) -> float:
        within = self._within or 0.0
        if self._epoch is None or self._epoch.epoch is None:
            return within
        done, total = number(self._epoch.epoch.done), number(self._epoch.epoch.total)
        done, total = done - self._epoch.is_begun + self._counts_from_0, total + self._counts_from_0
        return min(1.0, max(0.0, (done + within) / total))

    @property
    def _is_of_epoch(self) -> bool:
        """Whether the bar tells of one epoch, of which nobody knows how many there are."""
        within = self._bar.within if self._bar and self._epoch is None else None
        return within is not None and within.noun.lower().startswith("epoch ")

    @property
    def _ends(self) -> float | None:
        """When it will be done: as the bar says where it is of the whole run, else by the pace so far."""
        if self._left_s is not None:
            return self._at + self._left_s
        newest = self._bar or self._epoch
        if self._is_of_all and newest and newest.left_s is not None:
            return self._at + newest.left_s
        return self._end_at_pace

    @property
    def _is_of_all(self) -> bool:
        """Whether what was seen last tells of the whole run, and not of one of its epochs."""
        return self._bar is None or self._epoch is None or self._epoch.epoch is None

    @property
    def _end_at_pace(self) -> float | None:
        """When it will be done if it goes on as it did; None while it did not go on."""
        since, done = self._first or (self._at, self._fraction)
        if self._fraction - done < LEAST_SHARE and self.began is not None:
            since, done = self.began, 0.0
        if self._fraction <= done or self._at <= since:
            return None
        return self._at + (self._at - since) * (1 - self._fraction) / (self._fraction - done)

    @property
    def _left_s(self) -> float | None:
        """How long all epochs take on, where the bar of the one that runs says how long that does."""
        if self._epoch is None or self._epoch.epoch is None or self._epoch_s is None:
            return None
        whole = number(self._epoch.epoch.total) + self._counts_from_0
        return self._epoch_s * whole * (1 - self._fraction)

    def _note_pace(self) -> None:
        within = self._within
        if self._bar and self._bar.left_s is not None and within is not None and within < MOST_OF_EPOCH:
            self._epoch_s = self._bar.left_s / (1 - within)
        if self._first is None or self._fraction < self._first[1]:
            self._first = (self._at, self._fraction)


def _newest_bar(text: bytes) -> tuple[int, Sighting | None]:
    """The last bar or count in a text, and where its line begins."""
    tail = text[-BAR_BYTES:]
    for start, line, is_whole in _lines_back(tail):
        if not _MAY_COUNT.search(line):
            continue
        shown = without_controls(line.decode("utf-8", "replace"))
        seen = bar_in(shown) or (count_in(shown) if is_whole else None)
        if seen and _is_bar(seen):
            return len(text) - len(tail) + start, seen
    return -1, None


def _is_bar(seen: Sighting) -> bool:
    return seen.within is not None and not (seen.epoch and seen.epoch.total)


def _newest_epoch(text: bytes) -> tuple[int, Sighting | None]:
    """The last line that says which of how many epochs it is, and where it begins."""
    end = len(text)
    for _ in range(EPOCH_TRIES):
        at = text.rfind(_EPOCH, 0, end)
        if at < 0:
            break
        start = max(text.rfind(b"\n", 0, at), text.rfind(b"\r", 0, at)) + 1
        ended = _ENDS.search(text, at)
        line = text[start : ended.start() if ended else len(text)][:LONGEST_LINE]
        shown = without_controls(line.decode("utf-8", "replace"))
        seen = bar_in(shown) or (count_in(shown) if ended else None)
        if seen and seen.epoch:
            return start, seen
        end = at
    return -1, None


def _lines_back(text: bytes) -> Iterator[tuple[int, bytes, bool]]:
    """The lines of a text, the last one first: where each begins, and whether it has ended."""
    end, is_whole = len(text), False
    for _ in range(MOST_LINES):
        if end <= 0:
            return
        start = max(text.rfind(b"\n", 0, end), text.rfind(b"\r", 0, end)) + 1
        if start < end and end - start <= LONGEST_LINE:
            yield start, text[start:end], is_whole
        end, is_whole = start - 1, True


def _next_if_ended(epoch: Sighting | None) -> Sighting | None:
    """The epoch that a bar belongs to which comes after the line that told of an epoch's end."""
    if epoch is None or epoch.epoch is None or epoch.is_begun:
        return epoch
    done, total = number(epoch.epoch.done), number(epoch.epoch.total)
    return epoch._replace(epoch=epoch.epoch._replace(done=f"{min(done + 1, total):g}"), is_begun=done < total)
