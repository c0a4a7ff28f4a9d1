"""Parses progress from one log line: bars (tqdm, Keras, rich, Chainer) and counters such as `step i of n`."""

from __future__ import annotations

import re
from typing import NamedTuple

_SCALES = {"k": 1e3, "K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15}
_SECONDS = (1, 60, 3600)
CELL = "cell"


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


class ProgressLine(NamedTuple):
    """The epoch on a line, the position within it or within the run, and the time left.

    `is_epoch_start`: the line is printed when its epoch starts, not when it ends.
    """

    epoch: Count | None = None
    within: Count | None = None
    left_s: float | None = None
    is_epoch_start: bool = False


def parse_number(text: str) -> float:
    """Parse a number as bars print it: `45`, `45.0M`."""
    scale = _SCALES.get(text[-1:], 1.0)
    return float(text.rstrip("kKMGTP")) * scale


def parse_duration(text: str | None) -> float | None:
    """Parse a duration as bars print it: `01:30`, `1:02:03`, `1 day, 2:03:04`, `12s`; None for `?`."""
    days, _, clock = (text or "").rpartition(", ")
    if not clock[:1].isdigit():
        return None
    if clock.endswith("s"):
        return float(clock[:-1])
    parts = [float(part) for part in reversed(clock.split(":"))]
    whole_days = int(days.split()[0]) if days else 0
    return 86_400 * whole_days + sum(part * unit for part, unit in zip(parts, _SECONDS, strict=False))


MAX_LABEL_LENGTH = 40
_CLOCK = r"(?:\d{1,4} days?, )?\d{1,4}(?::\d\d){1,2}"
_SIZE = r"\d{1,15}(?:\.\d{1,6})?[kKMGTP]?"

# tqdm 4: `{desc}: {percentage}%|{bar}| {n}/{total} [{elapsed}<{remaining}, {rate}{postfix}]`
_TQDM = re.compile(
    rf"(?:^|(?P<label>\S[^|\n]{{0,200}}?): *)\s*(?P<percent>\d{{1,3}})%\|[^|\n]{{0,400}}\| ?"
    rf"(?P<done>{_SIZE})/(?P<total>{_SIZE}) \[(?P<spent>{_CLOCK})<(?P<left>{_CLOCK}|\?)"
)
# Keras 1 and 2: `12/48 [=====>....] - ETA: 2s - loss: …`, finally ` - 1s 5ms/step`
_KERAS_2 = re.compile(
    rf"(?P<done>\d{{1,12}})/(?P<total>\d{{1,12}}) \[[=>.]{{3,}}\](?: - ETA: (?P<left>{_CLOCK}|\d{{1,6}}s))?"
)
# Keras 3: `12/48 ━━━━━━━━ 1:24 714us/step - accuracy: …`
_KERAS_3 = re.compile(
    rf"(?P<done>\d{{1,12}})/(?P<total>\d{{1,12}}) [━╸╺─]{{3,}} (?P<left>{_CLOCK}|\d{{1,6}}s) \S{{1,16}}/step"
)
# rich: `Epoch 0/9 ━━━━╸━━━ 50/100 0:00:01 • 0:00:01 45.0it/s` of Lightning,
# `━━━ 45.0/99.1 MB 12 MB/s eta 0:00:05` of pip, `Working… ━━━━ 45% 0:00:05`
_RICH = re.compile(
    r"(?P<label>[^━\n]{0,200}?)\s*[━╸╺]{3,}[━╸╺ ]*\s"
    rf"(?:(?P<done>{_SIZE})/(?P<total>{_SIZE})|(?P<percent>\d{{1,3}})%)"
    rf"(?:[^\n]{{0,40}}?(?:(?:{_CLOCK}|-:--:--) • |eta )(?P<left>{_CLOCK})|\s(?P<rest>{_CLOCK})\s*$)?"
)
# Chainer's ProgressBar: `     total [###.....] 36.67%`
_CHAINER = re.compile(r"(?P<label>total) \[#*\.*\]\s+(?P<percent>\d{1,3}(?:\.\d{1,4})?)%")

_BAR_EPOCH = re.compile(r"epochs?\b", re.IGNORECASE)
_EPOCH_OF = re.compile(r"epoch\s*(?P<done>\d{1,9})/(?P<total>\d{1,9})$", re.IGNORECASE)
_BARS = (_TQDM, _KERAS_2, _KERAS_3, _RICH, _CHAINER)


def parse_bar(line: str) -> ProgressLine | None:
    """Parse the progress bar on a line without escape sequences; None for a truncated line."""
    for shape in _BARS:
        bar = shape.search(line)
        if bar:
            return _parse_fields({name: text for name, text in bar.groupdict().items() if text is not None})
    return None


def _parse_fields(parts: dict[str, str]) -> ProgressLine | None:
    label = parts.get("label", "").strip(" :\t")
    done, total = parts.get("done") or parts["percent"], parts.get("total", "")
    count = Count(done, total, label[-MAX_LABEL_LENGTH:])
    if count.fraction is None:
        return None
    left_s = parse_duration(parts.get("left") or parts.get("rest"))
    epoch = _epoch_in(label)
    if epoch:  # Lightning's label: the bar belongs to this epoch
        return ProgressLine(epoch, Count(done, total), left_s, True)
    if total and _BAR_EPOCH.fullmatch(label):  # the bar counts epochs
        return ProgressLine(Count(done, total, "epoch"), None, left_s)
    return ProgressLine(None, count, left_s)


def _epoch_in(label: str) -> Count | None:
    named = _EPOCH_OF.search(label)
    epoch = Count(named["done"], named["total"], "epoch") if named else None
    return epoch if epoch and epoch.fraction is not None else None


_OF = r"(?:\s*/\s*|\s+of\s+|\s+out of\s+)"
_BEFORE, _BEHIND = r"(?<![\w/.-])", r"(?![\w/%]|\.\d|-\d)"
_PAIR = rf"[\s:#=]*[\[(]?\s*(?P<done>\d{{1,12}}){_OF}(?P<total>\d{{1,12}}){_BEHIND}[\])]?"
_EPOCH = re.compile(rf"{_BEFORE}epoch{_PAIR}", re.IGNORECASE)
_STEP = re.compile(
    rf"{_BEFORE}(?P<noun>step|iter(?:ation)?|(?:mini)?batch|update|cell){_PAIR}", re.IGNORECASE
)
# PyTorch's examples: `Train Epoch: 3 [640/60000 (1%)]`, `Epoch: [3][ 10/5005]`; torchvision's, MMEngine:
# `Epoch(train) [3]  [ 10/5005]`
_WITHIN = re.compile(
    rf"{_BEFORE}epoch(?:\(\w{{1,10}}\))?:?\s*\[?(?P<epoch>\d{{1,9}})\]?\s*"
    r"\[\s*(?P<done>\d{1,12})/(?P<total>\d{1,12})(?:\s*\(\d{1,3}%\))?\]",
    re.IGNORECASE,
)
# CNTK: `Epoch[ 3 of 160]-Minibatch[ 11- 20, 4.00%]: …`
_CNTK = re.compile(
    r"Epoch\[\s*(?P<done>\d{1,9}) of (?P<total>\d{1,9})\]-"
    r"Minibatch\[\s*\d+-\s*\d+, (?P<percent>\d{1,3}(?:\.\d{1,4})?)%\]"
)
_ETA = re.compile(r"\beta:?\s*((?:\d{1,4} days?, )?\d{1,4}(?::\d\d){1,2})", re.IGNORECASE)
_REST = re.compile(r"[\s\W]*$")


def parse_count(line: str) -> ProgressLine | None:
    """Parse the counter on a complete line."""
    eta = _ETA.search(line)
    left_s = parse_duration(eta[1]) if eta else None
    return _parse_cntk(line) or _parse_pytorch(line, left_s) or _parse_words(line, left_s)


def _parse_cntk(line: str) -> ProgressLine | None:
    pair = _CNTK.search(line)
    if pair is None:
        return None
    epoch, within = Count(pair["done"], pair["total"], "epoch"), Count(pair["percent"], "")
    return (
        None if epoch.fraction is None or within.fraction is None else ProgressLine(epoch, within, None, True)
    )


def _parse_pytorch(line: str, left_s: float | None) -> ProgressLine | None:
    pair = _WITHIN.search(line)
    if pair is None:
        return None
    count = Count(pair["done"], pair["total"], f"epoch {pair['epoch']} ·")
    return ProgressLine(None, count, left_s) if count.fraction is not None else None


def _parse_words(line: str, left_s: float | None) -> ProgressLine | None:
    epoch, step = _EPOCH.search(line), _STEP.search(line)
    counts = _possible(Count(epoch["done"], epoch["total"], "epoch")) if epoch else None
    within = _possible(Count(step["done"], step["total"], step["noun"].lower())) if step else None
    if counts is None and within is None:
        return None
    is_bare = epoch is not None and _REST.match(line, epoch.end()) is not None
    return ProgressLine(counts, within, left_s, is_bare or within is not None)


def _possible(count: Count) -> Count | None:
    return None if count.fraction is None else count
