"""Suggests a `--metric` pattern for numbers that no format parses, and warns of unread numbers."""

from __future__ import annotations

import re
import warnings
from bisect import bisect_right
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import accumulate, chain, pairwise
from typing import TYPE_CHECKING, NamedTuple

from batchai_magics.metrics.reading.user_patterns import PatternMismatch, UserPatterns

if TYPE_CHECKING:
    from batchai_magics.metrics.measurement_table import MeasurementTable

MIN_LINES = 3  # lines of one shape with different numbers
_MIN_TRAINING_LINES = 2  # if a word of training or a position is beside them
MAX_SCAN_BYTES = 1 << 20  # of a log
_END_LINES = 5  # of each file of a whole log, which may tell its result
_MAX_SHAPES = 64
_MAX_SKELETONS, _MAX_ALIKE = 1024, 16  # bounds how many lines are searched
_MAX_LINE_BYTES = 300
_NAME = re.compile(r"[^\W\d][\w-]*")
_NAME_BEHIND = re.compile(  # of a number between commas: `, 0.5 loss,`
    r"(?:\A|[ A-Za-z]{0,40},)[ ]{0,20}[-+.\deE]{1,40}[ ](?P<name>[A-Za-z_][\w-]{0,60})[ ]{0,20}(?=[,;|]|\Z)"
)
_ASSIGNED = re.compile(
    rb"(?P<name>[A-Za-z_]\w{0,60})[ ]?[:=][ ]?[-+]?\d*\.\d+(?:[eE][-+]?\d+)?[ ]?%?[.!]?\s*\Z"
)
_NO_NAMES = frozenset(("a", "the", "is", "are", "was", "has", "of", "at", "to", "in", "for", "by"))
_SPECIAL = re.compile(r"([.^$*+?\[\]\\|()])")
_COUNT = re.compile(r"(?<![^\W_])\d+")
_UNQUOTABLE = re.compile(r"['{}]")
_ANY_NUMBER = r"[-+.\deE]+"
_VALUE, _STEP = f"({_ANY_NUMBER})", r"(?P<step>\d+)"
_VALUE_BEFORE_STOP = r"([-+.\deE]*\d)"  # at the end of a sentence
_AT = re.compile(  # what is before a step that is behind its number
    r"(?i)(?:@|#|\b(?:at|after|steps?|epochs?|iterations?|iters?|rounds?|batch|updates?|episodes?))\W{0,4}\Z"
)
_PLACED = re.compile(r"(?i)(?<![a-z])(?:step|epoch|iter|iteration|episode|round)s?\W{0,4}\d")
_TIMED = re.compile(r"(?i)\b(?:time|lr|learning[ _]rate)\W{0,3}\Z")
_FUNCTION = re.compile(r"[A-Za-z_]\w*\(\Z")
_ASSIGNS = re.compile(r"\)[ ]?[:=]")
_TOTAL_RATE = re.compile(rb"(?i)total (?:images|img)/sec")  # which is read as a fact of the run
_SPENT = re.compile(  # beside what looks like a measure and is none
    r"(?i)\btime cost|\bbest\b|copypaste|\bsaved\b"
)


class Suggestion(NamedTuple):
    """A line with unparsed numbers, and the option that would parse one of them."""

    line: str
    option: str

    def __str__(self) -> str:
        return (
            f'The log has numbers that were not recognised as metrics, such as "{self.line}". '
            f"This option reads them: {self.option}"
        )


@dataclass
class _LineShape:
    """Lines that differ only in their numbers: the last ones, and the indices of what changed or fell."""

    numbers: list[bytes]
    changed: set[int] = field(default_factory=set)
    falling: set[int] = field(default_factory=set)
    count: int = 1

    def add(self, numbers: list[bytes]) -> None:
        """Add the numbers of another line."""
        for index, (last, number) in enumerate(zip(self.numbers, numbers, strict=True)):
            if last != number:
                self.changed.add(index)
            if float(number) <= float(last):
                self.falling.add(index)
        self.numbers, self.count = numbers, self.count + 1


def _suggest(lines: Iterable[bytes], known: Collection[str], results: Collection[bytes]) -> Suggestion | None:
    """A suggestion for complete lines that repeat with different numbers; None without such lines.

    `known` are the metrics that were read. If there are any, only qualities of another name are suggested, on
    lines that may be of training. `results` are lines that need no repetition.
    """
    from batchai_magics.metrics.grammar.line_interest import may_matter  # loads RE2

    suggestion, shapes = None, dict[bytes, _LineShape]()
    counts, silent = Counter[bytes](), Counter[bytes]()  # of skeletons
    for line in lines:
        skeleton = line[:_MAX_LINE_BYTES].translate(None, b"0123456789")
        if counts[skeleton] == _MAX_ALIKE or (len(counts) == _MAX_SKELETONS and skeleton not in counts):
            continue
        if silent[skeleton] == _MAX_ALIKE:
            continue
        if known and not may_matter(line):
            if len(silent) < _MAX_SKELETONS or skeleton in silent:
                silent[skeleton] += 1
            continue
        counts[skeleton] += 1
        if len(line) > _MAX_LINE_BYTES:
            continue
        if candidate := _suggestion_for(line, shapes, known, is_result=line in results):
            suggestion, count = candidate
            if count >= MIN_LINES:
                break
    return suggestion


def _assigns_quality(line: bytes) -> bool:
    """Whether a line ends with a quality of the training and its number, as in `finished loss=0.5`."""
    from batchai_magics.metrics.grammar.metric_names import is_excluded, is_quality

    if (match := _ASSIGNED.search(line[-_MAX_LINE_BYTES:])) is None:
        return False
    name = match["name"].decode()
    return is_quality(name) and not is_excluded(name)


def _suggestion_for(
    line: bytes, shapes: dict[bytes, _LineShape], known: Collection[str], *, is_result: bool
) -> tuple[Suggestion, int] | None:
    """The suggestion for a line, and how many lines have its shape; one line is enough for a result."""
    from batchai_magics.metrics.grammar.line_grammar import states_results
    from batchai_magics.metrics.grammar.prefix_grammar import read_prefixes

    prefixes = read_prefixes(line)
    is_result = is_result or states_results(line[: prefixes.end], prefixes.begin)
    line = line[prefixes.begin : prefixes.end]
    numbers = _number().findall(line)
    if not numbers or _TOTAL_RATE.match(line):
        return None
    key = _number().sub(b"#", line).translate(None, b"0123456789")
    shape = shapes.get(key)
    if shape is None:
        shape = _LineShape(numbers)
        if len(shapes) < _MAX_SHAPES:
            shapes[key] = shape
        if not is_result:
            return None
        shape.changed, shape.count = {*range(len(numbers))}, _MIN_TRAINING_LINES
    elif len(shape.numbers) != len(numbers):
        return None
    else:
        shape.add(numbers)
    suggestion = _suggestion(line.decode("utf-8", "replace"), shape, known)
    return suggestion and (suggestion, shape.count)


@cache
def _number() -> re.Pattern[bytes]:
    """An expression for a number on its own; loads the grammar with the first line that is scanned."""
    from batchai_magics.metrics.grammar.number_grammar import PLAIN_NUMBER

    return re.compile(rb"(?<![\w./@-])(?<!\d:)" + PLAIN_NUMBER + rb"(?![\w/@-]|:\S|\.\d)")


def _suggestion(line: str, shape: _LineShape, known: Collection[str]) -> Suggestion | None:
    """The option for the first number that changed and has a name before or behind it."""
    numbers = re.compile(_number().pattern.decode(), re.ASCII)
    spans = [match.span() for match in numbers.finditer(line)]
    if len(spans) != len(shape.numbers) or "\ufffd" in line:
        return None
    for number in sorted(shape.changed, key=lambda index: (_is_timed(line, spans[index][0]), index)):
        begin = spans[number - 1][1] if number else 0
        if behind := _NAME_BEHIND.match(line, begin):
            if _is_unread_metric(behind["name"], line, shape, number, known):
                step = _step_of(line, spans, number, shape)
                return Suggestion(line.strip(), _option_behind(line, spans, number, behind, step))
            continue
        words = _NAME.finditer(line, begin, spans[number][0])
        names = [word for word in words if word[0].lower() not in _NO_NAMES and not _is_argument(word)]
        if not names or not _is_unread_metric(names[-1][0], line, shape, number, known):
            continue
        step = _step_of(line, spans, number, shape)
        return Suggestion(line.strip(), _option(line, spans, number, names[-1], step))
    return None


def _is_timed(line: str, begin: int) -> bool:
    """Whether a time or a learning rate begins here, which is suggested only where nothing else is."""
    return _TIMED.search(line, 0, begin) is not None


def _is_argument(word: re.Match[str]) -> bool:
    """Whether a word is the argument of a function: `x` in `f(x)= 0.5`."""
    before, behind = word.string[: word.start()], word.string[word.end() :]
    return _FUNCTION.search(before) is not None and _ASSIGNS.match(behind) is not None


def _is_unread_metric(name: str, line: str, shape: _LineShape, number: int, known: Collection[str]) -> bool:
    """Whether a number is a metric that was not read."""
    from batchai_magics.metrics.grammar.metric_names import (
        TRAIN,
        is_excluded,
        is_quality,
        is_timer,
        may_be_integer,
        split_phase,
    )
    from batchai_magics.metrics.grammar.plain_lines import plain_line

    name = plain_line(name.encode()).decode().strip()  # in English
    is_of_training = is_quality(name) and not (is_excluded(name) or is_timer(name))
    if known:
        phase, base = split_phase(name)
        ending = (base if phase == TRAIN else name).lower().replace("-", "_")  # a table omits `train_`
        is_read = any(metric.lower().replace("-", "_").endswith(ending) for metric in known)
        if is_read or not is_of_training or _SPENT.search(line):
            return False
    if not (b"." in shape.numbers[number] or (is_of_training and may_be_integer(name))):
        return False
    return shape.count >= (_MIN_TRAINING_LINES if is_of_training or _PLACED.search(line) else MIN_LINES)


def _step_of(line: str, spans: Sequence[tuple[int, int]], number: int, shape: _LineShape) -> int | None:
    """The nearest count before a number that rises from line to line, else one behind it: `0.5 at 10`."""
    behind = (
        index
        for index in range(number + 1, len(spans))
        if _AT.search(line, spans[index - 1][1], spans[index][0])
    )
    rising = (
        index for index in (*reversed(range(number)), *behind) if index in shape.changed - shape.falling
    )
    counts = (index for index in rising if shape.numbers[index].isdigit())
    # one behind a comma is the end of a number with thousands
    return next((index for index in counts if line[spans[index][0] - 1 : spans[index][0]] != ","), None)


def _option(
    line: str, spans: Sequence[tuple[int, int]], number: int, name: re.Match[str], step: int | None
) -> str:
    """The option that parses a number, with its step if there is one."""
    first = number if step is None else min(number, step)
    begin = spans[first - 1][1] if first else 0
    between = line[begin : spans[first][0]]
    words = [name] if first == number else [*_NAME.finditer(line, begin, spans[first][0])]
    label = line[words[-1].start() : spans[first][0]] if words else between.lstrip()
    pattern = _escape(label if line.count(label) == 1 else between.lstrip())
    end = spans[number][1]
    value = _VALUE_BEFORE_STOP if line[end : end + 1] == "." else _VALUE
    if step is None:
        pattern += value
    elif step > number:
        pattern += value + _between(line, spans[number : step + 1]) + _STEP
    else:
        pattern += _STEP + _between(line, spans[step : number + 1]) + value
    metric = name[0].lower().replace("-", "_") if name[0].isascii() else "metric"
    return f"--metric '{metric}={pattern}'"


def _option_behind(
    line: str, spans: Sequence[tuple[int, int]], number: int, name: re.Match[str], step: int | None
) -> str:
    """The option that parses a number whose name is behind it: `10.5 loss, 0.001 LR`."""
    pattern = _VALUE + _escape(line[spans[number][1] : name.end()])
    if step is not None and step < number:
        pattern = _STEP + _between(line, spans[step : number + 1]) + pattern
    return f"--metric '{name['name'].lower()}={pattern}'"


def _between(line: str, spans: Sequence[tuple[int, int]]) -> str:
    """The pattern for the text between the first and the last of these numbers."""
    texts = (_escape(line[end:begin]) for (_, end), (begin, _) in pairwise(spans))
    return _ANY_NUMBER.join(texts)


def _escape(text: str) -> str:
    """The text as an expression, with any digits in place of its numbers.

    Characters that a shell or a notebook would interpret in an option become `.`.
    """
    return _COUNT.sub(r"\\d+", _UNQUOTABLE.sub(".", _SPECIAL.sub(r"\\\1", text)))


class MetricsWarning(UserWarning):
    """A log has numbers that were not read, or a pattern matched what is not a number."""


class LogStart:
    """The first bytes of a log, searched for numbers that were not read."""

    def __init__(self) -> None:
        self.suggestion: Suggestion | None = None
        self._pieces = dict[str, bytearray]()
        self._names, self._ends = set[str](), set[int]()  # names that were read, ends of their lines
        self._size_bytes = self._due_bytes = 0

    def add(self, data: bytes, file: str = "") -> None:
        """Add the next bytes of one of its files."""
        if (free_bytes := MAX_SCAN_BYTES - self._size_bytes) > 0:
            self._pieces.setdefault(file, bytearray()).extend(data[:free_bytes])
            self._size_bytes += len(data[:free_bytes])

    @property
    def is_due(self) -> bool:
        """Whether its bytes have more than doubled since the last search."""
        return self._size_bytes > self._due_bytes

    def note(self, table: MeasurementTable) -> None:
        """Note what was read of a log of one file, so that `search` need not read it again."""
        for lines in table.lines:
            self._names.update(lines.names)
            self._ends.update(lines.offsets[: bisect_right(lines.offsets, MAX_SCAN_BYTES)])

    def search(
        self, names: Collection[str] = (), patterns: Mapping[str, str] = {}, *, is_whole: bool = False
    ) -> None:
        """Search for numbers that were not read, and set `suggestion`.

        Args:
            names: The metrics that were read, here or later in the log.
            patterns: The user's patterns that the log was read with.
            is_whole: Whether the log is complete: a line at its end is then a result and begins no series.
        """
        from batchai_magics.metrics.measurement_table import MeasurementTable
        from batchai_magics.metrics.reading.log_file import LogFile  # loads all formats

        self._due_bytes = 2 * self._size_bytes
        is_whole = is_whole and self._size_bytes < MAX_SCAN_BYTES
        data = b"\n".join([*self._pieces.values(), *([b""] if is_whole else [])])
        noted = self if self._names else LogStart()
        for block in LogFile(None, UserPatterns(patterns)).read(data) if noted is not self else ():
            noted.note(MeasurementTable.of(block))
        known, all_lines = noted._names.union(names), list[bytes]()
        if len(noted._ends) < data.count(b"\n") + data.count(b"\r"):
            all_lines = data[: data.rfind(b"\n") + 1].splitlines(keepends=True)
        lines = [
            line.rstrip(b"\r\n")
            for line, end in zip(all_lines, accumulate(map(len, all_lines)), strict=True)
            if end not in noted._ends and end - 1 not in noted._ends
        ]
        results = set[bytes]()
        if is_whole and not known:
            last = (bytes(piece).splitlines()[-_END_LINES:] for piece in self._pieces.values())
            results = {*filter(_assigns_quality, chain.from_iterable(last))}
        self.suggestion = _suggest(lines, known, results)


def notices_of(
    mismatches: Iterable[PatternMismatch],
    table: MeasurementTable,
    start: LogStart,
    patterns: Mapping[str, str],
    *,
    is_whole: bool = True,
) -> tuple[str, ...]:
    """The notices of a log: `mismatches` of its patterns, and a suggestion for numbers that were not read."""
    start.search(table.names, patterns, is_whole=is_whole)
    notices = tuple(map(str, mismatches))
    return (*notices, str(start.suggestion)) if start.suggestion else notices


def warn_of(notices: Iterable[str]) -> None:
    """Show notices as warnings of the caller's caller."""
    for notice in notices:
        warnings.warn(notice, MetricsWarning, stacklevel=3)
