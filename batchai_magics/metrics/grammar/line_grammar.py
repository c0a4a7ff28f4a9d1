"""The grammar of a step line: prefixes, one or more positions, named numbers, in any order."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple

from batchai_magics.metrics.grammar import number_grammar as numbers
from batchai_magics.metrics.grammar.metric_names import (
    TRAIN,
    VALIDATION,
    is_excluded,
    is_measure,
    is_quality,
    is_rate,
    is_stop_word,
    is_timer,
    may_be_integer,
    phase_of_word,
    split_phase,
    words_of,
)
from batchai_magics.metrics.grammar.position_grammar import Position, counter, line_start, word_position
from batchai_magics.metrics.grammar.prefix_grammar import Prefixes, read_prefixes

Span = tuple[int, int]

MAX_LINE_BYTES = 8 * 1024
_MAX_NUMBERS = 256
_MAX_STRAY_WORDS = 6

_FILLERS = frozenset(
    [
        "end",
        "of",
        "completed",
        "complete",
        "finished",
        "finish",
        "done",
        "training",
        "train",
        "validation",
        "valid",
        "val",
        "validating",
        "test",
        "testing",
        "eval",
        "evaluation",
        "evaluating",
        "metrics",
        "metric",
        "results",
        "result",
        "stats",
        "summary",
        "after",
        "average",
        "avg",
        "mean",
        "current",
        "cur",
        "running",
        "report",
        "progress",
        "log",
        "set",
        "dataset",
        "subset",
        "model",
        "epoch",
        "epochs",
        "step",
        "steps",
        "batches",
        "batch",
        "iteration",
        "frames",
        "over",
        "the",
        "on",
        "at",
        "loss",
        "averaged",
        "elapsed",
        "validate",
        "dev",
        "final",
    ]
)
_BAR = re.compile(rb"[ \t]*\d{1,3}%\|[^|\n]*\|[ \t]*")
_THICK_BAR = re.compile(rb"(?:\xe2[\x94\x95]\S|[\xe2\x94-\x96\x80-\xbf])+|\[[=>.]*\]|\?{6,}")
_BAR_CLOCKS = re.compile(
    rb"[ \t]*\[[\d:]+<(?:[\d:]+|\?)(?:,[ \t]*(?P<number>[\d.]+|\?)[ \t]*(?P<unit>[^\s,\]]+/[^\s,\]]+))?"
)
_RICH_CLOCKS = re.compile(rb"\d+:\d\d:\d\d[ \t]+\xe2\x80\xa2[ \t]+[-\d:]+[ \t]+(?:\d[\d.]*it/s)?")
_SECTION = re.compile(rb"\[(?P<phase>[A-Za-z]+)\]|(?P<group>[A-Za-z_]\w*)\[(?=[A-Za-z_]+=)")
_PERCENT_NAME = re.compile(
    rb"(?P<number>" + numbers.NUMBER + rb")(?P<unit>%)[ \t]+(?:bf16[ \t]+)?(?P<name>MFU|mfu|HFU)\b"
)
_REFUSED = re.compile(
    rb"(?:\d[ \t]+|total )images/sec: |^Step \d+/\d+ : [A-Z]+ |\w\([a-z_]\w*=|://"
    rb'|^\s*\[?\{"|^\s*"|"\w+":| - PARAMETER |Traceback|\w(?:Error|Exception): '
)
_ENDS_IN_POSITION = re.compile(r"(?i)(?:^|[ ])(?:(?:num_)?timesteps|step|iter|iteration|epoch|batch|update)$")
_MORE_NUMBERS = re.compile(rb"[ ][\d.]+[ ][\d.]+(?![\w:=%])")  # a list, not a number
_PHASE_HEADING = re.compile(
    rb"(?:[^\n]{0,80} )?(?P<phase>(?i:valid|validation|val|test|evaluation|eval))"
    rb"(?i: results?| error| metrics)?:[ \t]*"
)
_RULE = re.compile(rb"[ \t]*([-=*_~#])\1{2,199}[ \t]*")
_IS_SEAM = re.compile(r"/sec(?!ond)[A-Za-z]| #|_sec[A-Z]")  # two lines without a newline between
_DIGIT = re.compile(rb"\d")
_EVALUATED = b"cur metric,"  # PaddleOCR's
_TRAINING_LABELS = (b"", b"train:", b"training:", b"steps:")
_KNOWN_ALONE = frozenset(("sps",))  # CleanRL's, which is below the episode
_RATES = {"img": "images", "imgs": "images", "images": "images", "samples": "samples", "examples": "samples"}


_UNIT_IN_NAME = re.compile(r"\s+\(([^()]*(?:\([^()]*\))?)\)$")
_IS_RATE = re.compile(r"[A-Za-z]*/s(?:ec(?:ond)?)?")


class NamedNumber(NamedTuple):
    """A number on a line: its metric's name and unit, its phase (None: that of the line), and its span."""

    name: str
    unit: str
    phase: str | None
    begin: int
    end: int


class Kind(Enum):
    """What a line is for the lines around it."""

    STEP = "a position and named numbers"
    HEADING = "only a position, which holds for the lines below"
    LOOSE = "named numbers, whose position stands above"
    BAR = "a progress bar without numbers"
    PHASE = "only a phase, which holds for the next line"
    RULE = "a line of dashes, which may stand below a heading"


class LineReading(NamedTuple):
    """What the grammar reads on one line; spans are positions in it.

    `is_bar`: a progress bar, which is drawn again and again. `is_plain`: nothing is before the numbers of a
    loose line but a phase, so that it is read wherever a position is known. `is_dict`: a printed dict.
    """

    kind: Kind
    step: Span | None
    epoch: Span | None
    rank: Span | None
    numbers: tuple[NamedNumber, ...]
    phase: str | None
    prefix_end: int
    is_bar: bool = False
    is_plain: bool = False
    is_dict: bool = False
    is_member: bool = False


@dataclass
class _Scan:
    """The state of reading one message."""

    text: bytes
    end: int
    begin: int
    at: int
    phase: str | None
    has_origin: bool
    group: str = ""
    section: str | None = None
    positions: list[Position] = field(default_factory=list)
    numbers: list[NamedNumber] = field(default_factory=list)
    assigned: int = 0  # numbers behind a `=`
    strong: int = 0  # numbers that alone make the line a step line
    early_words: int = 0  # words before the position that nothing explains
    stray_words: int = 0  # and behind it, within a sentence
    lone_words: int = 0  # and behind it, between separators
    is_bar: bool = False
    is_labelled: bool = False  # the bar
    rank: Span | None = None
    last_base: str = ""


def read_line(text: bytes) -> LineReading | None:
    """Read a line without its end; None if it is no step line."""
    if _RULE.fullmatch(text):
        return LineReading(Kind.RULE, None, None, None, (), None, 0)
    told = _PHASE_HEADING.fullmatch(text) if text.rstrip()[-1:] == b":" else None
    if told:
        phase = phase_of_word(told["phase"].decode())
        return LineReading(Kind.PHASE, None, None, None, (), phase, 0)
    if len(text) > MAX_LINE_BYTES or not _DIGIT.search(text):
        return None
    prefixes = read_prefixes(text)
    is_named = text[: prefixes.begin].rstrip().endswith(b":")  # `config: {"lr": 0.1}`
    if prefixes.has_origin and not is_named and _is_json_object(text[prefixes.begin :]):
        text = text.replace(b'"', b"'")  # JSON behind a prefix reads like a printed dict
    if _REFUSED.search(text):
        return None
    scan = _scan(text, prefixes)
    if not scan.positions and prefixes.label is not None:
        return _read_label_as_step(text, prefixes)
    rank = prefixes.rank or prefixes.label
    return _reading(scan, prefixes, rank)


def _is_json_object(message: bytes) -> bool:
    if not message.startswith(b'{"'):
        return False
    try:
        return isinstance(json.loads(message), dict)
    except ValueError:
        return False


def _read_label_as_step(text: bytes, prefixes: Prefixes) -> LineReading | None:
    """Read `[100] loss=0.5`, whose number may be a rank or, as here, the position."""
    scan = _scan(text, prefixes._replace(begin=prefixes.label_begin))
    if scan.strong < 2 and not prefixes.has_origin:
        return None
    return _reading(scan, prefixes, prefixes.rank)


def _scan(text: bytes, prefixes: Prefixes) -> _Scan:
    phase = VALIDATION if text[prefixes.begin :].startswith(_EVALUATED) else prefixes.phase
    scan = _Scan(text, prefixes.end, prefixes.begin, prefixes.begin, phase, prefixes.has_origin)
    for position in line_start(text, scan.at):
        _take_position(scan, position)
    while scan.at < scan.end:
        before = scan.at
        _step(scan)
        if scan.at <= before:
            scan.at = before + 1
        if len(scan.numbers) > _MAX_NUMBERS:
            break
    return scan


def _step(scan: _Scan) -> None:
    """Take the next token."""
    separator = numbers.SEPARATOR.match(scan.text, scan.at, scan.end)
    taken = _take_section(scan) or _take_bar(scan) or _take_word_position(scan) or _take_duration(scan)
    if taken:
        return
    if separator:
        scan.at = separator.end()
        if b"]" in separator[0]:
            scan.group = ""
        bracket = scan.text.rfind(b"[", separator.start(), separator.end())
        if bracket >= 0:
            scan.at = bracket
            if _take_section(scan) or _take_counter(scan):
                return
            scan.at = separator.end()
        return
    if _take_percent_name(scan) or _take_pair(scan) or _take_rate(scan) or _take_text_pair(scan):
        return
    _skip(scan)


def _take_section(scan: _Scan) -> bool:
    found = _SECTION.match(scan.text, scan.at, scan.end)
    if found is None:
        return False
    if found["group"]:
        name = found["group"].decode()
        scan.group = "" if name == "loss" else f"{name}/"
        scan.at = found.end()
        return True
    phase = phase_of_word(found["phase"].decode())
    if phase is None:
        return False
    if scan.numbers:
        scan.section = phase
    else:
        scan.phase = phase
    scan.at = found.end()
    return True


def _take_bar(scan: _Scan) -> bool:
    bar = _BAR.match(scan.text, scan.at, scan.end)
    if bar:
        scan.is_bar = True
        scan.is_labelled = scan.text[scan.begin : bar.start()].strip().lower() not in _TRAINING_LABELS
        if scan.numbers and scan.early_words:
            return False
        scan.early_words = scan.stray_words = scan.lone_words = 0
        scan.at = bar.end()
        _take_bar_count(scan)
        clocks = _BAR_CLOCKS.match(scan.text, scan.at, scan.end)
        scan.at = clocks.end() if clocks else scan.at
        return True
    thick = _THICK_BAR.match(scan.text, scan.at, scan.end)
    if thick:
        scan.is_bar = True
        scan.early_words = scan.stray_words = scan.lone_words = 0
        scan.at = thick.end()
        _take_bar_count(scan)
        return True
    clocks = _RICH_CLOCKS.match(scan.text, scan.at, scan.end) if scan.is_bar else None
    if clocks:
        scan.at = clocks.end()
    return clocks is not None


def _take_bar_count(scan: _Scan) -> None:
    count = counter(scan.text, scan.at)
    if count and count.has_total and count.end <= scan.end:
        scan.positions.append(count._replace(fineness=3))
        scan.at = count.end


def _take_counter(scan: _Scan) -> bool:
    """Take a counter in brackets that stands apart: `loss: 2.30  [   64/60000]`."""
    if scan.positions and any(position.kind == "step" for position in scan.positions):
        return False
    if scan.numbers and scan.text[max(0, scan.at - 2) : scan.at] != b"  ":
        return False
    count = counter(scan.text, scan.at)
    if count is None or not count.has_total or count.end > scan.end:
        return False
    _take_position(scan, count)
    return True


def _take_word_position(scan: _Scan) -> bool:
    position = word_position(scan.text, scan.at)
    if position is None or position.span[1] > scan.end:
        return False
    _take_position(scan, position)
    if position.kind == "epoch" and not any(each.kind == "step" for each in scan.positions):
        count = counter(scan.text, scan.at)
        if count and count.end <= scan.end and _is_counter(scan, count):
            _take_position(scan, count)
    return True


def _is_counter(scan: _Scan, count: Position) -> bool:
    """Whether a counter behind an epoch counts the steps within it, as it nearly always does."""
    return count.has_total or scan.text[count.span[1] : count.end].strip()[:1] in (b"]", b")")


def _take_position(scan: _Scan, position: Position) -> None:
    phase = phase_of_word(position.phase) if position.phase else None
    if phase and position.fineness != 2:  # `Epoch(val)`: no program but MMEngine's kind prints this
        scan.strong += 1
    scan.phase = phase or scan.phase
    scan.positions.append(position)
    scan.at = position.end


def _take_duration(scan: _Scan) -> bool:
    duration = numbers.DURATION.match(scan.text, scan.at, scan.end)
    if duration:
        scan.at = duration.end()
    return duration is not None


def _take_percent_name(scan: _Scan) -> bool:
    found = _PERCENT_NAME.match(scan.text, scan.at, scan.end)
    if found is None:
        return False
    name = found["name"].decode().lower()
    scan.numbers.append(NamedNumber(name, "%", scan.section, *found.span("number")))
    scan.at = found.end()
    return True


def _take_pair(scan: _Scan) -> bool:
    found = numbers.PAIR.match(scan.text, scan.at, scan.end)
    if found is None:
        return False
    if _MORE_NUMBERS.match(scan.text, found.end(), scan.end):
        return False
    raw = (found["quoted"] or found["name"]).decode("utf-8", "replace")
    is_signed = bool(found["sign"] or found["quoted"])
    if _IS_SEAM.search(raw) or _ENDS_IN_POSITION.search(raw) or not (is_signed or _is_name_without_sign(raw)):
        return False
    scan.at = found.end()
    unit = (found["unit"] or b"").decode("utf-8", "replace")
    scan.assigned += found["sign"] == b"="
    is_list_name = is_signed and _splits_into_sentence(raw)
    if is_list_name:
        scan.stray_words += 1
    _add_number(scan, raw, unit, found["number"], found.span("number"), is_signed=is_signed)
    return True


def _is_name_without_sign(name: str) -> bool:
    words = name.partition(" (")[0].split(" ")
    if any(is_stop_word(word) for word in words):
        return False
    return len(words) == 1 or is_measure(words[-1]) or is_timer(words[-1])


def _splits_into_sentence(name: str) -> bool:
    """Whether a name of several words is a sentence: it ends in no measure and holds a stop word."""
    words = name.split(" ")
    return (
        len(words) > 2 and any(map(is_stop_word, words[:-1])) and not is_measure(name) and not is_timer(name)
    )


def _add_number(scan: _Scan, raw: str, unit: str, number: bytes, span: Span, *, is_signed: bool) -> None:
    if raw.lower() == "rank" and number.isdigit():
        scan.rank = span
        return
    phase, base = _phase_and_name(scan, raw)
    if is_excluded(raw) or (base != raw and phase != TRAIN and is_excluded(base)):
        return
    if phase is not None and phase_of_word(base) is None:
        scan.last_base = base
    name, unit = _name_and_unit(scan.group + base, base, unit)
    if phase == TRAIN and name == base and base != "metric":
        name = raw
    scan.numbers.append(NamedNumber(_canonical(name), unit, phase or scan.section, *span))
    if not scan.positions and len(scan.numbers) == 1 and phase and " " in raw:
        scan.phase = phase  # `val Loss: 0.5 Acc: 0.9`
    is_assigned = scan.text[span[0] - 1 : span[0]] == b"="
    is_whole = number.isdigit() and not unit
    scan.strong += _is_strong(raw, is_whole=is_whole, is_assigned=is_assigned, is_signed=is_signed)


def _is_strong(raw: str, *, is_whole: bool, is_assigned: bool, is_signed: bool) -> bool:
    """Whether a number alone makes its line a step line."""
    if is_quality(raw):
        return not is_whole or is_assigned or may_be_integer(raw)
    if is_whole:
        return is_signed and is_rate(raw)
    return is_measure(raw) and not is_timer(raw)


def _name_and_unit(name: str, base: str, unit: str) -> tuple[str, str]:
    named = _UNIT_IN_NAME.search(name)
    if named:
        name, unit = name[: named.start()], unit or named[1]
    if set(words_of(base)) <= {"speed", "throughput"}:
        return _rate(unit) or (name, unit)
    if base.startswith(("images/", "samples/", "examples/")):
        return _rate(base) or (name, unit)
    return name, unit


def _phase_and_name(scan: _Scan, raw: str) -> tuple[str | None, str]:
    phase, base = split_phase(raw)
    word = phase_of_word(raw)
    if word:  # `loss train: 1.2, val: 1.3`; CatBoost and PyG print only the phases of their metric
        scan.last_base = scan.last_base or "metric"
        return word, scan.last_base
    return phase, base


def _canonical(name: str) -> str:
    return re.sub(r"\s+", "_", name.strip("'\" ")).lower()


def _take_rate(scan: _Scan) -> bool:
    """Take a number that only has a unit; it is named for it."""
    found = numbers.RATE.match(scan.text, scan.at, scan.end)
    if found is None:
        return False
    scan.at = found.end()
    unit = found["unit"].decode("utf-8", "replace")
    if not scan.is_bar and (_IS_RATE.fullmatch(unit) or unit == "ms"):
        name, unit = _rate(unit) or (unit, unit)
        scan.numbers.append(NamedNumber(name, unit, scan.section, *found.span("number")))
    return True


def _rate(text: str) -> tuple[str, str] | None:
    """The name and unit of a rate in images or samples, which has one name however it is spelled."""
    items = text.lower().partition("/")[0]
    if items not in _RATES or not _IS_RATE.fullmatch(text):
        return None
    return f"{_RATES[items]}_per_sec", f"{_RATES[items]}/sec"


def _take_text_pair(scan: _Scan) -> bool:
    found = numbers.TEXT_PAIR.match(scan.text, scan.at, scan.end)
    if found and found[0].endswith(b": n/a"):
        scan.at = found.end()
        return True
    name = (found["name"] or b"").decode("utf-8", "replace") if found else ""
    if (
        found is None
        or _ENDS_IN_POSITION.search(name)
        or _is_phase_alone(found, name)
        or name.split(" ")[-1].lower() in _FILLERS
    ):
        return False
    scan.at = found.end()
    return True


def _is_phase_alone(found: re.Match[bytes], name: str) -> bool:
    """Whether the value of a name is itself a name: `DEV : loss 0.5`."""
    return (
        phase_of_word(name) is not None and found[0][-4:] not in (b": --", b"None") and b"/" not in found[0]
    )


def _skip(scan: _Scan) -> None:
    """Pass one unknown token."""
    comment = numbers.COMMENT.match(scan.text, scan.at, scan.end)
    plain = comment or numbers.PLAIN.match(scan.text, scan.at, scan.end)
    if plain:
        scan.at = plain.end()
        return
    if _pass_field(scan):
        return
    begin = scan.at
    found = numbers.WORD.match(scan.text, scan.at, scan.end)
    scan.at = found.end() if found else scan.at + 1
    if found is None:
        return
    word = found[0].decode("utf-8", "replace")
    _count_word(scan, word.strip(":.'\"!").lower(), begin)


def _pass_field(scan: _Scan) -> bool:
    """Pass the words up to the next bar of `a | some words | b`, if they are all of their field."""
    begin = scan.text.rfind(b"|", 0, scan.at) + 1
    end = scan.text.find(b"|", scan.at, scan.end)
    end = scan.end if end < 0 else end
    is_field = (begin or end < scan.end) and scan.positions and not scan.text[begin : scan.at].strip()
    if not is_field or _DIGIT.search(scan.text, begin, end):
        return False
    word = numbers.WORD.match(scan.text, scan.at, end)
    phase = phase_of_word(word[0].decode("utf-8", "replace")) if word else None
    if phase:
        scan.phase = scan.phase if scan.numbers else phase
    scan.at = end
    return True


def _count_word(scan: _Scan, word: str, begin: int) -> None:
    is_loop = scan.text[begin : scan.at] == b"Test:"  # the loop over the validation set in PyTorch's programs
    _enter_phase(scan, VALIDATION if is_loop else phase_of_word(word))
    if word in _FILLERS or word in ("n/a", "na", "none") or not any(map(str.isalnum, word)):
        return
    if not scan.positions:
        is_apart = scan.has_origin and _is_apart(scan.text, scan.at, scan.end)
        scan.early_words += not is_apart
        return
    is_lone = _is_lone(scan.text, begin, scan.at, scan.end)
    scan.lone_words += is_lone
    scan.stray_words += not is_lone


def _enter_phase(scan: _Scan, phase: str | None) -> None:
    if phase and scan.numbers:
        scan.section = phase
    elif phase:
        scan.phase = phase


def _is_apart(text: bytes, end: int, limit: int) -> bool:
    """Whether two blanks follow the words from here on, as after the event of a structured log."""
    gap = re.compile(rb"(?:[ ][\w.'-]+)*(?:[ ]{2,}|:[ ]+(?=[\w./]+=))").match(text, end, limit)
    return gap is not None


def _is_lone(text: bytes, begin: int, end: int, limit: int) -> bool:
    """Whether a word stands between separators."""
    before = text[max(0, begin - 3) : begin]
    starts = before.rstrip(b" ")[-1:] in (b",", b";", b"|", b"]", b"[", b")", b"(") or before[-2:] == b"  "
    return starts and (end >= limit or numbers.STRONG.match(text, end) is not None)


def _reading(scan: _Scan, prefixes: Prefixes, rank: Span | None) -> LineReading | None:
    kind = _kind(scan)
    if kind is None:
        return None
    step, epoch = _best(scan.positions, "step"), _best(scan.positions, "epoch")
    is_quantity = any(
        is_quality(each.name) or each.name in _KNOWN_ALONE for each in scan.numbers
    ) or _is_member(scan)
    if kind is Kind.LOOSE and not is_quantity:
        return None
    return LineReading(
        kind,
        step and step.span,
        epoch and epoch.span,
        rank or scan.rank,
        _distinct(scan.numbers) if kind in (Kind.STEP, Kind.LOOSE) else _totals(scan),
        scan.phase,
        prefixes.begin,
        is_bar=scan.is_bar,
        is_plain=_is_plain(scan),
        is_dict=scan.text[prefixes.begin : prefixes.begin + 2] == b"{'",
        is_member=_is_member(scan),
    )


def _totals(scan: _Scan) -> tuple[NamedNumber, ...]:
    """The length of a bar without a label, which tells it from other bars."""
    if not scan.is_bar or scan.is_labelled:
        return ()
    spans = [each.total for each in scan.positions if each.total and scan.text[slice(*each.total)].isdigit()]
    return tuple(NamedNumber("total", "", None, *span) for span in spans[:1])


def _kind(scan: _Scan) -> Kind | None:
    if _is_member(scan):
        return Kind.LOOSE
    if _is_metrics(scan):
        return Kind.STEP if scan.positions else Kind.LOOSE
    if scan.positions and not scan.early_words and scan.positions[0].kind == "epoch" and _are_timers(scan):
        return Kind.HEADING
    if (
        scan.early_words
        or scan.numbers
        or ((scan.stray_words or scan.lone_words) and not _is_epoch_heading(scan))
    ):
        return None
    if scan.is_bar and scan.positions:
        return Kind.BAR
    return Kind.HEADING if scan.positions and _is_heading(scan) else None


def _is_member(scan: _Scan) -> bool:
    """Whether a line is one of a block below its position: `    train/loss=10.98`."""
    least = 3 if scan.has_origin else 2  # blanks; one may belong to the prefix
    is_indented = scan.text[scan.begin - least : scan.begin].isspace()
    is_alone = len(scan.numbers) == 1 and not scan.positions
    return is_indented and is_alone and not (scan.early_words or scan.stray_words or scan.lone_words)


def _is_heading(scan: _Scan) -> bool:
    """Whether the positions of a line are not those of a command: `epoch=1` needs brackets."""
    message = scan.text[scan.begin : scan.end].strip()
    is_indented = scan.text[scan.begin - 2 : scan.begin].isspace()
    is_setting = b":" in message and not any(
        each.has_total or each.kind == "epoch" for each in scan.positions
    )
    if is_setting and message[:1] != b"[":
        return False
    return b"=" not in message or message[:1] == b"[" or is_indented


def _are_timers(scan: _Scan) -> bool:
    return bool(scan.numbers) and all(is_timer(each.name) for each in scan.numbers)


def _is_epoch_heading(scan: _Scan) -> bool:
    """Whether a line starts with an epoch and only comments on it: `Epoch 0 in 2.3 sec`."""
    is_first = scan.text[scan.begin : scan.begin + 5].lower() == b"epoch"
    return is_first and scan.positions[0].kind == "epoch" and scan.stray_words + scan.lone_words <= 3


def _is_plain(scan: _Scan) -> bool:
    """Whether the numbers are of a phase and of a quality, as in `Validation loss: 0.5`."""
    if len(scan.numbers) == 1 and scan.numbers[0].name in _KNOWN_ALONE:
        return True
    are_told = [each.phase or scan.phase or each.name.startswith("av") for each in scan.numbers]
    if scan.text[scan.begin :].startswith(_EVALUATED) or any(is_rate(each.name) for each in scan.numbers):
        return all(are_told) and any(is_quality(each.name) for each in scan.numbers)
    return all(are_told) and all(is_quality(each.name) for each in scan.numbers)


def _is_metrics(scan: _Scan) -> bool:
    """At least one name that training measures, and no sentence around it."""
    if scan.early_words or not (scan.strong or _is_all_assigned(scan) or _is_timed(scan) or _is_placed(scan)):
        return False
    words = scan.stray_words + scan.lone_words
    if not words:
        return True
    is_clear = scan.strong >= 2 and bool(scan.positions)
    return is_clear and words <= _MAX_STRAY_WORDS and scan.stray_words <= len(scan.numbers)


def _is_placed(scan: _Scan) -> bool:
    """Whether several numbers and no words follow an epoch and a step: `(epoch: 1, iters: 5) D_A: 0.5 …`."""
    kinds = {each.kind for each in scan.positions}
    words = scan.stray_words + scan.lone_words
    decimals = [each for each in scan.numbers if b"." in scan.text[each.begin : each.end]]
    return kinds == {"epoch", "step"} and not words and len(decimals) > 2


def _is_timed(scan: _Scan) -> bool:
    """Whether a step has several timers or rates and nothing else: `step:7/100 time:5ms step_avg:7.1ms`."""
    has_step = any(each.kind == "step" for each in scan.positions)
    words = scan.stray_words + scan.lone_words
    are_told = all(
        is_timer(each.name) or is_rate(each.name) or each.unit in ("ms", "s") for each in scan.numbers
    )
    return has_step and not words and len(scan.numbers) > 1 and are_told


def _is_all_assigned(scan: _Scan) -> bool:
    """Whether a position precedes numbers that all have a `=`, as in `step 3: energy = -12`."""
    is_worded = any(scan.text[each.span[0] - 1 :][:1] != b"=" for each in scan.positions[:1])
    words = scan.stray_words + scan.lone_words
    is_timed = all(is_timer(each.name) for each in scan.numbers)
    return is_worded and not words and not is_timed and 0 < scan.assigned == len(scan.numbers)


def _best(positions: list[Position], kind: str) -> Position | None:
    """The finest position of a kind; the first of several that are as fine."""
    found = [position for position in positions if position.kind == kind]
    return max(found, key=lambda position: position.fineness, default=None)


def _distinct(found: list[NamedNumber]) -> tuple[NamedNumber, ...]:
    """The numbers, each name of a phase once."""
    return tuple({(each.name.lower(), each.phase): each for each in reversed(found)}.values())[::-1]
