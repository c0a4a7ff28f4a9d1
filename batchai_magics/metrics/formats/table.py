"""The formats that the parser knows: one table row each.

A row has *literals*, one of which is searched first, a *pattern*, which never crosses a line's end, the
*fields* that it reads with their units, a *sample* as the program prints it, and a reader that makes records
of a match, or none of a near miss. To add a format, add a row to its family's file and say in a test what its
sample gives.

Records of tf_cnn_benchmarks are found wherever they stand, because its processes glue them to each other. All
other formats have a line of their own; the first row that fits reads it: JSON wins over patterns.
"""

from __future__ import annotations

import heapq
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import repeat
from operator import itemgetter
from typing import NamedTuple, TypeVar

from batchai_magics.metrics.formats.caffe import CAFFE
from batchai_magics.metrics.formats.chainer import CHAINER, TABLE_OPENINGS
from batchai_magics.metrics.formats.cntk import CNTK
from batchai_magics.metrics.formats.horovod import HOROVOD
from batchai_magics.metrics.formats.json_lines import DLLOGGER, JSON_LINES
from batchai_magics.metrics.formats.keras import KERAS
from batchai_magics.metrics.formats.key_values import PAIRS, PRINTS
from batchai_magics.metrics.formats.mxnet import MXNET
from batchai_magics.metrics.formats.row import (
    COUNT,
    Format,
    GluedFormat,
    Line,
    LineFormat,
    line_pattern,
    lines_with,
    read_line,
)
from batchai_magics.metrics.formats.step_lines import read_step_lines
from batchai_magics.metrics.formats.tensorflow import TENSORFLOW
from batchai_magics.metrics.formats.tf_cnn_benchmarks import HINTS, OPENINGS, TENSORFLOW_BENCHMARKS
from batchai_magics.metrics.formats.torch import PYTORCH
from batchai_magics.metrics.reading.literals import Gate, stem
from batchai_magics.metrics.reading.view import View
from batchai_magics.metrics.record import ATTEMPT, HeaderRecord, Record


def _read(line: Line, row: LineFormat, match: re.Match[bytes]) -> Iterator[Record]:
    yield HeaderRecord(ATTEMPT, match["attempt"].decode(), line.rank, line.offset)


ATTEMPTS = (
    LineFormat(
        name="attempt",
        literals=(b"[batchai] attempt #",),
        pattern=line_pattern(rb"\[batchai\] attempt (?P<attempt>" + COUNT + rb") begins on [^\r\n]{1,4096}"),
        fields=(),
        sample="[batchai] attempt 2 begins on node2: Slurm took its nodes for another job",
        read=_read,
    ),
)


LINE_FORMATS: tuple[LineFormat, ...] = (
    *ATTEMPTS,
    *JSON_LINES,
    *DLLOGGER,
    *HOROVOD,
    *KERAS,
    *PYTORCH,
    *TENSORFLOW,
    *CNTK,
    *CAFFE,
    *CHAINER,
    *MXNET,
    *PAIRS,
    *PRINTS,
)
FORMATS: tuple[Format, ...] = (*TENSORFLOW_BENCHMARKS, *LINE_FORMATS)

LITERALS = frozenset(literal for row in FORMATS for literal in row.literals)
"""Every record's line has one of these, unless a table is open."""
_LINE_LITERALS = tuple(dict.fromkeys(literal for row in LINE_FORMATS for literal in row.literals))
_LINE_STEMS = tuple(stem(literal) for literal in _LINE_LITERALS)
_OPENINGS = (*OPENINGS, *TABLE_OPENINGS)
_RATE, _EVALUATION = TENSORFLOW_BENCHMARKS[0], TENSORFLOW_BENCHMARKS[1:]
_SOUGHT = (*(row.literal for row in _EVALUATION), *_OPENINGS, *_LINE_LITERALS)
_OPENINGS_BEGIN, _STEMS_BEGIN, _HINTS_BEGIN = len(_EVALUATION), len(_EVALUATION + _OPENINGS), len(_SOUGHT)
_GATE, _HEADER_GATE = Gate(_SOUGHT), Gate((*_SOUGHT, *HINTS))

_Row = TypeVar("_Row")
_Read = Callable[[View, re.Match[bytes]], Record | None]


class Contents(NamedTuple):
    """All that may be in some lines, by a look at their bytes.

    Each line that matters holds one of the `marks`.
    """

    glued: Sequence[GluedFormat]
    stems: Sequence[bytes]  # of the line formats
    hints: Sequence[bytes]  # of the header's lines, in a header
    openings: Sequence[bytes]  # of a header or a table, behind which lines without any mark matter
    marks: Sequence[bytes]


_NOTHING = Contents((), (), (), (), ())
_ONLY_RATE = Contents((_RATE,), (), (), (), (_RATE.literal,))


def look(data: bytes, *, is_in_header: bool = False) -> Contents:
    """Which formats these lines may hold, or which of the header's lines; never misses one."""
    has_rate = _RATE.literal in data  # so usual that it is quickest to search for
    numbers = (_HEADER_GATE if is_in_header else _GATE).open_for(data)
    if not numbers:
        return _ONLY_RATE if has_rate else _NOTHING
    glued = [_RATE] * has_rate + _chosen(_EVALUATION, numbers, begin=0)
    openings = _chosen(_OPENINGS, numbers, begin=_OPENINGS_BEGIN)
    stems = _chosen(_LINE_STEMS, numbers, begin=_STEMS_BEGIN)
    hints = _chosen(HINTS, numbers, begin=_HINTS_BEGIN)
    if is_in_header:
        openings = list(filter(TABLE_OPENINGS.__contains__, openings))
    return Contents(glued, stems, hints, openings, [*(row.literal for row in glued), *stems, *hints])


def _chosen(rows: Sequence[_Row], numbers: Sequence[int], *, begin: int) -> list[_Row]:
    """Those of some rows, the first of which has the number `begin`, that are among the numbers."""
    end = begin + len(rows)
    return [rows[number - begin] for number in numbers if begin <= number < end]


def read_records(view: View, contents: Contents) -> Iterable[Record]:
    """The records in whole lines, from left to right."""
    if contents.stems:
        return _read_mixed(view, contents)
    if contents is _ONLY_RATE and view.line_end is None:
        return read_step_lines(view, _RATE)
    return _read_glued(view, contents)


def _read_glued(view: View, contents: Contents) -> Iterator[Record]:
    for read, match in _matches(contents.glued, view.data):
        record = read(view, match)
        view.done = match.end()
        if record is not None:
            if view.first is None:
                view.first = view.begun
            yield record


def _matches(rows: Sequence[GluedFormat], data: bytes) -> Iterable[tuple[_Read, re.Match[bytes]]]:
    matches = [zip(repeat(row.read), row.pattern.finditer(data)) for row in rows]
    return matches[0] if len(matches) == 1 else heapq.merge(*matches, key=lambda pair: pair[1].start())


def _read_mixed(view: View, contents: Contents) -> Iterator[Record]:
    """Records where lines of other programs stand between those of tf_cnn_benchmarks, or instead of them."""
    lines = ((start, None, None) for start in lines_with(contents.stems, view.data))
    glued = ((match.start(), read, match) for read, match in _matches(contents.glued, view.data))
    for start, read, match in heapq.merge(lines, glued, key=itemgetter(0)):
        if start < view.done:
            continue
        if read is None or match is None:
            yield from _see(view, start, read_line(view, start, LINE_FORMATS))
            continue
        record = read(view, match)
        view.done = match.end()
        if record is not None:
            yield from _see(view, view.begun, [record])


def _see(view: View, begun: int, records: list[Record]) -> list[Record]:
    if records:
        view.first = begun if view.first is None else view.first
    return records
