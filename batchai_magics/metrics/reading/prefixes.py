r"""What launchers and log collectors put in front of a line, and the ranks that they tell.

Two kinds. A *tag* (`[1,3]<stdout>:`) switches the stream: Open MPI puts it at the start of each chunk that it
forwards, so it also stands in the middle and at the end of lines. A *prefix* (`# `, a timestamp, MPICH's
`[3] `) only stands at the start of a line.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from batchai_magics.metrics.reading.times import Stamp, stamp_in

_CTIME = rb"[A-Z][a-z]{2} [A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d \d{4}"
_ISO = rb"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d{0,9})?(?:Z|[+-]\d\d:?\d\d)?"

_LABELS = (
    rb"\[(?:default)?(?P<bracket>\d{1,6})\](?::| )[ \t]*",  # MPICH and Intel MPI -l; torchrun --tee
    rb"(?P<number>\d{1,6}): [ \t]*",  # srun -l
)
_DECORATIONS = (
    rb"[ \t>#]",  # pasted and quoted text
    rb"\[" + _ISO + rb"\] \{[^}\n]*\} [A-Z]+ - ",  # Airflow
    _ISO + rb" ",  # kubectl logs --timestamps
    rb"[A-Z]+\|" + _ISO + rb"\|[^|\n]*\|\d+\| ?",  # Kubeflow's TensorFlow launcher
    rb"[\w.-]+ +\| ",  # docker compose
    rb"\[pod/[^\]\n]+\] ",  # kubectl logs --prefix
)
PREFIX = re.compile(rb"(?:" + rb"|".join(_DECORATIONS) + rb")*(?:" + rb"|".join(_LABELS) + rb")?")
"""The prefixes of a line; group `bracket` or `number` is the rank, where one is told."""

LABEL = re.compile(rb"(?:\[(?:default)?(?P<bracket>\d{1,6})\](?::| )|(?:\A|\n)(?P<number>\d{1,6}): )[ \t]*\Z")
"""A label at the end of the text: directly left of a record. Groups as in PREFIX."""

_PLAIN = rb"\[(?:\d{1,18},)?(\d{1,6})\]<(std(?:out|err|diag))>:"
PLAIN_TAG = re.compile(_PLAIN)
"""The usual tag: group 1 is the rank, group 2 the stream's name."""

_TAG = re.compile(rb"<(std(?:out|err|diag))>:")
_TAG_HEAD = re.compile(
    rb"(?:\[" + _CTIME + rb"\])?(?:" + _CTIME + rb")?"
    rb"(?:\[(?:[^\[\]\s@]{1,64}@)?(?:\d+,)?(?:mpirank:)?(?P<rank>\d{1,6})(?:,[\w.-]+)?\]"
    rb"(?:\[[^\[\]\s]{1,80}:\d+\])?)?\Z"
)
_TAG_HEAD_BYTES = 200


@dataclass(frozen=True, slots=True)
class StreamKey:
    """One output stream of one process, as a tag names it; rank None where the tag tells none."""

    rank: int | None
    name: bytes = b"stdout"


class TagPlace(NamedTuple):
    """Where in a line a tag and its rank stand, and the stream that it names."""

    begin: int
    end: int
    rank: slice | None
    name: bytes


@dataclass(frozen=True, slots=True)
class Piece:
    """Text of one stream within a line; `key` None means the stream that was current before."""

    key: StreamKey | None
    text: bytes
    stamp: Stamp | None = None  # of the tag, or of the line


def rank_of(match: re.Match[bytes] | None) -> int | None:
    """The rank that a PREFIX or LABEL match tells, or None."""
    digits = match and (match["bracket"] or match["number"])
    return int(digits) if digits else None


def has_tag(data: bytes) -> bool:
    """Whether the bytes may hold a tag; cheap enough to ask of every block."""
    return b"<" in data and b"<std" in data


def first_tag(line: bytes) -> TagPlace | None:
    """Where the tag at the start of a line stands; None if no tag does, or text stands before it."""
    name = _TAG.search(line)
    head = name and _head_of(line, name.start(), 0)
    if not name or not head or not PREFIX.fullmatch(line, 0, head.start()):
        return None
    rank = slice(*head.span("rank")) if head["rank"] else None
    return TagPlace(head.start(), name.end(), rank, name[1])


def split_tags(line: bytes) -> list[Piece]:
    """The pieces of a line between its tags, in order, without the tags and what stands before the first."""
    plain = PLAIN_TAG.match(line)
    if plain and line.find(b"<std", plain.end()) < 0:
        return [Piece(StreamKey(int(plain[1]), plain[2]), line[plain.end() :])]
    return list(_pieces(line))


def _pieces(line: bytes) -> Iterator[Piece]:
    key, stamp, line_stamp = None, None, None
    start = 0
    for tag in _TAG.finditer(line):
        head = _head_of(line, tag.start(), start)
        if head is None:
            continue  # `<stdout>:` in somebody's text
        text = line[start : head.start()]
        if not start and PREFIX.fullmatch(text):
            line_stamp = stamp_in(text)
        elif text:
            yield Piece(key, text, stamp)
        key = StreamKey(int(head["rank"]) if head["rank"] else None, tag[1])
        stamp = stamp_in(head[0]) or line_stamp
        start = tag.end()
    yield Piece(key, line[start:], stamp)


def _head_of(line: bytes, tag: int, floor: int) -> re.Match[bytes] | None:
    """What stands left of the stream's name in a tag that begins behind `floor`; None if nothing does."""
    head = _TAG_HEAD.search(line, max(floor, tag - _TAG_HEAD_BYTES), tag)
    return head if head and head.start() < tag else None
