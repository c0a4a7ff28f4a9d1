"""What a program says about its run in words of its own, told in the terms of tf_cnn_benchmarks' header.

Horovod's examples print `Batch size: 32`, DLLogger `PARAMETER batch_size_per_gpu : 64`. Which of several
processes a bare batch size is for, only the program knows: the summary decides.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from batchai_magics.metrics.formats.row import Line, LineFormat
from batchai_magics.metrics.record import HeaderRecord, Record

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
}
_COUNTS = (_BATCH_SIZE, _PER_DEVICE, _GLOBAL, _DEVICE_COUNT)
_COUNT = re.compile(r"\d{1,18}")


def parameters(line: Line, named_values: Iterable[tuple[str, object]]) -> Iterator[HeaderRecord]:
    """The header entries among these names and values of a line; all others tell nothing about speed."""
    for name, value in named_values:
        key, text = _NAMES.get(name.lower()), str(value).strip()
        if key and text and (key not in _COUNTS or _COUNT.fullmatch(text)):
            yield HeaderRecord(key, text, line.rank, line.offset)


def read_parameters(line: Line, row: LineFormat, match: re.Match[bytes]) -> Iterator[Record]:
    """A header entry for each group of the pattern, which is called as the program's parameter is."""
    groups = match.groupdict().items()
    yield from parameters(line, ((name, value.decode()) for name, value in groups if value is not None))


def read_named_parameter(line: Line, row: LineFormat, match: re.Match[bytes]) -> Iterator[Record]:
    """The header entry of a line that spells out the parameter's name and its value."""
    yield from parameters(line, [(match["name"].decode(), match["value"].decode("utf-8", "replace"))])
