r"""Keras 2, tf.keras 2 and Keras 3: progress bars (verbose=1) and epoch lines (verbose=2).

    'Epoch 1/12'
    '  640/60000 [>.............................] - ETA: 1:02 - loss: 2.2917 - acc: 0.1484'     counts samples
    '48/48 [==============================] - 1s 5ms/step - loss: 0.9490 - accuracy: 0.4954'    counts batches
    '48/48 ━━━━━━━━━━━━━━━━━━━━ 0s 714us/step - accuracy: 0.5026 - loss: 0.7255'              Keras 3
    '48/48 - 1s - loss: 0.7414 - accuracy: 0.4967 - val_loss: 0.7244 - 953ms/epoch - 20ms/step'

A bar is redrawn many times; a number already reported for the same step is skipped.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from batchai_magics.metrics.formats.json_objects import named_number
from batchai_magics.metrics.formats.line_format import (
    COUNT,
    NUMBER,
    Field,
    Line,
    LineFormat,
    line_pattern,
)
from batchai_magics.metrics.grammar.line_reading import Kind, LineReading, NamedNumber, Span
from batchai_magics.metrics.measurement import Record

_NAME = rb"[A-Za-z_][\w./ ]{0,80}?"
_METRIC = re.compile(rb" - (" + _NAME + rb"): (" + NUMBER + rb")(?= - |[ \t]*\Z)")
_METRICS = rb"(?P<metrics>(?: - " + _NAME + rb": " + NUMBER + rb")+)"
_STEP_TIME = rb"(?P<time>" + NUMBER + rb")(?P<per>s|ms|us)/(?:step|sample|epoch)"
_ELAPSED = rb"(?P<elapsed>\d{1,9})s"
_COUNTER = rb"(?P<step>" + COUNT + rb")/(?P<of>" + COUNT + rb"|Unknown)"
_DIGITS = re.compile(rb"\d+")
_PER_SECOND = {b"s": 1, b"ms": 1000, b"us": 1_000_000}
_LITERALS = (b" - loss: ",)
_FIELDS = (Field("step_time", "s"), Field("epoch_time", "s"))


def _read_epoch(line: Line, row: LineFormat, match: re.Match[bytes]) -> Iterator[Record]:
    line.state.enter_step(int(match["epoch"]), None)
    yield from ()


def _bar_reading(match: re.Match[bytes]) -> LineReading | None:
    """The numbers of a bar; the last one of an epoch has the time of the epoch."""
    groups = match.groupdict()
    spans = {name: match.span(name) for name, text in groups.items() if text is not None}
    is_last = groups.get("step") == groups.get("of")
    numbers, names = list[NamedNumber](), list[Span]()
    time, per = spans.get("time") or spans.get("time_"), groups.get("per") or groups.get("per_")
    if time and per:
        numbers.append(named_number("step_time", time, "s", _PER_SECOND[per]))
    if "elapsed" in spans and is_last:
        numbers.append(named_number("epoch_time", spans["elapsed"], "s"))
    for pair in _METRIC.finditer(match.string, *match.span("metrics")):
        numbers.append(named_number(pair[1].decode(), pair.span(2)))
        names += (run.span() for run in _DIGITS.finditer(match.string, *pair.span(1)))
    ends = (spans["step"], spans["of"]) if "step" in spans else None
    step = spans.get("step")
    return LineReading(Kind.REDRAWN, step, None, None, tuple(numbers), None, 0, names=tuple(names), same=ends)


def _read_class(line: Line, row: LineFormat, match: re.Match[bytes]) -> Iterator[Record]:
    label = match["label"].decode("utf-8", "replace")
    for field in row.fields:
        yield line.value(Field(f"{field.name}/{label}", field.unit), match[field.source])


KERAS = (
    LineFormat(
        name="Keras epoch",
        literals=(b"Epoch #",),
        pattern=line_pattern(rb"Epoch (?P<epoch>" + COUNT + rb")/" + COUNT),
        fields=(),
        sample="Epoch 1/12",
        read=_read_epoch,
    ),
    LineFormat(
        name="Keras 2 bar",
        literals=_LITERALS,
        pattern=line_pattern(
            _COUNTER
            + rb" \[[=>.]*\] - (?:ETA: [\d:]{1,12}s?|"
            + _ELAPSED
            + rb")(?: "
            + _STEP_TIME
            + rb")?"
            + _METRICS
        ),
        fields=_FIELDS,
        sample="48/48 [==============================] - 1s 5ms/step - loss: 0.9490 - accuracy: 0.4954",
        reading=_bar_reading,
    ),
    LineFormat(
        name="Keras 3 bar",
        literals=_LITERALS,
        pattern=line_pattern(
            _COUNTER
            + rb" +[\x80-\xff?]*(?: +[\x80-\xff?]+)? *(?:"
            + _ELAPSED
            + rb"|[\d:]{1,12}) "
            + _STEP_TIME
            + _METRICS
        ),
        fields=_FIELDS,
        sample="\x1b[1m48/48\x1b[0m \x1b[32m━━━━━━━━━━━━━━━━━━━━\x1b[0m\x1b[37m\x1b[0m "
        "\x1b[1m0s\x1b[0m 714us/step - accuracy: 0.5026 - loss: 0.7255",
        reading=_bar_reading,
    ),
    LineFormat(
        name="Keras line an epoch",
        literals=_LITERALS,
        pattern=line_pattern(
            rb"(?:"
            + _COUNTER
            + rb" )?- "
            + _ELAPSED
            + rb"(?: (?:- )?"
            + _STEP_TIME
            + rb")?"
            + _METRICS
            + rb"(?: - \d+(?:s|ms|us)/epoch - "
            + _STEP_TIME.replace(b"<time", b"<time_").replace(b"<per", b"<per_")
            + rb")?"
        ),
        fields=_FIELDS,
        sample="48/48 - 1s - loss: 0.7414 - accuracy: 0.4967 - val_loss: 0.7244 - 953ms/epoch - 20ms/step",
        reading=_bar_reading,
    ),
    LineFormat(
        name="Keras example test",
        literals=(b"Test loss: ", b"Test accuracy: "),
        pattern=line_pattern(
            rb"Test (?:loss: (?P<test_loss>" + NUMBER + rb")|accuracy: (?P<test_accuracy>" + NUMBER + rb"))"
        ),
        fields=(Field("test_loss"), Field("test_accuracy", "fraction")),
        sample="Test accuracy: 0.9888",
    ),
    LineFormat(
        name="keras-retinanet class",
        literals=(b" instances of class ",),
        pattern=line_pattern(
            rb"(?P<examples>\d+) instances of class (?P<label>\S[^\n]{0,80}?) with average precision: "
            rb"(?P<precision>\d\.\d{4}|nan)"
        ),
        fields=(
            Field("average_precision", "fraction", "precision"),
            Field("instances", "examples", "examples"),
        ),
        sample="614 instances of class person with average precision: 0.5123",
        read=_read_class,
        is_self_terminating=True,
    ),
    LineFormat(
        name="keras-retinanet mean",
        literals=(b"mAP: 0.", b"mAP: 1.", b"mAP: nan"),
        pattern=line_pattern(rb"mAP: (?P<mean_average_precision>\d\.\d{4}|nan)"),
        fields=(Field("mean_average_precision", "fraction"),),
        sample="mAP: 0.4512",
        is_self_terminating=True,
    ),
)
