"""Patterns for what launchers and log collectors put before a message, and the ranks in it.

A *tag* (`[1,3]<stdout>:`) switches the stream: Open MPI adds it to each chunk that it forwards, so it also
occurs in the middle and at the end of lines. A *prefix* (`# `, a timestamp, MPICH's `[3] `) only occurs at
the start of a line.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from batchai_magics.metrics.grammar.prefix_grammar import (
    COLLECTOR_PREFIXES,
    HOST_LABELS,
    LABEL_IN_BRACKETS,
    LABEL_WITH_COLON,
    RANK_LABEL,
    any_of,
)
from batchai_magics.metrics.reading.line_splitter import Lines
from batchai_magics.metrics.timestamps import (
    CTIME,
    ISO_TIME,
    MIN_TIMESTAMP_BYTES,
    Timestamp,
    WriteClock,
    parse_timestamp,
    wall_time,
)

_PASTED = rb"[ \t>#]"
_CONTAINER = rb"[\w.-]+ +\| "  # of docker compose, with any name; a column of a table looks the same
_DECORATIONS = any_of((_PASTED, ISO_TIME + rb" ", _CONTAINER, *COLLECTOR_PREFIXES)) + rb"*"
_BARE_IN_BRACKETS = LABEL_IN_BRACKETS + rb"(?::| )"
_BRACKET_LABELS = (RANK_LABEL, _BARE_IN_BRACKETS)
_LABELS_IN_FRONT = (*HOST_LABELS, LABEL_WITH_COLON + rb" ")


def _ranks_of(labels: Iterable[bytes]) -> bytes:
    """An expression for any of these labels, in which the only matching group is the rank."""
    return rb"(?:" + rb"|".join(labels).replace(rb"?P<rank>", b"") + rb")"


PREFIX = re.compile(_DECORATIONS + rb"(?:" + _ranks_of((*_BRACKET_LABELS, *_LABELS_IN_FRONT)) + rb"[ \t]*)?")
"""The prefixes of a line, for `rank_of`."""

LABEL = re.compile(
    rb"(?:" + _ranks_of(_BRACKET_LABELS) + rb"|(?:\A|\n)" + _ranks_of(_LABELS_IN_FRONT) + rb")[ \t]*\Z"
)
"""A label at the end of the text, directly before a record, for `rank_of`."""

_LAST_OF_LABEL = [rb"[ \t:]", *(rb"[A-Za-z _:=/]\d{%d}[\])>]" % count for count in range(1, 7))]
LABEL_AT_RETURN = re.compile(
    rb"\r(?:"
    + rb"|".join(rb"(?<=" + last + rb"\r)" for last in _LAST_OF_LABEL)
    + rb"|"
    + _DECORATIONS
    + any_of((*_BRACKET_LABELS, *_LABELS_IN_FRONT))
    + rb")"
)
"""A carriage return before a label, or behind what may be the end of one."""

LABELLED_RETURN = re.compile(
    rb"\n"
    + _DECORATIONS
    + any_of((RANK_LABEL + rb"[^\n\r]*", any_of((_BARE_IN_BRACKETS, *_LABELS_IN_FRONT)) + rb"[ \t]*"))
    + rb"\r"
)
"""A line whose label applies to all its parts that carriage returns separate."""

RANK_WORD = re.compile(_DECORATIONS + any_of([RANK_LABEL]))
"""The prefixes of a line with a label that is certainly a rank."""

_TAG_TIME = rb"[A-Z][a-z]{2} " + CTIME
_TAG = re.compile(rb"<(std(?:out|err|diag))>:")
_TAG_HEAD = re.compile(
    rb"(?:\[" + _TAG_TIME + rb"\])?(?:" + _TAG_TIME + rb")?"
    rb"(?:\[(?:[^\[\]\s@]{1,64}@)?(?:\d+,)?(?:mpirank:)?(?P<rank>\d{1,6})(?:,[\w.-]+)?\]"
    rb"(?:\[[^\[\]\s]{1,80}:\d+\])?)?\Z"
)
_TAG_HEAD_BYTES = 200


@dataclass(frozen=True, slots=True)
class StreamKey:
    """An output stream of a process, as named by a tag; `rank` is None if the tag has none."""

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
    return int(match[match.lastindex]) if match and match.lastindex else None


def printed_time(line: bytes) -> Timestamp | None:
    """The time in the prefixes of a line; None without one."""
    prefix = PREFIX.match(line)
    return parse_timestamp(prefix[0]) if prefix and prefix.end() >= MIN_TIMESTAMP_BYTES else None


def printed_at(lines: Lines, row: int, clock: WriteClock | None) -> float | None:
    """When a line was printed, by its prefixes, its tag or the clock; None if none of them has a time."""
    stamp = printed_time(lines.texts[row]) or lines.stamp_at(row)
    return wall_time(stamp, clock.at(lines.ends[row]) if clock else None)


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
