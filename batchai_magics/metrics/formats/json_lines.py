r"""JSON object lines of any program, NVIDIA's DLLogger and MLPerf.

    '{"epoch": 1, "step": 100, "loss": 0.25}'           any program: numbers with a step or epoch
    '{"name": "loss", "value": 0.25, "unit": null, "global_step": 100, …}'      tf_cnn_benchmarks' metric.log
    'DLLL {"timestamp": "…", "type": "LOG", "step": [0, 10], "data": {"train.loss": 6.9}}'
    'DLL 2020-11-09 09:33:02.123456 - Epoch: 0 Iteration: 10  train.loss : 6.9 None  train.ips : 2871.1 img/s'
    ':::MLL {"namespace": "", "time_ms": 1592000000000, "key": "eval_accuracy", "value": 0.75, "metadata": …}'
    ':::MLPv0.5.0 resnet 1541026345.123 (resnet_run_loop.py:101) eval_accuracy: {"epoch": 1, "value": 0.107}'

MLPerf prints to both streams: a second line with the same time and key is dropped.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from batchai_magics.metrics.formats.json_objects import logged_reading, object_reading
from batchai_magics.metrics.formats.line_format import (
    COUNT,
    NUMBER,
    Field,
    Line,
    LineFormat,
    count,
    line_pattern,
    parameters,
    read_named_parameter,
)
from batchai_magics.metrics.grammar.metric_names import is_measure
from batchai_magics.metrics.measurement import Record
from batchai_magics.metrics.reading.timestamps import json_timestamp, parse_timestamp

_OBJECT = rb"(?P<object>\{.*\})"
_LARGEST_COUNT = 10**18


def parse_object(text: bytes) -> Mapping[str, Any]:
    """The JSON object in a text; empty without one."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def _read_parameters(line: Line, row: LineFormat, match: re.Match[bytes]) -> Iterator[Record]:
    values = parse_object(match["object"])
    data = values.get("data")
    if values.get("type") == "LOG" and values.get("step") == "PARAMETER" and isinstance(data, dict):
        yield from parameters(line, data.items())


_DLL_METRIC = re.compile(rb"([A-Za-z_][\w./@-]{0,80}) : (" + NUMBER + rb")(?: (?!\S+ : )([^\s:]+))?(?= |\Z)")
_DLL_POSITION = re.compile(
    rb"(?:Epoch: (?P<epoch>" + COUNT + rb")(?: Iteration: (?P<step>" + COUNT + rb"))?"
    rb"|\((?P<epoch_>" + COUNT + rb"),(?: (?P<step_>" + COUNT + rb"))?[^()]*\))"
)


def _read_dllogger_text(line: Line, row: LineFormat, match: re.Match[bytes]) -> Iterator[Record]:
    line.timestamp = parse_timestamp(match["time"]) or line.timestamp
    found = _DLL_METRIC.findall(match["metrics"])
    among = {name: number for name, number, _ in found if name in (b"step", b"epoch")}
    step, epoch = _dllogger_text_position(match["place"])
    step = count(among.get(b"step")) if step is None else step
    epoch = count(among.get(b"epoch")) if epoch is None else epoch
    for name, number, unit in found:
        if name in among:
            continue
        field = Field(name.decode(), "" if unit == b"None" else unit.decode("utf-8", "replace"))
        yield line.value(field, number, step=step, epoch=epoch)


def _dllogger_text_position(text: bytes) -> tuple[int | None, int | None]:
    """Step and epoch from `Epoch: 0 Iteration: 10` or `(0, 10)`."""
    place = _DLL_POSITION.match(text)
    if place is None:
        return None, None
    return count(place["step"] or place["step_"]), count(place["epoch"] or place["epoch_"])


def _read_mlperf(line: Line, row: LineFormat, match: re.Match[bytes]) -> Iterator[Record]:
    key, time, value = _mlperf_event(match)
    metadata = value.get("metadata")
    places = {**(metadata if isinstance(metadata, dict) else {}), **value}
    epoch = _count(places.get("epoch", places.get("epoch_num")))
    step = _count(places.get("step", places.get("step_num", places.get("samples_count"))))
    if "event_type" in value and ((step is None and epoch is None) or not is_measure(key)):
        return  # a parameter
    number = _number(value.get("value"))
    if number is not None and key and line.state.is_new((key, time)):
        line.timestamp = json_timestamp(time) or line.timestamp
        yield line.value(Field(key), number, step=step, epoch=epoch)


def _mlperf_event(match: re.Match[bytes]) -> tuple[str, str, Mapping[str, Any]]:
    """The key, the time, and an object that contains the value."""
    groups = match.groupdict()
    if groups.get("object") and not groups.get("key"):
        value = parse_object(groups["object"])
        return str(value.get("key") or ""), str(value.get("time_ms")), value
    text = groups["text"]
    value = parse_object(text) or parse_object(b'{"value": ' + text + b"}")
    return groups["key"].decode(), groups["time"].decode(), value


def _number(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    try:
        return float(value)
    except OverflowError:
        return None


def _count(value: object) -> int | None:
    number = _number(value)
    return (
        int(number) if number is not None and 0 <= number < _LARGEST_COUNT and number == int(number) else None
    )


JSON_LINES = (
    LineFormat(
        name="JSON line",
        literals=(b'"step":', b'_step":', b'"iteration":', b'"iter":', b'"epoch":'),
        pattern=line_pattern(_OBJECT),
        fields=(),
        sample='{"epoch": 1, "step": 100, "loss": 0.25, "lr": 0.001}',
        reading=object_reading,
        is_self_terminating=True,
    ),
    LineFormat(
        name="DLLogger JSON",
        literals=(b'DLLL {"',),
        pattern=line_pattern(rb"DLLL " + _OBJECT),
        fields=(),
        sample='DLLL {"timestamp": "1570716916.14", "elapsedtime": "12.3",'
        ' "datetime": "2019-10-10 14:15:16.14", "type": "LOG", "step": [0, 10],'
        ' "data": {"train.loss": 6.9, "train.ips": 2871.1}}',
        read=_read_parameters,
        reading=logged_reading,
        is_self_terminating=True,
    ),
    LineFormat(
        name="MLPerf",
        literals=(b":::MLL ", b":::MLLOG ", b":::MLPv0.5.0 "),
        pattern=line_pattern(
            rb":::ML(?:L|LOG|Pv0\.5\.0)(?: (?P<object>\{.*\})"
            rb"|(?: [\w.-]+)? (?P<time>\d+(?:\.\d+)?)(?: \([^()]*\))?"
            rb" (?P<key>\w+) ?: (?P<text>\{.*\}|" + NUMBER + rb"))"
        ),
        fields=(),
        sample=":::MLPv0.5.0 resnet 1541026345.123456 (resnet_run_loop.py:101) "
        'eval_accuracy: {"epoch": 1, "value": 0.107}',
        read=_read_mlperf,
    ),
)

DLLOGGER = (
    LineFormat(
        name="DLLogger",
        literals=(b"^DLL 20", b"DLLL 20"),
        pattern=line_pattern(
            rb"DLLL? (?P<time>\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(?:\.\d+)?) - "
            rb"(?P<place>(?:Epoch: \d+(?: [A-Z]\w+: \d+)*|\([\d, ]*\))?) *"
            rb"(?P<metrics>(?:[A-Za-z_][\w./@-]{0,80} : \S{1,80}(?: [^\s:]{1,20})?(?: {1,4}|\Z)){1,200})"
        ),
        fields=(),
        sample="DLL 2020-11-09 09:33:02.123456 - Epoch: 0 Iteration: 10  "
        "train.loss : 6.9 None  train.ips : 2871.1 images/s",
        read=_read_dllogger_text,
    ),
    LineFormat(
        name="DLLogger parameter",
        literals=(b" - PARAMETER ",),
        pattern=line_pattern(
            rb"DLLL? \d{4}-\d\d-\d\d \d\d:\d\d:\d\d(?:\.\d+)? - "
            rb"PARAMETER (?P<name>\w{1,80}) : (?P<value>\S{1,80})"
        ),
        fields=(),
        sample="DLL 2020-11-09 09:33:02.123456 - PARAMETER batch_size_per_gpu : 64",
        read=read_named_parameter,
    ),
)
