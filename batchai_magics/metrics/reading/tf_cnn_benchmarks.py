r"""The lines of tf_cnn_benchmarks (tensorflow/benchmarks, 2017-05 to 2023-10), with tabs, at these widths.

    '%i\timages/sec: %.1f +/- %.1f (jitter = %.1f)\t%.3f[\t%.3f\t%.3f]'    step, rate, …, loss, top 1, top 5
    'total images/sec: %.2f'
    '%i\t%.1f examples/sec'
    'Precision @ 1 = %.4f recall @ 5 = %.4f [%d examples]'                 until 2018-01
    'Accuracy @ 1 = %.4f Accuracy @ 5 = %.4f [%d examples]'                since then

Output of several processes may be joined on one line; the fixed widths determine where each record ends.
Readers check the text to the left of a match, back to the end of the previous record.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import gcd
from typing import NamedTuple

from batchai_magics.metrics.grammar.metric_names import TRAIN, VALIDATION
from batchai_magics.metrics.grammar.parsed_line import LineKind, NamedNumber, ParsedLine
from batchai_magics.metrics.measurement import TOTAL, Fact, Measurement, Record
from batchai_magics.metrics.reading.line_plan import Layout, LineClock, compiled, prefix_expression
from batchai_magics.metrics.reading.prefix_patterns import LABEL, PREFIX, rank_of
from batchai_magics.metrics.reading.timestamps import (
    DIGITS_TO_ZERO,
    MIN_TIMESTAMP_BYTES,
    Timestamp,
    WriteClock,
    parse_timestamp,
    timestamp_slices,
    wall_time,
)

HeaderEntry = tuple[str, str]
"""Key and value of a header line: `Model:       resnet50` is `model`, `resnet50`."""

OPENINGS = (b"TensorFlow:  ", b"Model:  ")
"""Substrings of the first line of a header."""

_WIDTH = 13  # labels are padded to it
_WINDOW_LINES = 4096  # ranks and library messages interleave with the block, and the column header comes late

_KEYS = {
    b"TensorFlow": "tensorflow",
    b"Model": "model",
    b"Dataset": "dataset",
    b"Mode": "mode",
    b"SingleSess": "single_sess",
    b"Batch size": "batch_size_global",
    b"Num batches": "num_batches",
    b"Num epochs": "num_epochs",
    b"Devices": "devices",
    b"NUMA bind": "numa_bind",
    b"Data format": "data_format",
    b"Data type": "data_type",
    b"Layout optimizer": "layout_optimizer",
    b"RewriterConfig": "rewriter_config",
    b"Optimizer": "optimizer",
    b"Variables": "variables",
    b"Use NCCL": "use_nccl",
    b"AllReduce": "all_reduce",
    b"Sync": "sync",
    b"Staged vars": "staged_vars",
    b"Horovod on": "horovod_on",
}
HINTS = (*(key + b": " for key in _KEYS), b" per device", b" per prepocessing group", b"Img/sec")
"""Every header line contains one of these."""

_FIRST_LABEL = re.compile(rb"(" + rb"|".join(_KEYS) + rb"): +")
_NEXT_LABEL = re.compile(rb"(" + rb"|".join((key + b":").ljust(_WIDTH - 1) for key in _KEYS) + rb") ")
_END_OF_BLOCK = re.compile(rb"={10}")
_NUMBERS = {
    "tensorflow": re.compile(rb"\d+\.\d+"),
    "num_batches": re.compile(rb"\d{1,18}"),
    "num_epochs": re.compile(rb"\d+\.\d\d"),
    "batch_size_global": re.compile(rb"(?:\d+(?:\.\d+)?|None)(?= +global)"),
}
_UNLABELLED = (
    ("batch_size_per_device", re.compile(rb" *(\d+(?:\.\d+)?|None) per device")),
    ("batch_group_size", re.compile(rb" *(\d+) batches per prepocessing group")),
    ("columns", re.compile(rb"(Step[ \t]+Img/sec[ \t]+\S.*)", re.DOTALL)),
)


class HeaderWindow:
    """Tracks whether a stream is in or shortly after a header block: only then are header lines parsed."""

    def __init__(self) -> None:
        self._lines_left = 0

    @property
    def is_open(self) -> bool:
        """Whether the next line may belong to a header."""
        return self._lines_left > 0

    @staticmethod
    def opens_in(data: bytes) -> bool:
        """Whether one of these lines may start a header."""
        # A single byte is found in no time, so that most logs are not searched for the rest.
        return any(opening[:1] in data and opening in data for opening in OPENINGS)

    def skip(self, lines: int) -> None:
        """Skip lines that contain none of the HINTS."""
        self._lines_left = max(0, self._lines_left - lines)

    def read(self, line: bytes) -> list[HeaderEntry]:
        """The header entries on one line; several if ranks' lines were joined."""
        if not self.is_open and not self.opens_in(line):
            return []
        entries = list(_entries(line)) if any(hint in line for hint in HINTS) else []
        self._lines_left = _WINDOW_LINES if entries else max(0, self._lines_left - 1)
        return entries


def _entries(line: bytes) -> Iterator[HeaderEntry]:
    prefix = PREFIX.match(line)
    text = line[prefix.end() :] if prefix else line
    label = _FIRST_LABEL.match(text)
    while label:
        following = _NEXT_LABEL.search(text, label.end())
        key, value = _KEYS[label[1].rstrip(b": ")], text[label.end() : following and following.start()]
        value = _END_OF_BLOCK.split(value, maxsplit=1)[0].rstrip(b"\r\n")
        value = LABEL.sub(b"", value).strip()  # label of a joined line
        shape = _NUMBERS.get(key)
        number = shape.match(value) if shape else None
        if shape is None or number:
            yield key, (number[0] if number else value).decode("utf-8", "replace")
        label = following
    for key, pattern in _UNLABELLED:
        found = pattern.match(text) or (pattern.search(text) if key == "batch_size_per_device" else None)
        if found:
            yield key, found[1].strip().decode("utf-8", "replace")


_HEADER_NUMBER = re.compile(rb"(?:TensorFlow: +\d+\.|Num batches: +|Num epochs: +\d+\.)\Z")
_DEFAULT_INTERVAL = 10  # of --display_every, until two steps were seen
MAX_DIGITS = 18

RATE = b"images/sec: "
_ACCURACY = rb"nan|\d\.\d{3}"
_APPENDED = rb"[ \t]+(1\d{9}(?:\.\d{1,9})?)"  # added by some wrappers
_RATE_AND_LOSS = (
    rb"(?P<images_per_sec>\d+\.\d) \+/- (?P<uncertainty>\d+\.\d) \(jitter = (?P<jitter>\d+\.\d)\)[ \t]+"
    rb"(?P<loss>-?(?:nan|inf|\d+\.\d{3}))"
)
_ACCURACIES = rb"[ \t]+(?P<top_1>" + _ACCURACY + rb")[ \t]+(?P<top_5>" + _ACCURACY + rb")"
NUMBERS = re.sub(rb"\?P<\w+>", b"", _RATE_AND_LOSS + rb"(?:" + _ACCURACIES + rb")?")
"""What follows RATE in a step line: rate, uncertainty, jitter, loss, and the accuracies, if any."""

_MAX_PREFIX_BYTES = 200
_LEFT_BYTES = 64  # the longest step and blanks before a rate

_RATE = re.compile(RATE + rb"(?:" + NUMBERS + rb"|(\d+\.\d\d))")
_CUT_ACCURACY = re.compile(
    rb"\t\Z|[ \t]+(?:\d(?:\.\d{0,2})?|na?|(?:\d\.\d{3}|nan)(?:[ \t]+(?:\d(?:\.\d{0,2})?|na?)?)?)\Z"
)
_STARTS_WITH_DIGITS = re.compile(rb"\d+[ \t]+(?:images/sec: |\d+\.\d examples/sec)|\d{4}-\d\d-\d\d")
_APPENDED_TIME = re.compile(_APPENDED + rb"[ \t]*\n")
_EXAMPLES_LEFT = re.compile(rb"(\d{1,18})[ \t]+(\d+\.\d)\Z")


_STEP = rb"(?P<step>[1-9]\d{0,%d})[ \t]+" % (MAX_DIGITS - 1) + RATE + _RATE_AND_LOSS
_TIME = _APPENDED.replace(b"(1", b"(?P<time>1")
_STEP_LINE = re.compile(
    rb"(?P<before>(?s:.*?))" + _STEP + rb"(?:" + _ACCURACIES + rb")?(?:" + _TIME + rb")?[ \t]*\Z"
)


def step_layout(line: bytes) -> tuple[Layout, ParsedLine] | None:
    """How step lines behind the prefixes of this one are read; None if it is no step line alone."""
    # Keeps dense logs as fast as a loop of `re.search`: 1.22 times, without 0.08
    match = _STEP_LINE.match(line)
    if match is None or match.end("before") > _MAX_PREFIX_BYTES or not PREFIX.fullmatch(match["before"]):
        return None
    label = LABEL.search(match["before"])
    names = [name for name in _STEP_NAMES if match[name] is not None]
    numbers = tuple(
        NamedNumber(name, unit, TRAIN, *match.span(name), is_full=True)
        for name, unit in _STEP_NAMES.items()
        if name in names
    )
    rank = label and label.span("bracket" if label["bracket"] else "number")
    begin = match.end("before")
    parts = [_STEP, _ACCURACIES if match["top_1"] else b"", _TIME if match["time"] else b"", rb"[ \t]*"]
    behind = b"".join(parts).replace(rb"\d", b"[0-9]")
    expression = compiled(prefix_expression(line, begin, rank) + behind + b"$")
    places = {name: number - 1 for name, number in expression.groupindex.items()}
    layout = Layout(
        expression,
        tuple(places[name] for name in names),
        step=places["step"],
        rank=-1 if rank is None else 0,
        seconds=places.get("time", -1),
        clock=LineClock(timestamp_slices(line.translate(DIGITS_TO_ZERO), 0, begin)),
    )
    return layout, ParsedLine(
        LineKind.BENCHMARK, match.span("step"), rank=rank, numbers=numbers, prefix_end=begin
    )


_STEP_NAMES = {
    "images_per_sec": "images/sec",
    "uncertainty": "images/sec",
    "jitter": "images/sec",
    "loss": "",
    "top_1": "fraction",
    "top_5": "fraction",
}


@dataclass(slots=True)
class LineCursor:
    """A cursor over a line while records are parsed from it, left to right.

    `data` has its newline, unless that is missing; `line_end` is the offset of its end in the file.
    """

    data: bytes
    rank: int | None  # None: taken from labels
    line_end: int
    cadence: StepCadence
    consumed: int = 0  # end of the last record
    record_start: int = 0  # start of the last record …
    first_record_start: int | None = None  # … and of the first
    clock: WriteClock | None = None  # for a line without a more precise timestamp
    tag_timestamp: Timestamp | None = None  # of the line's tag

    def text_before(self, position: int) -> bytes:
        """The text before a position, back to the last record."""
        return self.data[self.consumed : position]

    def rank_at(self, before: bytes) -> int | None:
        """The stream's rank, else that of a label at the end of `before`."""
        if self.rank is None and before:
            return rank_of(LABEL.search(before))
        return self.rank

    def measurements(
        self, units: Mapping[str, str], numbers: Sequence[bytes | None], before: bytes, at: Measurement
    ) -> list[Measurement]:
        """Those of the numbers with these names and units that are there; `at` has their step and phase."""
        rank, time = self.rank_at(before), self.wall_time(self.record_start)
        at = at._replace(rank=rank, offset=self.line_end, wall_time=time)
        return [
            at._replace(name=name, value=float(number), unit=unit)
            for (name, unit), number in zip(units.items(), numbers, strict=True)
            if number is not None
        ]

    def wall_time(self, position: int) -> float | None:
        """When the line with a record at this position was printed."""
        prefix = PREFIX.match(self.data) if position > MIN_TIMESTAMP_BYTES else None
        is_long = prefix is not None and prefix.end() > MIN_TIMESTAMP_BYTES
        timestamp = parse_timestamp(prefix[0]) if prefix and is_long else None
        timestamp = timestamp or self.tag_timestamp
        if timestamp is None and self.clock is None:
            return None
        return wall_time(timestamp, self.clock.at(self.line_end) if self.clock else None)


class StepCadence:
    """The interval of a stream's step lines, learned while reading: 1, then multiples of one number."""

    def __init__(self) -> None:
        self.num_batches: int | None = None  # from the header
        self.has_accuracy = False  # step lines include accuracies
        self.interval = 0  # greatest common divisor of the steps above 1; 0 until there are any

    def observe(self, steps: Sequence[int | None], *, has_accuracy: bool) -> None:
        """Learn from step lines."""
        if self.interval != 1:
            self.interval = gcd(self.interval, *[step for step in steps if step and step > 1])
        self.has_accuracy = self.has_accuracy or has_accuracy

    def split_step(self, left: bytes) -> tuple[int | None, bytes]:
        """Split the text before a rate into the step at its end and the rest.

        `left` is the text between the previous record and a rate; blanks separate the step from the rate. A
        number alone on its line is the step. After other text, its first digits may belong to that text
        (`TensorFlow:  1.8` and `1` give `1.81`): the longest plausible suffix is the step, after a number of
        the header the shortest.

        Returns:
            The step, or None if no suffix of the digits is plausible, and the text before it.
        """
        text = left.rstrip(b" \t")
        if text.isdigit():
            before, digits = b"", text
        else:
            before = text.rstrip(b"0123456789")
            digits = text[len(before) :]
        if len(text) == len(left) or not 0 < len(digits) <= MAX_DIGITS:
            return None, left
        if not before or PREFIX.fullmatch(before):
            return int(digits) or None, before
        return self._step_after(digits, before), before

    def _step_after(self, digits: bytes, before: bytes) -> int | None:
        """The step at the end of digits that may begin with those of the text before."""
        whole, is_header = int(digits), _HEADER_NUMBER.search(before) is not None
        if before[-1:] in b" \t" and not is_header and 0 < whole <= (self.num_batches or whole):
            return whole
        is_decimal = before[-1:] == b"." and before[-2:-1].isdigit()
        starts = range(1 if is_decimal or is_header else 0, len(digits))
        for start in reversed(starts) if is_header else starts:
            step = int(digits[start:])
            is_due = step == 1 or step % (self.interval or _DEFAULT_INTERVAL) == 0
            if digits[start] != ord("0") and is_due and step <= (self.num_batches or step):
                return step
        return None if is_decimal else whole or None


def _read_rate(cursor: LineCursor, match: re.Match[bytes]) -> Sequence[Record]:
    """A step line with arbitrary text around it; nothing if it is truncated or has no step."""
    *numbers, total = match.groups()
    if total is not None:
        return _read_total(cursor, match)
    (begin, end), has_accuracy, data = match.span(), numbers[-1] is not None, cursor.data
    left = cursor.text_before(begin)
    step, before = cursor.cadence.split_step(left)
    if not step:
        return []
    is_cut = cursor.cadence.has_accuracy or _CUT_ACCURACY.match(data, end)
    if not has_accuracy and is_cut and data.find(b"\n", end) < 0:
        return []
    cursor.record_start = begin - len(left)
    if before:
        cursor.record_start += len(left.rstrip(b" \t")) - len(str(step))
    appended = _APPENDED_TIME.match(data, end)
    cursor.cadence.observe([step], has_accuracy=has_accuracy)
    found = cursor.measurements(_STEP_NAMES, numbers, before, Measurement("", 0, step=step))
    return [each._replace(wall_time=float(appended[1])) for each in found] if appended else found


def _read_total(cursor: LineCursor, match: re.Match[bytes]) -> Sequence[Record]:
    left, data, end = cursor.text_before(match.start()), cursor.data, match.end()
    before = left[: -len(b"total ")]
    # of the fixed width; digits may only follow as part of the next record
    is_whole = not data[end : end + 1].isdigit() or _STARTS_WITH_DIGITS.match(data, end)
    if not left.endswith(b"total ") or before[-1:].isalpha() or not is_whole:
        return []
    cursor.record_start = match.start() - len(b"total ")
    time = cursor.wall_time(cursor.record_start)
    return [Fact(TOTAL, match[7].decode(), cursor.rank_at(before), cursor.line_end, time)]


def _read_examples(cursor: LineCursor, match: re.Match[bytes]) -> Sequence[Record]:
    left = cursor.text_before(match.start())
    examples = _EXAMPLES_LEFT.search(left, max(0, len(left) - _LEFT_BYTES))
    if examples is None:
        return []
    cursor.record_start = match.start() - len(left) + examples.start()
    at = Measurement("", 0, step=int(examples[1]), phase=VALIDATION)
    return cursor.measurements(_EXAMPLES, [examples[2]], left[: examples.start()], at)


def _read_accuracy(cursor: LineCursor, match: re.Match[bytes]) -> Sequence[Record]:
    cursor.record_start = match.start()
    before, at = cursor.text_before(match.start()), Measurement("", 0, phase=VALIDATION)
    return cursor.measurements(_ACCURACY_NAMES, match.groups(), before, at)


_AT_1_AND_5 = rb"%b @ 1 = (nan|\d\.\d{4}) %b @ 5 = (nan|\d\.\d{4}) \[(\d{1,18}) examples\]"
_EXAMPLES = {"eval_examples_per_sec": "examples/sec"}
_ACCURACY_NAMES = {"eval_top_1": "fraction", "eval_top_5": "fraction", "eval_examples": "examples"}


class _Format(NamedTuple):
    """Records that may stand anywhere on a line: their expression has the literal."""

    literal: bytes
    pattern: re.Pattern[bytes]
    read: Callable[[LineCursor, re.Match[bytes]], Sequence[Record]]


_FORMATS = (
    _Format(RATE, _RATE, _read_rate),
    _Format(b" examples/sec", re.compile(rb" examples/sec(?![\w;)])"), _read_examples),
    _Format(b"Accuracy @ 1", re.compile(_AT_1_AND_5 % (b"Accuracy", b"Accuracy")), _read_accuracy),
    _Format(b"Precision @ 1", re.compile(_AT_1_AND_5 % (b"Precision", b"recall")), _read_accuracy),
)
LITERALS = tuple(each.literal for each in _FORMATS)
"""Every record has one of these."""


def read_embedded(cursor: LineCursor) -> list[Record] | None:
    """The records of tf_cnn_benchmarks anywhere on a line, from left to right; None if there are none."""
    matches = [
        (match, row.read)
        for row in _FORMATS
        if row.literal in cursor.data
        for match in row.pattern.finditer(cursor.data)
    ]
    records: list[Record] = []
    for match, read in sorted(matches, key=lambda pair: pair[0].start()):
        if match.start() < cursor.consumed:
            continue
        found = read(cursor, match)
        cursor.consumed = match.end()
        records += found
        if found and cursor.first_record_start is None:
            cursor.first_record_start = cursor.record_start
    return records if matches else None
