"""Reads the numbers of a JSON object, with their spans, by the keys that lead to them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache

from batchai_magics.metrics.grammar.metric_names import (
    PHASES,
    TRAIN,
    in_phase,
    is_measure,
    phase_of_word,
    split_phase,
)
from batchai_magics.metrics.grammar.parsed_line import LineKind, NamedNumber, ParsedLine, Span
from batchai_magics.metrics.timestamps import json_timestamp

Path = tuple[str | int, ...]

STEP_KEYS = ("global_step", "step", "iteration", "iter")
TIME_KEYS = ("timestamp", "datetime", "time", "ts", "time_ms")
_STEPS: tuple[Path, ...] = (
    *((key,) for key in STEP_KEYS),
    ("batches_seen",),
    ("step", 1),
    ("metadata", "step_num"),
    ("metadata", "samples_count"),
)
_EPOCHS: tuple[Path, ...] = (
    ("epoch",),
    ("epoch_num",),
    ("epochs_done",),
    ("metadata", "epoch"),
    ("metadata", "epoch_num"),
    ("step", 0),
)
_NAMING: tuple[Path, ...] = (("name",), ("key",), ("unit",))
POSITION_KEYS = frozenset((*STEP_KEYS, *TIME_KEYS, "epoch", "rank", "pid", "version", "n_parameters"))
_COUNT_KEYS = frozenset((  # of DeepPavlov
    "epochs_done", "batches_seen", "train_examples_seen", "eval_examples_count", "impatience",
    "patience_limit",
))  # fmt: skip
_NO_METRICS = POSITION_KEYS | _COUNT_KEYS
_NESTED_KEYS = ("metrics", "data")
_PHASE_KEYS = frozenset(("mode", "phase", "split", "stage", "name", "type", "_type"))
_TOKEN = re.compile(
    rb'"(?P<text>[^"\\]*(?:\\.[^"\\]*)*)"(?P<key>[ \t]*:)?'
    rb"|(?P<number>-?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?|NaN|-?Infinity)|(?P<edge>[{}\[\]])|(?P<comma>,)"
)
_DIGITS = re.compile(rb"\d+")
_DATE = re.compile(rb"\d+[-/]\d+[-/]\d+\D+\d+:\d+:\d")
_COUNT = re.compile(rb"(?P<count>\d{1,18})(?:\.0+)?|(?P<of>\d{1,15})/\d{1,15}")
_EPOCH = re.compile(rb"\d{1,18}(?:\.\d{1,20})?(?:[eE]-?\d{1,2})?|\d{1,15}/\d{1,15}")
_MESSAGE = re.compile(
    rb'\{"(?:[^{}\n]*"?(?:jsonPayload|payload|record|fields)":[ ]?\{")?'
    rb'(?:[^"\n]*":[^{}\n]*,[ ]?")?(?:message|msg|log|event|text|textPayload)":[ ]?"'
    rb'(?P<text>[^"\\\n]*)(?:\\n)?"[^\n]*\}[ \t]*'
)
_PART = re.compile(r"[_.]")
_MAX_DEPTH = 8
_MAX_DIGITS = 300


@dataclass(frozen=True)
class Value:
    """A number or a text in an object, as printed, and its span."""

    text: bytes
    span: Span
    is_number: bool

    @property
    def json(self) -> object:
        """The decoded value."""
        return float(self.text) if self.is_number else self.text.decode("utf-8", "replace")

    @property
    def may_be_time(self) -> bool:
        """Whether it is a time or has the form of a date, whose digits may be invalid on other lines."""
        is_date = not self.is_number and _DATE.search(self.text) is not None
        return is_date or json_timestamp(self.json) is not None

    @property
    def count(self) -> Span | None:
        """The span of a count: `10`, or the first number of `"10/120"`; None for any other value."""
        match = _COUNT.fullmatch(self.text)
        if match is None or (match["of"] is None) is not self.is_number:
            return None
        begin, end = match.span("of" if match["of"] else "count")
        return self.span[0] + begin, self.span[0] + end


@lru_cache(4096)
def phase_of(name: str) -> str:
    """The phase in the first part of a metric's name; `train` without one."""
    return PHASES.get(_PART.split(name)[0], TRAIN)


def message_span(text: bytes, begin: int) -> Span | None:
    """The span of the message in an object at `begin`, if any: `{"level": "info", "message": "loss 0.5"}`."""
    match = _MESSAGE.fullmatch(text, begin) if text.startswith(b'{"', begin) else None
    return match.span("text") if match else None


def values_of(text: bytes, begin: int, end: int) -> Mapping[Path, Value] | None:
    """The numbers and texts of an object by their paths; None if the text is no object."""
    try:
        if not isinstance(json.loads(text[begin:end]), dict):
            return None
    except (ValueError, RecursionError):
        return None
    values: dict[Path, Value] = {}
    path: list[str | int] = []
    for token in _TOKEN.finditer(text, begin, end):
        if token["edge"] in (b"{", b"["):
            path.append("" if token["edge"] == b"{" else 0)
        elif token["edge"]:
            path.pop()
        elif token["comma"]:
            path[-1] = path[-1] + 1 if isinstance(path[-1], int) else ""
        elif token["key"]:
            path[-1] = token["text"].decode("utf-8", "replace")
        elif len(path) <= _MAX_DEPTH:
            kind = "text" if token["number"] is None else "number"
            if kind == "text" or len(token[kind]) <= _MAX_DIGITS:
                values[tuple(path)] = Value(token[kind], token.span(kind), kind == "number")
    return values


def object_reading(
    text: bytes, begin: int, end: int, *, name: str | None = None, is_tagged: bool = False
) -> ParsedLine | None:
    """The reading of an object with numbers and a step or an epoch; None if the text is no object.

    `is_tagged`: it follows a tag that only a logger of metrics prints, and needs neither step nor epoch.
    `name` is the name of its `value`.
    """
    values = values_of(text, begin, end)
    if values is None:
        return None
    values, of_phase = _without_phase(values)
    step, epoch = _first_count(values, _STEPS), _epoch(values)
    is_placed = step is not None or epoch is not None
    if not (is_placed or is_tagged) or (is_tagged and _is_parameter(values, is_placed=is_placed)):
        return ParsedLine(LineKind.OBJECT)
    rank = values.get(("rank",))
    times = (values[key,] for key in TIME_KEYS if (key,) in values)
    names = [value.span for path, value in values.items() if path in _NAMING]
    keys = (token for token in _TOKEN.finditer(text, begin, end) if token["key"])
    key_digits = (run.span() for key in keys for run in _DIGITS.finditer(text, *key.span("text")))
    return ParsedLine(
        LineKind.OBJECT,
        step,
        epoch,
        rank.count if rank else None,
        tuple(_numbers(values, name, of_phase)),
        is_member=rank is not None,
        seconds=next((time.span for time in times if time.may_be_time), None),
        names=(*key_digits, *names),
        is_self_terminating=True,
    )


def _without_phase(values: Mapping[Path, Value]) -> tuple[Mapping[Path, Value], str | None]:
    """The values of an object whose one member is the object of a phase, and that phase: `{"valid": {…}}`."""
    sections = {path[0] for path in values}
    phase = phase_of_word(str(next(iter(sections)))) if len(sections) == 1 else None
    if phase is None or any(len(path) < 2 for path in values):
        return values, None
    return {path[1:]: value for path, value in values.items()}, phase


def _epoch(values: Mapping[Path, Value]) -> Span | None:
    """The span of an epoch, which may be a fraction; None without one."""
    value = values.get(("epoch",))
    if value and value.is_number and _EPOCH.fullmatch(value.text):
        return value.count or value.span
    return _first_count(values, _EPOCHS)


def _is_parameter(values: Mapping[Path, Value], *, is_placed: bool) -> bool:
    """Whether an object of a logger holds parameters, or is an event of MLPerf."""
    kind, step, key = (values.get((name,)) for name in ("type", "step", "key"))
    is_logged = (kind is None or kind.text == b"LOG") and (step is None or step.text != b"PARAMETER")
    if not (is_placed or is_logged):
        return True
    if key is None or ("event_type",) not in values:
        return False
    return not (is_placed and is_measure(_text(key)))


def _first_count(values: Mapping[Path, Value], paths: Iterable[Path]) -> Span | None:
    counts = (values[path].count for path in paths if path in values)
    return next(filter(None, counts), None)


def _numbers(
    values: Mapping[Path, Value], record_name: str | None, of_phase: str | None = None
) -> Iterator[NamedNumber]:
    """The numbers of an object, each under the name of its record; `of_phase` is the phase around it."""
    if named := _named_value(values, record_name):
        yield named
        return
    phase = of_phase or _phase_in(values)
    inner = dict.fromkeys(str(path[0]) for path in values if len(path) == 2 and isinstance(path[1], str))
    parts: list[tuple[Path, str | None]] = [((), phase), *(((key,), phase) for key in _NESTED_KEYS)]
    parts += [((key,), phase_of_word(key)) for key in inner if phase_of_word(key)]
    for part, of_phase in parts:
        for path, value in values.items():
            key = path[-1]
            if path[:-1] == part and isinstance(key, str) and value.is_number and key not in _NO_METRICS:
                yield _named(key if split_phase(key)[0] else in_phase(key, of_phase), value.span)


def _named_value(values: Mapping[Path, Value], record_name: str | None) -> NamedNumber | None:
    """The `value` of an object under `record_name`, or else under a name in the object; None without."""
    name = values.get(("name",), values.get(("key",)))
    number, unit = values.get(("value",)), values.get(("unit",))
    is_named = name is not None and not name.is_number
    if number is None or not number.is_number or not (record_name or is_named):
        return None
    metric = record_name or (_text(name) if name else "")
    return _named(metric, number.span, "" if unit is None or unit.is_number else _text(unit))


def _phase_in(values: Mapping[Path, Value]) -> str | None:
    """The phase of an object's numbers: `"mode": "val"`, `"_type": "val_epoch"`."""
    texts = {path[0]: text for path, text in values.items() if len(path) == 1 and not text.is_number}
    words = (
        _text(text) if key == "name" else re.split(r"[\W_]", _text(text), maxsplit=1)[0]
        for key, text in sorted(
            texts.items(), key=lambda item: item[0] == "name"
        )  # a name, which may be a run's, comes last
        if key in _PHASE_KEYS
    )
    return next(filter(None, map(phase_of_word, words)), None)


def _named(name: str, span: Span, unit: str = "") -> NamedNumber:
    return NamedNumber(name, unit, phase_of(name), *span, is_full=True)


def _text(value: Value) -> str:
    text = value.text
    return (
        str(json.loads(b'"' + text + b'"', strict=False))
        if b"\\" in text
        else text.decode("utf-8", "replace")
    )
