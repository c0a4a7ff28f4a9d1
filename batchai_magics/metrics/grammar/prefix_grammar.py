"""The prefixes of a line, in any number and order: times, levels, loggers, source lines, launchers, ranks."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

from batchai_magics.metrics.grammar.metric_names import is_measure, is_timer, phase_of_word
from batchai_magics.metrics.programs import PROGRAM_PREFIXES
from batchai_magics.metrics.timestamps import ISO_TIME

_CLOCK = rb"\d\d?:\d\d:\d\d(?:[.,]\d{1,9})?"
_DATE = (
    rb"(?:\d{4}[-/.]\d\d[-/.]\d\d|\d{8}(?=[-_ ])"
    rb"|\d\d[-/]\d\d[-/]\d{4}|\d\d[-/]\d\d[-/]\d\d(?=[ T])|\d\d[-/]\d\d(?=[ T])"
    rb"|\d\d-[A-Z][a-z]{2}-\d{2,4}"
    rb"|(?:[A-Z][a-z]{2},? )?\d\d? [A-Z][a-z]{2} \d{4})"
)
_DAY = rb"(?:[A-Z][a-z]{2},? )?[A-Z][a-z]{2} [ \d]?\d"
_BEHIND_DATE = rb"(?:[T ,_-]|, | \| |[ ]{2})"
_ZONE = rb"(?:Z|[ ]?[+-]\d\d:?\d\d|[ ](?:UTC|GMT|\([A-Z]{3,4}\)))?"
_TIME = (  # digits count, not their values: other lines of the skeleton have the same plan
    rb"(?:"
    + (_DAY + _BEHIND_DATE + _CLOCK + _ZONE + rb"(?:(?<!Z) \d{4}(?=[ \[<\]:]))?")
    + rb"|"
    + (rb"(?:" + _DATE + _BEHIND_DATE + rb")?" + _CLOCK + _ZONE)
    + rb")(?:[ ][AP]M\b)?"
)
_LEVEL = rb"(?i:DEBUG|INFO|WARNING|WARN|NOTICE|TRACE|SUCCESS)"
_SOURCE = rb"[\w./<>+-]{1,120}\.(?:py|cc|cpp|cu|ipynb|rs|go)(?::[ ]{1,3}\d+(?=:)|\(\d+\)(?=:)|(?::\w+){0,2})"

_DECORATION = re.compile(rb"[ \t>#|*=~\xe2\x80\xa2-]+")
_RANK_WORD = rb"(?i:default|local[ _]?rank|rank|gpu|device|worker|process|proc|cuda)"
_POSITION = rb"(?i:(?:global_)?step|epoch|ep|iter|iteration|it|batch|update|episode)"


def any_of(expressions: Iterable[bytes]) -> bytes:
    """An expression for any of these, without capturing groups."""
    return rb"(?:" + re.sub(rb"\?P<\w+>", b"?:", rb"|".join(expressions)) + rb")"


COLLECTOR_PREFIXES = (
    rb"\[" + ISO_TIME + rb"\] \{[^}\n]*\} [A-Z]+ -(?= )",  # Airflow
    rb"[A-Z]+\|" + ISO_TIME + rb"\|[^|\n]*\|\d+\|",  # Kubeflow's TensorFlow launcher
    rb"\[pod/[^\]\s]+\]",  # kubectl logs --prefix
    rb"\([A-Za-z_][\w.:<>-]* pid=\d+(?:, ip=[\w.:-]+)?\)",  # Ray
)
"""What collectors of logs put before lines, and before the labels of ranks."""

RANK_LABEL = rb"[\[(<]" + _RANK_WORD + rb"[ _:=]{0,2}(?P<rank>\d{1,6})(?:/\d{1,6})?[\])>]:?"
"""A label with a word for a rank, as of torchrun --tee; certainly a rank."""

HOST_LABELS = (
    rb"\[[A-Za-z][\w.-]*:(?P<rank>\d{1,6})/\d{1,6}\]:?",  # host:rank/size
    rb"(?<!\])\((?P<rank>\d{1,6})/\d{1,6}\)(?=[ \t])(?![ ](?:LR|Data|Batch|Time):)",  # icefall
)
"""Labels with a rank and how many there are, which launchers put before a line."""

LABEL_IN_BRACKETS = rb"\[(?P<rank>\d{1,6})\]"  # MPICH -l
LABEL_WITH_COLON = rb"(?P<rank>\d{1,6}):"  # srun -l
"""Bare numbers, which may also be a position."""

_ELEMENTS = tuple(
    re.compile(pattern)
    for pattern in (
        *(row.expression for row in PROGRAM_PREFIXES),
        *COLLECTOR_PREFIXES,
        RANK_LABEL,
        *HOST_LABELS,
        rb"[IWEF]\d{4,8} " + _CLOCK + rb" +\d+ (?:[\w.-]+ )?[\w./-]+:\d+\]",  # glog and absl
        rb"\[\d{1,18},(?:mpirank:)?(?P<rank>\d{1,6})(?:,[\w.-]+)?\]<std\w+>:",  # on a line as it is shown
        rb"\[[a-z]\w{0,30}\|(?P<rank>\d{1,6})\]:",  # torchx
        rb"cuda:(?P<rank>\d{1,6})(?=[ ]\|)",
        rb"(?i:rank)[ _:=-]{0,2}(?P<rank>\d{1,6})(?:/\d{1,6})?(?:\]|:|,|[ \t]+\||[ \t]-)(?=[ \t])",
        rb"(?i:gpu|proc|process)[ _]?(?P<rank>\d{1,6}):(?=[ \t])",
        _RANK_WORD
        + rb"[ _:=#]{0,2}(?P<rank>\d{1,6})(?:/\d{1,6})?[:,]?(?=[ \t]+(?:[|-][ \t]+)?"
        + _POSITION
        + rb"[ :=#\[]{1,9}\d)",
        rb"\(pid=[\w.-]+(?:, ip=[\w.:-]+)?\)",
        rb"[A-Za-z][\w.-]* +\|(?= )(?<=\d \|)|[a-z][\w.-]*-\d+ +\|(?= )"
        rb"|algo-\d+-\w+ +\|(?= )",  # docker compose
        rb"[^\t\n]{1,80}\t[^\t\n]{1,80}\t(?=\d{4}-\d\d-\d\dT[\d:.]{8,18}Z[ ])",  # GitHub: job and step
        rb"\[(?![^\]]*\b(?:step|epoch|iter)\w*[=:])(?:"
        + _LEVEL
        + rb"\|)?[^\[\]\n]{0,60}?"
        + _TIME
        + rb"[^\[\]\n]{0,100}\]:?",
        rb"\(" + _TIME + rb"\)",
        rb"(?<![\s\S])[IWD](?=[ ][A-Z][a-z]+(?:ing|ation)[ ])",  # a level, as in `I Training of Epoch 3`
        rb"\{[\w./-]+\.py:\d+\}",
        rb"\[[ \t]*" + _LEVEL + rb"[ \t]*\]:?",
        rb"\[" + _LEVEL + rb"\|[^\[\]\n]{1,80}\]:?",
        rb"[(<]" + _LEVEL + rb"[)>]",
        rb"(?P<level>" + _LEVEL + rb")(?::[\w.-]*:|:|(?=[ \t]|\Z))",
        rb"[A-Z][a-z]{2,10}: (?=\d{4}-\d\d-\d\d \d\d:\d\d:\d\d)",  # a word before a time
        _TIME + rb"(?::(?=[ \t])|-(?=[A-Z\[])|(?=[ \t]|\[|\Z))",
        rb"\d{4}-\d\d-\d\d \d\d:\d\d\.\d\d(?=[ ]\[)",
        rb"\d\d? [A-Z][a-z]{2} \d\d:\d\d(?::\d\d)?(?=[ \t]{1,8}" + _LEVEL + rb"\b)",
        rb"(?P<rank>\d{1,6})(?=[ ]-[ ][A-Za-z_]\w*(?:\.\w+)*[ ]-[ ])",  # a process, behind a time
        rb"(?<=\d\])\[\d{5,7}\](?=[ ])",  # a process, behind a time
        rb"\[?\d{10}(?:\.\d{1,9})?\]?:?(?=[ \t])",  # seconds since the epoch
        rb"[\[({][ ]*" + _SOURCE + rb"(?: \(\d+\))?[\])}]:?",
        rb"(?:[\w./-]{1,120}\.py)?\[line:[ ]?\d+\]:?",
        rb"(?<=\])\([A-Za-z_]\w*(?:\.\w+)+\)(?=[ ]-[ ])",  # a logger, behind a level
        _SOURCE + rb"(?:[:\]]?(?=[ \t])(?! in \w+ --)|[ ]in[ ]\w+[ ]--(?=[ ]))",
        rb"[A-Za-z_]\w*(?:\.\w+)+(?=[ \t]+-[ \t])",  # a module
        rb"\[[\w.]+\](?=\[" + _LEVEL + rb"\])",  # Hydra
        rb"[\w.-]+ [\w./-]+\[\d+\]:(?=[ \t])",  # syslog
        rb"\(\w*Process(?:-\d+)?\)(?=[ \t])",
        rb"(?:stdout|stderr) [FP](?=[ ])",  # containerd
        rb"\((?!" + _POSITION + rb"[: ])[\w./]+[: ]\d+\):?",
        rb"\[\d+\]:(?=[ \t])(?<=\w\[\d\]:)",
    )
)
_ANY_ELEMENT = re.compile(
    any_of(element.pattern for element in _ELEMENTS)
)  # so that one search suffices where none matches
_BRACKET_LABEL = re.compile(LABEL_IN_BRACKETS + rb"(?::| |(?=[A-Z]))(?=[ \t]*\S)")
_NUMBER_LABEL = re.compile(LABEL_WITH_COLON + rb" ")
NUMBER_IN_FRONT = re.compile(rb" {0,3}(?:\[(?=\d{1,6}\])|(?=\d{1,6}:))(?P<rank>\d{1,6})[\]:] ")
"""A number in front, as printed by `srun -l` and `mpiexec -l`, or by some programs as a position."""
_NAMED = re.compile(rb"(?P<name>[A-Za-z_][\w./-]*)\$?(?:(?::[\w<>.]+)*:\d+(?=[ \t])|\[\d+\]:(?=[ \t]))")
_LOGGER = re.compile(
    rb"(?P<name>[A-Za-z_][\w./\\]*\.log(?=[ ]-[ ])|[A-Za-z_][\w.-]*(?=[ ]\d{4}-\d\d-\d\d[ T]\d)"
    rb"|[A-Za-z_][\w.]*(?:-[\w.]+)+(?=:[ \t][A-Za-z])"
    rb"|[A-Za-z_][\w.]*(?=[ \t]+(?:-|\|)[ \t]|[ \t]*:[ \t](?=[^\s\[]))|[A-Za-z_][\w.-]*(?:[ ][a-z]+)?"
    + rb"(?=[ \t]+(?:-[ \t]+)?"
    + _LEVEL
    + rb"\b))"
)
_CALLER = re.compile(rb"(?P<name>[A-Za-z_][\w.]{0,40}):(?=[ \t]+" + _POSITION + rb"s?[ :=#\[(]{1,9}\d)")
_BEHAVIOR = re.compile(rb"(?P<name>[A-Za-z_]\w{0,60})\.(?=[ ]" + _POSITION + rb"s?:[ ]\d)")
_HOST = re.compile(rb"(?P<name>[A-Za-z][\w.-]*\d):(?= |\[)")
_TAGGED = re.compile(rb"[\[<](?P<name>[A-Za-z][\w .:/@-]{0,60})[\]>]:?(?=[ \t\[]|\Z|[A-Z])(?!\[\d+\][A-Z])")
_OF_METRICS = re.compile(rb"(?i)(?:train|val|valid|eval|test)_(?:metrics?|results?|stats)")
_POSITION_WORD = re.compile(
    rb"(?i)(?<![a-z])(?:global_)?(?:steps?|iters?|iterations?|epochs?|batch|updates?|episode|ep|it)"
    rb"(?![a-z])(?:_i\Z)?[ :=_]*(?:\d|\Z)"
)
_TAIL = re.compile(rb"(?:[ \t]{2,}[\w./]+\.py:\d+|[ \t]+\[repeated \d+x across cluster\][^\n]*)?[ \t\r]*\Z")
_SEPARATOR = re.compile(rb"[ \t]*(?:(?:-|\||::?|>>|--)(?=[ \t]))?[ \t]*")


_TRAINED = re.compile(
    rb"(?P<name>[A-Za-z][\w.+/-]{0,40}(?:[ ][\w.+/-]{1,20}){0,2}?(?:[ ]?[|:,]|[ ]-)"
    rb"|[A-Za-z][\w.+/-]{0,40}?(?:\d|[A-Z]{2})[\w.+/-]{0,40})[ \t]+(?=(?i:update|round|"
    + _POSITION
    + rb")[ :=#\[]{1,9}\d)"
)
_IS_EVENT = re.compile(
    r"(?!.*(?:training|tuning|learning)$).*(?:ing|ed)|best|worst|new|last|previous|checkpoint|ckpt|resume|restore|load"
    r"|save|early|stop|from|config|args|python3?|total|error|warning"
)


_ROW_SEPARATOR = re.compile(rb" ?(?:- )?")


class Prefixes(NamedTuple):
    """Where the message begins and ends, and what its prefixes contain.

    `rank` is the span of the rank's digits; `label` the span of a bare number in front, which is a rank or a
    position. `has_origin`: the prefixes include a time, a level or a source. `name_begin` is where the name
    right before the message begins, a logger's or the message's first word: `INFO: Model: resnet50`.
    """

    begin: int
    end: int
    rank: tuple[int, int] | None = None
    label: tuple[int, int] | None = None
    label_begin: int = 0
    phase: str | None = None
    has_origin: bool = False
    name_begin: int | None = None

    @property
    def rank_or_label(self) -> tuple[int, int] | None:
        """The span of the rank's digits; without a rank, of a bare number in front."""
        return self.rank or self.label


def read_prefixes(text: bytes, *, are_labels_ranks: bool = False) -> Prefixes:
    """Read the prefixes of a line without its end; with `are_labels_ranks`, a number in front is a rank."""
    at, rank, label, label_begin, phase, has_origin, name_begin = 0, None, None, 0, None, False, None
    end = len(text.rstrip(b" \t\r"))
    if (b".py:" in text or b"[repeated " in text) and (tail := _TAIL.search(text)):
        end = tail.start()
    if are_labels_ranks and (match := NUMBER_IN_FRONT.match(text)):
        rank, at = match.span("rank"), match.end()
    while at < end:
        decoration = _DECORATION.match(text, at)
        if decoration:
            at = decoration.end()
        begin, match = at, _element_at(text, at)
        if match is not None:
            name_begin = None
            groups = match.groupdict()
            if groups.get("rank"):
                rank = match.span("rank")
            else:
                has_origin = True
                rank, label = rank or label, None  # a position has no time or level behind it
        elif label is None and (match := _BRACKET_LABEL.match(text, at) or _NUMBER_LABEL.match(text, at)):
            label, label_begin, name_begin = match.span("rank"), at, None
        else:
            match = _name_at(text, at, has_origin=has_origin)
            if match is None:
                break
            name = match["name"].decode("utf-8", "replace")
            phase = phase_of_word(name.rpartition(": ")[2]) or phase  # `[phase: test]`
            has_origin, name_begin = True, begin
        separator = _SEPARATOR.match(text, match.end())
        at = separator.end() if separator else match.end()
    return Prefixes(min(at, end), end, rank, label, label_begin, phase, has_origin, name_begin)


def trained_end(text: bytes, begin: int) -> int | None:
    """Where a model's name before a position ends: `resnet50 | epoch 3 | loss 0.5`; None without one."""
    match = _TRAINED.match(text, begin)
    if match is None:
        return None
    words = [word.strip("|:,- ") for word in match["name"].decode("utf-8", "replace").lower().split()]
    return None if any(map(_IS_EVENT.fullmatch, words)) else match.end()


def row_begin(text: bytes) -> int:
    """Where a row of a table begins; its bars and blanks belong to it, unlike those before messages."""
    return row_start(text)[0]


def row_start(text: bytes) -> tuple[int, int | None]:
    """Where a row of a table begins, and the rank in the prefixes before it, if any."""
    at, rank = 0, None
    if label := NUMBER_IN_FRONT.match(text):
        at, rank = label.end(), int(label["rank"])
    while match := _element_at(text, at):
        if rank is None and match.groupdict().get("rank"):  # the launcher's, not one that the program prints
            rank = int(match["rank"])
        at = match.end()
        separator = _ROW_SEPARATOR.match(text, at)
        at = separator.end() if separator else at
    return at, rank


def _element_at(text: bytes, at: int) -> re.Match[bytes] | None:
    if not _ANY_ELEMENT.match(text, at):
        return None
    for element in _ELEMENTS:
        match = element.match(text, at)
        if match and match.end() > at:
            return match
    return None


def _name_at(text: bytes, at: int, *, has_origin: bool) -> re.Match[bytes] | None:
    """The match of a logger, module or host name that is neither a position nor the name of a number."""
    patterns = (_TAGGED, _NAMED, _LOGGER, _BEHAVIOR) if has_origin else (_TAGGED, _HOST, _CALLER)
    for pattern in patterns:
        match = pattern.match(text, at)
        if match is None or _OF_METRICS.fullmatch(match["name"]):
            continue
        word = match["name"].decode("utf-8", "replace")
        is_of_message = _POSITION_WORD.search(match["name"]) or is_measure(word) or is_timer(word)
        if pattern is _TAGGED if phase_of_word(word) else not is_of_message:
            return match
    return None
