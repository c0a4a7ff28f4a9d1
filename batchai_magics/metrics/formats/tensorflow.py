r"""Other TensorFlow programs: tf.estimator, slim, mnist_replica.py and the models' convolutional.py.

'INFO:tensorflow:loss = 7.02, step = 0 (12.3 sec)'    'INFO:tensorflow:global_step/sec: 0.34'
'INFO:tensorflow:Saving dict for global step 100: accuracy = 0.9, global_step = 100, loss = 0.3'
'INFO:tensorflow:global step 5: loss = 62.5 (20.2 sec/step)'
'%f: Worker %d: training step %d done (global step: %d)'
'Step 8100 (epoch 9.43), 8.4 ms'
'Minibatch loss: 1.652, learning rate: 0.006302'
'Minibatch error: 0.0%'
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from batchai_magics.metrics.formats.line_format import (
    COUNT,
    NUMBER,
    Field,
    Line,
    LineFormat,
    line_pattern,
    read_fields,
)
from batchai_magics.metrics.measurement import Record
from batchai_magics.metrics.reading.timestamps import json_timestamp

_PAIR = re.compile(rb"([\w./-]{1,80}) = (" + NUMBER + rb")(?=,|\Z)")
_STEPS_PER_SEC = Field("steps_per_sec", "steps/sec")


def _read_saved(line: Line, row: LineFormat, match: re.Match[bytes]) -> Iterator[Record]:
    for name, number in _PAIR.findall(match["pairs"]):
        if name != b"global_step":
            yield line.value(Field("val_" + name.decode()), number, step=int(match["step"]))


def _read_worker(line: Line, row: LineFormat, match: re.Match[bytes]) -> Iterator[Record]:
    """The global step, and the speed since this worker's previous line, whose time comes first."""
    worker, step, time = int(match["worker"]), int(match["step"]), float(match["time"])
    line.timestamp = json_timestamp(time) or line.timestamp
    if line.rank is None:
        line.rank = worker
    yield from read_fields(line, row, match)
    last_time, last_step = line.state.worker_times.get(worker, (time, step))
    if time > last_time and step > last_step:
        yield line.value(_STEPS_PER_SEC, (step - last_step) / (time - last_time), step=step)
    if len(line.state.worker_times) < 4096 or worker in line.state.worker_times:
        line.state.worker_times[worker] = time, step


def _read_step(line: Line, row: LineFormat, match: re.Match[bytes]) -> Iterator[Record]:
    step = int(match["step"])
    line.state.enter_step(None, step)
    yield line.value(row.fields[0], float(match["milliseconds"]) / 1000, step=step)


def _read_at_step(line: Line, row: LineFormat, match: re.Match[bytes]) -> Iterator[Record]:
    for field in row.fields:
        if match[field.source] is not None:
            yield line.value(field, match[field.source], step=line.state.step)


TENSORFLOW = (
    LineFormat(
        name="tf.estimator loss",
        literals=(b", step = ",),
        pattern=line_pattern(
            rb"loss = (?P<loss>"
            + NUMBER
            + rb"), step = (?P<step>"
            + COUNT
            + rb")(?: \((?P<elapsed>"
            + NUMBER
            + rb") sec\))?"
        ),
        fields=(Field("loss"), Field("interval_time", "s", "elapsed")),
        sample="INFO:tensorflow:loss = 7.02, step = 0 (12.3 sec)",
    ),
    LineFormat(
        name="tf.estimator speed",
        literals=(b"global_step/sec: ",),
        pattern=line_pattern(rb"global_step/sec: (?P<steps_per_sec>" + NUMBER + rb")"),
        fields=(_STEPS_PER_SEC,),
        sample="INFO:tensorflow:global_step/sec: 0.34",
    ),
    LineFormat(
        name="tf.estimator examples",
        literals=(b"examples/sec: ",),
        pattern=line_pattern(rb"examples/sec: (?P<samples_per_sec>" + NUMBER + rb")"),
        fields=(Field("samples_per_sec", "samples/sec"),),
        sample="INFO:tensorflow:examples/sec: 245.673",
    ),
    LineFormat(
        name="tf.estimator evaluation",
        literals=(b"Saving dict for global step ",),
        pattern=line_pattern(rb"Saving dict for global step (?P<step>" + COUNT + rb"): (?P<pairs>.+)"),
        fields=(),
        sample="INFO:tensorflow:Saving dict for global step 100: "
        "accuracy = 0.9013, global_step = 100, loss = 0.3125",
        read=_read_saved,
    ),
    LineFormat(
        name="slim step",
        literals=(b" sec/step)",),
        pattern=line_pattern(
            rb"global step (?P<step>"
            + COUNT
            + rb"): loss = (?P<loss>"
            + NUMBER
            + rb") \((?P<step_time>"
            + NUMBER
            + rb") sec/step\)"
        ),
        fields=(Field("loss"), Field("step_time", "s")),
        sample="INFO:tensorflow:global step 5: loss = 62.5012 (20.243 sec/step)",
        is_self_terminating=True,
    ),
    LineFormat(
        name="mnist_replica step",
        literals=(b": training step ",),
        pattern=line_pattern(
            rb"(?P<time>\d{1,12}\.\d{1,9}): Worker (?P<worker>\d{1,6}): training step (?P<local>"
            + COUNT
            + rb") done "
            rb"\(global step: (?P<step>" + COUNT + rb")\)"
        ),
        fields=(Field("local_step", "steps", "local"),),
        sample="1549883160.123456: Worker 0: training step 15 done (global step: 29)",
        read=_read_worker,
        is_self_terminating=True,
    ),
    LineFormat(
        name="mnist_replica time",
        literals=(b"Training elapsed time: ",),
        pattern=line_pattern(rb"Training elapsed time: (?P<training_time>\d+\.\d+) s"),
        fields=(Field("training_time", "s"),),
        sample="Training elapsed time: 12.345678 s",
        is_self_terminating=True,
    ),
    LineFormat(
        name="mnist_replica validation",
        literals=(b" training step(s), ",),
        pattern=line_pattern(
            rb"After (?P<step>"
            + COUNT
            + rb") training step\(s\), validation cross entropy = (?P<val_cross_entropy>"
            + NUMBER
            + rb")"
        ),
        fields=(Field("val_cross_entropy"),),
        sample="After 200 training step(s), validation cross entropy = 1234.56",
    ),
    LineFormat(
        name="convolutional.py step",
        literals=(b" (epoch ",),
        pattern=line_pattern(
            rb"Step (?P<step>" + COUNT + rb") \(epoch \d+\.\d\d\), (?P<milliseconds>\d+\.\d) ms"
        ),
        fields=(Field("step_time", "s", "milliseconds"),),
        sample="Step 8100 (epoch 9.43), 8.4 ms",
        read=_read_step,
        is_self_terminating=True,
    ),
    LineFormat(
        name="convolutional.py loss",
        literals=(b"Minibatch loss: ",),
        pattern=line_pattern(
            rb"Minibatch loss: (?P<loss>\d+\.\d{3}|nan|inf), learning rate: (?P<learning_rate>\d+\.\d{6})"
        ),
        fields=(Field("loss"), Field("learning_rate")),
        sample="Minibatch loss: 1.652, learning rate: 0.006302",
        read=_read_at_step,
        is_self_terminating=True,
    ),
    LineFormat(
        name="convolutional.py error",
        literals=(b"Minibatch error: ", b"Validation error: ", b"Test error: "),
        pattern=line_pattern(
            rb"(?:Minibatch error: (?P<error>\d+\.\d)|Validation error: (?P<val_error>\d+\.\d)"
            rb"|Test error: (?P<test_error>\d+\.\d))%"
        ),
        fields=(Field("error", "%"), Field("val_error", "%"), Field("test_error", "%")),
        sample="Validation error: 1.0%",
        read=_read_at_step,
        is_self_terminating=True,
    ),
)
