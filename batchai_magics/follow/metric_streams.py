"""Parses the metrics of a job from stdout, stderr and the files of its trainer, which belong to one run.

Transformers prints a dict without its step on stdout and draws a bar with the step on stderr, so the files
are read together.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import takewhile
from time import monotonic
from typing import NamedTuple

from batchai_magics.backends.base import Chunk
from batchai_magics.launch.plan import TRAINER_LOG
from batchai_magics.metrics import Parser
from batchai_magics.metrics.measurement import Measurement, Record, lines_of
from batchai_magics.metrics.measurement_table import MeasurementTable
from batchai_magics.metrics.reading.bar_steps import BarCount, BarSteps, UnplacedDict
from batchai_magics.metrics.reading.user_patterns import PatternMismatch
from batchai_magics.metrics.runs.log_records import (
    PrintedNumbers,
    clock_of,
    clock_of_file,
    is_attempt,
    parts_of,
    records_in,
)
from batchai_magics.metrics.runs.mean_rates import is_mean_rate
from batchai_magics.models.job_execution import ERR, OUT

METRICS_FILES = (OUT, ERR, TRAINER_LOG)

MIN_COLUMN_BYTES = 1 << 14  # of one file per chunk: from here, columns are faster
_MAX_KEYS = 1 << 14  # numbers of a stream that are compared with the other's
_MAX_BARS = 1 << 17
_REDRAW_S = 0.5  # both logs are read a few times a second, and what is read together has one time
_HOLD_S = 1.0  # for the bar of a number: an unfinished line is written late, and read at the next poll


class _DelayedNumbers(NamedTuple):
    """Numbers whose step is in the other stream."""

    time: float
    records: list[Measurement]
    since: float  # when they were read, on the clock of the streams


class _FileParser:
    """The parser of a file, and the counts of its bars."""

    def __init__(self, patterns: Mapping[str, str]) -> None:
        self.parser = Parser(patterns)
        self.bars: list[BarCount] = []
        self._keys: deque[object] = deque(maxlen=_MAX_KEYS)
        self._known: set[object] = set()
        self.names: set[str] = set()  # of metrics
        self._tables: deque[MeasurementTable] = deque()  # the last ones, whose keys are not in `_known` yet

    def collect_bars(self) -> None:
        """Take the counts of bars from the parser."""
        self.bars += self.parser.take_bar_counts()
        if len(self.bars) > _MAX_BARS:
            del self.bars[: _MAX_BARS // 2]

    def remember(self, key: object) -> None:
        """Remember a number, so that the other stream does not repeat it."""
        if len(self._keys) == _MAX_KEYS:
            self._known.discard(self._keys[0])
        self._keys.append(key)
        self._known.add(key)

    def remember_table(self, table: MeasurementTable) -> None:
        """Remember the numbers of a table, as soon as the other stream has one to compare."""
        self.names.update(table.names)
        self._tables.append(table)
        while sum(map(len, self._tables)) - len(self._tables[0]) >= _MAX_KEYS:
            self._tables.popleft()

    def has(self, key: object) -> bool:
        """Whether the stream has this number."""
        while self._tables:
            for _, number_key in _with_keys(self._tables.popleft()):
                self.remember(number_key)
        return key in self._known

    def bars_at(self, time: float) -> Sequence[BarCount]:
        """The counts of the bar around this time; without any, the last count before."""
        first = bisect_left(self.bars, time - _REDRAW_S, key=_time)
        end = bisect_right(self.bars, time + _REDRAW_S, key=_time)
        return self.bars[first:end] or self.bars[max(0, first - 1) : first]


class MetricStreams:
    """The parsers of a job's stdout and stderr, and of the files of its trainer.

    1. Each file has its own parser, so that lines of one do not change the meaning of another's.
    2. A number that both files have counts once; so does a name and step that a file of the trainer has.
    3. Numbers without a step, whose bar may be in the other file, are returned by a later `flush`: when the
       bar around their time has been read, or a second has passed.
    """

    def __init__(self, patterns: Mapping[str, str], *, clock: Callable[[], float] = monotonic) -> None:
        self._patterns = patterns
        self._clock = clock
        self._streams = {file: _FileParser(patterns) for file in METRICS_FILES}
        self._numbers = PrintedNumbers()
        self.has_trainer_files = False  # printed numbers are compared with the files'
        self._delayed: list[_DelayedNumbers] = []
        self._steps = BarSteps()

    def feed(self, file: str, chunk: Chunk) -> tuple[Record, ...] | MeasurementTable:
        """Parse the next bytes of a file; return the records that they complete."""
        stream = self._streams[file]
        parsed = parse_metrics(chunk, stream.parser)
        stream.collect_bars()
        unplaced = stream.parser.take_unplaced()
        self.has_trainer_files |= file == TRAINER_LOG
        if not isinstance(parsed, tuple) and not unplaced and not self.has_trainer_files:
            others = self._other_streams(file)
            if all(other.names.isdisjoint(parsed.names) for other in others):
                stream.remember_table(parsed)
                return parsed  # too many to be compared, with nothing to compare them with
        records = parsed if isinstance(parsed, tuple) else tuple(parsed)
        return self._without_delayed(self._new(file, records), unplaced)

    def restart(self, file: str) -> None:
        """Forget a file, which was replaced."""
        self._streams[file] = _FileParser(self._patterns)

    def flush(self, *, is_last: bool = False) -> tuple[Record, ...]:
        """The records that have waited long enough for the other file, or all."""
        latest = max((bar.time for stream in self._streams.values() for bar in stream.bars[-1:]), default=0.0)
        now = self._clock()

        def is_ready(late: _DelayedNumbers) -> bool:
            return is_last or latest >= late.time + _REDRAW_S or now >= late.since + _HOLD_S

        ready = [*takewhile(is_ready, self._delayed)]
        self._delayed = self._delayed[len(ready) :]
        waiting = [(late.records, self._bar_counts(late)) for late in ready if late.records]
        for _, counts in waiting:
            if counts:
                self._steps.learn(*counts)
        placed = list[Record]()
        for records, counts in waiting:
            step = self._steps.likeliest(*counts) if counts else None
            placed += [record._replace(step=step) for record in records]
        return tuple(placed)

    def finish(self) -> tuple[Record, ...]:
        """The records on unterminated lines, and those that waited."""
        late, last = self.flush(is_last=True), list[Record]()
        for file, stream in self._streams.items():
            records = self._new(file, stream.parser.finish())
            last += self._without_delayed(records, stream.parser.take_unplaced())
        return (*late, *last, *self.flush(is_last=True))

    @property
    def mismatches(self) -> Sequence[PatternMismatch]:
        """The first match of each pattern that was not a number."""
        mismatches = [mismatch for stream in self._streams.values() for mismatch in stream.parser.mismatches]
        return [*{mismatch.name: mismatch for mismatch in reversed(mismatches)}.values()]

    def _new(self, file: str, records: Iterable[Record]) -> list[Record]:
        """The records that the other file does not have."""
        if file == TRAINER_LOG:
            return self._numbers.new_logged(records)
        stream, others = self._streams[file], self._other_streams(file)
        new = list[Record]()
        for record, key in _with_keys(records):
            if key is not None and any(other.has(key) for other in others):
                continue
            stream.remember(key)
            if isinstance(record, Measurement):
                stream.names.add(record.name)
            new.append(record)
        return self._numbers.new_printed(new)

    def _other_streams(self, file: str) -> list[_FileParser]:
        return [stream for name, stream in self._streams.items() if name != file]

    def _without_delayed(
        self, records: Sequence[Record], unplaced: Sequence[UnplacedDict]
    ) -> tuple[Record, ...]:
        """The records but the numbers of these dicts, which are delayed until their step is known."""
        if not unplaced:
            return tuple(records)
        since = self._clock()
        delayed = {(late.rank, late.epoch): _DelayedNumbers(late.time, [], since) for late in unplaced}
        undelayed: list[Record] = []
        for record in records:
            numbers = delayed.get((record.rank, record.epoch)) if isinstance(record, Measurement) else None
            if isinstance(record, Measurement) and numbers and record.step is None:
                numbers.records.append(record)
            else:
                undelayed.append(record)
        self._delayed += delayed.values()
        return tuple(undelayed)

    def _bar_counts(self, late: _DelayedNumbers) -> tuple[list[int], float, float | None] | None:
        """The counts of bars around the time of some numbers, the nearest last; their total; the epoch."""
        bars = [bar for stream in self._streams.values() for bar in stream.bars_at(late.time)]
        if not bars:
            return None
        bars.sort(key=lambda bar: -abs(bar.time - late.time))
        return [bar.done for bar in bars], bars[-1].total, late.records[0].epoch


def parse_metrics(chunk: Chunk, parser: Parser) -> tuple[Record, ...] | MeasurementTable:
    """The records of a chunk, with the rank and time of each line."""
    if len(chunk.data) < MIN_COLUMN_BYTES:
        return tuple(records_in(chunk, parser))
    table, clock, parts = MeasurementTable(), clock_of(chunk), list(parts_of(chunk))
    if all(len(part.data) < MIN_COLUMN_BYTES for part in parts):
        return MeasurementTable.of(records_in(chunk, parser))
    for part in parts:
        file = parser.file_of(part.rank)
        own_clock = clock_of_file(clock, file, part, part.end)
        for block in file.read(part.data, offset=part.offset, clock=own_clock):
            table.extend(block)
            if part.rank is None and any(is_attempt(fact) for _, fact in MeasurementTable.of(block).facts):
                table.extend(parser.end_processes())
    return table


def _time(bar: BarCount) -> float:
    return bar.time


def _with_keys(records: Iterable[Record]) -> Iterator[tuple[Record, object]]:
    """Each record with a key that another print of it shares; None for those without a position.

    The key of a mean rate includes all numbers of its line: those of two processes may have some in common.
    """
    every = tuple(records)
    lines = filter(is_mean_rate, lines_of(every))
    mean_rates = {id(number): tuple(other.value for other in line) for line in lines for number in line}
    for record in every:
        key = None
        if isinstance(record, Measurement) and (record.step, record.epoch) != (None, None):
            position = record.step, record.epoch, record.rank
            key = record.name, record.value, *position, mean_rates.get(id(record))
        yield record, key
