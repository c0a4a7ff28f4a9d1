"""Patterns for what launchers and log collectors put before a message, and the ranks in it.

A *tag* (`[1,3]<stdout>:`) switches the stream: Open MPI adds it to each chunk that it forwards, so it also
occurs in the middle and at the end of lines. A *prefix* (`# `, a timestamp, MPICH's `[3] `) only occurs at
the start of a line.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from batchai_magics.metrics.reading.timestamps import MIN_TIMESTAMP_BYTES, Timestamp, parse_timestamp

_CTIME = rb"[A-Z][a-z]{2} [A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d \d{4}"
_ISO = rb"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d{0,9})?(?:Z|[+-]\d\d:?\d\d)?"

_BRACKET_LABEL = (
    rb"\[(?:default|[Rr]ank ?)?(?P<bracket>\d{1,6})\](?::| )"  # MPICH -l; torchrun --tee; PyTorch
)
_LABEL_BEGIN = (
    rb"(?=\d{1,6}: )",  # srun -l
    rb"\[[A-Za-z][\w.-]{0,60}:(?=\d{1,6}/\d{1,6}\] )",  # a host
    rb"\((?=\d{1,6}/\d{1,6}\) )",  # icefall
)
_NUMBER_LABEL = rb"(?:" + rb"|".join(_LABEL_BEGIN) + rb")(?P<number>\d{1,6})(?:/\d{1,6})?[:\])] "
_DECORATIONS = (
    rb"[ \t>#]",  # pasted and quoted text
    rb"\[" + _ISO + rb"\] \{[^}\n]*\} [A-Z]+ - ",  # Airflow
    _ISO + rb" ",  # kubectl logs --timestamps
    rb"[A-Z]+\|" + _ISO + rb"\|[^|\n]*\|\d+\| ?",  # Kubeflow's TensorFlow launcher
    rb"[\w.-]+ +\| ",  # docker compose
    rb"\[pod/[^\]\n]+\] ",  # kubectl logs --prefix
    rb"\([A-Za-z_][\w.:<>-]{0,80} pid=\d+(?:, ip=[\w.:-]+)?\) ",  # Ray
)
PREFIX = re.compile(
    rb"(?:" + rb"|".join(_DECORATIONS) + rb")*(?:(?:" + _BRACKET_LABEL + rb"|" + _NUMBER_LABEL + rb")[ \t]*)?"
)
"""The prefixes of a line; group `bracket` or `number` holds the rank, if any."""

LABEL = re.compile(rb"(?:" + _BRACKET_LABEL + rb"|(?:\A|\n)" + _NUMBER_LABEL + rb")[ \t]*\Z")
"""A label at the end of the text, directly before a record. Groups as in PREFIX."""

LABELLED_RETURN = re.compile(
    rb"\n(?:" + rb"|".join(_DECORATIONS) + rb")*(?:"
    rb"\[(?:default|[Rr]ank ?)\d{1,6}\](?::| )[^\n\r]*"
    rb"|(?:\[\d{1,6}\](?::| )|(?:" + rb"|".join(_LABEL_BEGIN) + rb")\d{1,6}(?:/\d{1,6})?[:\])] )[ \t]*"
    rb")\r"
)
"""A line whose label stands for all parts of it that carriage returns separate."""

RANK_WORD = re.compile(rb"(?:" + rb"|".join(_DECORATIONS) + rb")*\[(?:default|[Rr]ank ?)\d")
"""The prefixes of a line with a label that can be nothing but a rank."""

_TAG = re.compile(rb"<(std(?:out|err|diag))>:")
_TAG_HEAD = re.compile(
    rb"(?:\[" + _CTIME + rb"\])?(?:" + _CTIME + rb")?"
    rb"(?:\[(?:[^\[\]\s@]{1,64}@)?(?:\d+,)?(?:mpirank:)?(?P<rank>\d{1,6})(?:,[\w.-]+)?\]"
    rb"(?:\[[^\[\]\s]{1,80}:\d+\])?)?\Z"
)
_TAG_HEAD_BYTES = 200


@dataclass(frozen=True, slots=True)
class StreamKey:
    """One output stream of one process, as named by a tag; `rank` is None if the tag has none."""

    rank: int | None
    name: bytes = b"stdout"


@dataclass(frozen=True, slots=True)
class TaggedText:
    """Text of one stream within a line; `key` None means the current stream."""

    key: StreamKey | None
    text: bytes
    timestamp: Timestamp | None = None  # from the tag or the line


def rank_of(match: re.Match[bytes] | None) -> int | None:
    """The rank in a PREFIX or LABEL match, or None."""
    digits = match and (match["bracket"] or match["number"])
    return int(digits) if digits else None


def printed_time(line: bytes) -> Timestamp | None:
    """The time in the prefixes of a line."""
    prefix = PREFIX.match(line)
    return parse_timestamp(prefix[0]) if prefix and prefix.end() >= MIN_TIMESTAMP_BYTES else None


def has_tag(data: bytes) -> bool:
    """Whether the bytes may contain a tag; a cheap test for every block."""
    return b"<" in data and b"<std" in data


def split_tags(line: bytes) -> Iterator[TaggedText]:
    """The text between the tags of a line, in order."""
    key, timestamp, line_timestamp = None, None, None
    start = 0
    for tag in _TAG.finditer(line):
        head = _TAG_HEAD.search(line, max(start, tag.start() - _TAG_HEAD_BYTES), tag.start())
        if head is None or head.start() == tag.start():
            continue  # `<stdout>:` in ordinary text
        text = line[start : head.start()]
        if not start and PREFIX.fullmatch(text):
            line_timestamp = parse_timestamp(text)
        elif text:
            yield TaggedText(key, text, timestamp)
        key = StreamKey(int(head["rank"]) if head["rank"] else None, tag[1])
        timestamp = parse_timestamp(head[0]) or line_timestamp
        start = tag.end()
    yield TaggedText(key, line[start:], timestamp)
