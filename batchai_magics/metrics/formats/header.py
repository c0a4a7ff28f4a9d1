"""The header block of tf_cnn_benchmarks: what ran, with which batch size, on which devices."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from batchai_magics.metrics.reading.prefixes import LABEL, PREFIX

OPENINGS = (b"TensorFlow:  ", b"Model:  ")
"""A header's first line has one of these."""

_WIDTH = 13  # labels are padded to it
_WINDOW_LINES = (
    4096  # ranks and library messages interleave with the block, and the column header follows late
)

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
"""Every line of a header has one of these."""

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


@dataclass(frozen=True, slots=True)
class Entry:
    """One line of the header: `Model:       resnet50` is key `model`, value `resnet50`."""

    key: str
    value: str


class HeaderWindow:
    """Whether a stream stands in or shortly after a header block: only there lines are searched for it."""

    def __init__(self) -> None:
        self._lines_left = 0

    @property
    def is_open(self) -> bool:
        """Whether the next line may belong to a header."""
        return self._lines_left > 0

    @staticmethod
    def opens_in(data: bytes) -> bool:
        """Whether one of these lines may be the first of a header."""
        return b":  " in data and any(opening in data for opening in OPENINGS)

    def skip(self, lines: int) -> None:
        """Pass lines that have none of the HINTS."""
        self._lines_left = max(0, self._lines_left - lines)

    def read(self, line: bytes) -> list[Entry]:
        """The header entries on one line, more than one where ranks glued theirs together."""
        if not self.is_open and not self.opens_in(line):
            return []
        entries = list(_entries(line)) if any(hint in line for hint in HINTS) else []
        self._lines_left = _WINDOW_LINES if entries else max(0, self._lines_left - 1)
        return entries


def _entries(line: bytes) -> Iterator[Entry]:
    prefix = PREFIX.match(line)
    text = line[prefix.end() :] if prefix else line
    label = _FIRST_LABEL.match(text)
    while label:
        following = _NEXT_LABEL.search(text, label.end())
        value = text[label.end() : following.start() if following else len(text)]
        yield from _labelled(_KEYS[label[1].rstrip(b": ")], value)
        label = following
    yield from _unlabelled(text)


def _labelled(key: str, value: bytes) -> Iterator[Entry]:
    text = _END_OF_BLOCK.split(value, maxsplit=1)[0].rstrip(b"\r\n")
    value = LABEL.sub(b"", text).strip()  # of the next line, glued
    shape = _NUMBERS.get(key)
    number = shape.match(value) if shape else None
    if shape is None or number:
        yield Entry(key, _text(number[0] if number else value))


def _unlabelled(text: bytes) -> Iterator[Entry]:
    for key, pattern in _UNLABELLED:
        match = pattern.match(text) or (pattern.search(text) if key == "batch_size_per_device" else None)
        if match:
            yield Entry(key, _text(match[1].strip()))


def _text(value: bytes) -> str:
    return value.decode("utf-8", "replace")
