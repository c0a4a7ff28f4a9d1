"""Lines that tell facts of a run: its attempts, and the parameters in the table of programs."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from functools import partial

from batchai_magics.metrics.formats.line_format import Line, LineFormat, line_pattern
from batchai_magics.metrics.grammar.program_lines import SampleExpression
from batchai_magics.metrics.measurement import ATTEMPT, TOTAL, Fact, Record
from batchai_magics.metrics.programs import PROGRAM_FACTS, ProgramFact

_MODEL, _DATASET, _DEVICE_COUNT = "model", "dataset", "device_count"
_BATCH_SIZE, _PER_DEVICE, _GLOBAL = "batch_size", "batch_size_per_device", "batch_size_global"
_NAMES = {
    "model": _MODEL,
    "model_name": _MODEL,
    "arch": _MODEL,
    "dataset": _DATASET,
    "dataset_name": _DATASET,
    "batch_size": _BATCH_SIZE,
    "train_batch_size": _BATCH_SIZE,
    "batch_size_per_gpu": _PER_DEVICE,
    "batch_size_per_pu": _PER_DEVICE,
    "global_batch_size": _GLOBAL,
    "num_gpus": _DEVICE_COUNT,
    "n_gpus": _DEVICE_COUNT,
    "world_size": _DEVICE_COUNT,
    "device_count": _DEVICE_COUNT,
    TOTAL: TOTAL,
}
_COUNTS = (_BATCH_SIZE, _PER_DEVICE, _GLOBAL, _DEVICE_COUNT)
_COUNT = re.compile(r"\d{1,18}")


def _parameters(line: Line, named_values: Iterable[tuple[str, object]]) -> Iterator[Fact]:
    """The header entries among these named values; other names are ignored."""
    for name, value in named_values:
        key, text = _NAMES.get(name.lower()), str(value).strip()
        if key and text and (key not in _COUNTS or _COUNT.fullmatch(text)):
            yield Fact(key, text, line.rank, line.offset)


def _read_facts(expression: SampleExpression, line: Line, match: re.Match[bytes]) -> Iterator[Record]:
    """The parameters and the numbers on a line of the table."""
    texts = {name: match[group].decode("utf-8", "replace") for name, group in expression.texts}
    if "json" in texts:
        yield from _parameters(line, _members(texts["json"]))
    elif "name" in texts:
        yield from _parameters(line, [(texts["name"], texts["value"])])
    else:
        yield from _parameters(line, texts.items())
    for number in expression.numbers:
        yield line.value(number.name, number.unit, match[number.group])


def _members(text: str) -> Iterable[tuple[str, object]]:
    """The parameters in an object's `data`."""
    try:
        data = json.loads(text)["data"]
    except (ValueError, KeyError, RecursionError):
        return ()
    return data.items() if isinstance(data, dict) else ()


def _format_of(row: ProgramFact) -> LineFormat:
    expression = SampleExpression(row.sample, row.words)
    pattern = line_pattern(expression.source.encode())
    return LineFormat(literals=row.literals, pattern=pattern, read=partial(_read_facts, expression))


def _read_attempt(line: Line, match: re.Match[bytes]) -> Iterator[Record]:
    yield Fact(ATTEMPT, match["attempt"].decode(), line.rank, line.offset)


ATTEMPTS = LineFormat(  # `[batchai] attempt 2 begins on node2: Slurm took its nodes for another job`
    literals=(b"[batchai] attempt ",),
    pattern=line_pattern(rb"\[batchai\] attempt (?P<attempt>\d{1,18}) begins on [^\r\n]{1,4096}"),
    read=_read_attempt,
)
LINE_FORMATS = (ATTEMPTS, *map(_format_of, PROGRAM_FACTS))
