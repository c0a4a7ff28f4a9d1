r"""Anybody's lines of `name=number` pairs, at least one of which is a step, an iteration or an epoch.

    'epoch=1 step=100 loss=0.25 lr=0.001'    'step=100, loss=0.25'    'epoch=1; phase=train; loss=0.25'

All of the line must be pairs: what a program says about its options (`step=3 of 7 done`) is no metric.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping

from batchai_magics.metrics.formats.json_lines import JSON_PLACE_KEYS, JSON_STEP_KEYS, JSON_TIME_KEYS
from batchai_magics.metrics.formats.row import COUNT, NUMBER, Field, Line, LineFormat, line_pattern
from batchai_magics.metrics.reading.times import Stamp, moment
from batchai_magics.metrics.record import Record

_NAME = rb"[A-Za-z_][\w./@-]{0,80}"
_PAIRS = rb"(?:" + _NAME + rb"=[^\s=,;|]{1,80}(?:[ \t]{0,8}[,;|][ \t]{0,8}|[ \t]{1,8}|\Z)){2,64}"
_PAIR = re.compile(rb"(" + _NAME + rb")=(" + NUMBER + rb")(%?)(?=[\s,;|]|\Z)")
_TIME = re.compile(rb"\b(?:" + "|".join(JSON_TIME_KEYS).encode() + rb")=([\d.:TZ+-]{9,64})(?=[\s,;|]|\Z)")
_COUNT = re.compile(COUNT)


def _read_pairs(line: Line, row: LineFormat, match: re.Match[bytes]) -> Iterator[Record]:
    pairs = {name.decode(): (number, percent) for name, number, percent in _PAIR.findall(line.text)}
    counts = _counts(pairs)
    step, epoch = _first(counts, JSON_STEP_KEYS), counts.get("epoch")
    if step is None and epoch is None:
        return
    if line.rank is None:
        line.rank = counts.get("rank")
    line.stamp = _stamp(line.text) or line.stamp
    for name in filter(_is_metric, pairs):
        number, percent = pairs[name]
        yield line.value(Field(name, "%" if percent else ""), number, step=step, epoch=epoch)


def _is_metric(name: str) -> bool:
    return name not in JSON_PLACE_KEYS


def _counts(pairs: Mapping[str, tuple[bytes, bytes]]) -> dict[str, int]:
    return {name: int(number) for name, (number, _) in pairs.items() if _COUNT.fullmatch(number)}


def _first(counts: Mapping[str, int], names: Iterable[str]) -> int | None:
    """The first of these counts that is there."""
    return next((counts[name] for name in names if name in counts), None)


def _stamp(text: bytes) -> Stamp | None:
    """The time that a pair tells."""
    time = _TIME.search(text)
    return moment(time[1].decode()) if time else None


PAIRS = (
    LineFormat(
        name="pairs",
        literals=(b"^step=#", b"_step=#", b"iteration=", b"epoch=#"),
        pattern=line_pattern(_PAIRS),
        fields=(),
        sample="epoch=1 step=100 loss=0.25 lr=0.001",
        read=_read_pairs,
    ),
)
