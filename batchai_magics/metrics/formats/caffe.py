r"""Caffe, whose lines start with a glog prefix, and Caffe2's resnet50_trainer.

glog timestamps have no year before version 0.6. Log files have it in their first line; otherwise the time of
a line is unknown.

'Log file created at: 2018/06/08 01:25:29'
'Iteration 100 (271.09 iter/s, 0.368881s/100 iters), loss = 0.224091'
'Iteration 100, loss = 0.22'                                                   older
'    Train net output #0: loss = 0.22 (* 1 = 0.22 loss)'
'Iteration 500, Testing net (#0)'    '    Test net output #0: accuracy = 0.9913'    'Iteration 0, lr = 0.01'
'Finished iteration {}/{} of epoch {} ({:.2f} images/sec)'    'Training loss: {}, accuracy: {}'
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

_ITERATION = rb"Iteration (?P<step>" + COUNT + rb")"


def _read_year(line: Line, row: LineFormat, match: re.Match[bytes]) -> Iterator[Record]:
    line.state.year, line.state.month = int(match["year"]), int(match["month"])
    yield from ()


def _read_iteration(line: Line, row: LineFormat, match: re.Match[bytes]) -> Iterator[Record]:
    line.state.enter_step(None, int(match["step"]))
    yield from read_fields(line, row, match)


def _read_output(line: Line, row: LineFormat, match: re.Match[bytes]) -> Iterator[Record]:
    before = {b"Train": "train_", b"Test": "test_"}[match["phase"]]
    yield line.value(Field(before + match["output"].decode()), match["value"], step=line.state.step)


def _read_caffe2_iteration(line: Line, row: LineFormat, match: re.Match[bytes]) -> Iterator[Record]:
    line.state.enter_step(int(match["epoch"]), int(match["step"]))
    yield from read_fields(line, row, match)


def _read_caffe2_loss(line: Line, row: LineFormat, match: re.Match[bytes]) -> Iterator[Record]:
    for field in row.fields:
        yield line.value(field, match[field.source], step=line.state.step, epoch=line.state.epoch)


CAFFE = (
    LineFormat(
        name="glog file",
        literals=(b"Log file created at: ",),
        pattern=line_pattern(rb"Log file created at: (?P<year>\d{4})/(?P<month>\d\d)/\d\d \d\d:\d\d:\d\d"),
        fields=(),
        sample="Log file created at: 2018/06/08 01:25:29",
        read=_read_year,
    ),
    LineFormat(
        name="Caffe iteration",
        literals=(b", loss = ",),
        pattern=line_pattern(
            _ITERATION
            + rb"(?: \((?P<iterations_per_sec>"
            + NUMBER
            + rb") iter/s, "
            + NUMBER
            + rb"s/\d+ iters?\))?, "
            rb"loss = (?P<loss>" + NUMBER + rb")"
        ),
        fields=(Field("iterations_per_sec", "iterations/sec"), Field("loss")),
        sample="I0608 01:25:30.086784   551 solver.cpp:218] "
        "Iteration 100 (271.09 iter/s, 0.368881s/100 iters), loss = 0.224091",
        read=_read_iteration,
    ),
    LineFormat(
        name="Caffe learning rate",
        literals=(b"#, lr =",),
        pattern=line_pattern(_ITERATION + rb", lr = (?P<learning_rate>" + NUMBER + rb")"),
        fields=(Field("learning_rate"),),
        sample="I0608 01:25:29.718049   551 sgd_solver.cpp:105] Iteration 0, lr = 0.01",
        read=_read_iteration,
    ),
    LineFormat(
        name="Caffe testing",
        literals=(b", Testing net ",),
        pattern=line_pattern(_ITERATION + rb", Testing net \(#\d+\)"),
        fields=(),
        sample="I0608 01:25:32.113092   551 solver.cpp:330] Iteration 500, Testing net (#0)",
        read=_read_iteration,
    ),
    LineFormat(
        name="Caffe net output",
        literals=(b" net output ",),
        pattern=line_pattern(
            rb"(?P<phase>Train|Test) net output #\d+: (?P<output>[\w./-]{1,80}) = (?P<value>" + NUMBER + rb")"
            rb"(?: \(\* " + NUMBER + rb" = " + NUMBER + rb" loss\))?"
        ),
        fields=(),
        sample="I0608 01:25:32.246443   551 solver.cpp:397]     Test net output #0: accuracy = 0.9913",
        read=_read_output,
    ),
    LineFormat(
        name="Caffe2 iteration",
        literals=(b" of epoch ",),
        pattern=line_pattern(
            rb"Finished iteration (?P<step>"
            + COUNT
            + rb")/"
            + COUNT
            + rb" of epoch (?P<epoch>"
            + COUNT
            + rb") "
            rb"\((?P<images_per_sec>\d+\.\d\d) images/sec\)"
        ),
        fields=(Field("images_per_sec", "images/sec"),),
        sample="INFO:resnet50_trainer:Finished iteration 1/31 of epoch 0 (4.34 images/sec)",
        read=_read_caffe2_iteration,
        is_self_terminating=True,
    ),
    LineFormat(
        name="Caffe2 loss",
        literals=(b"Training loss: ",),
        pattern=line_pattern(
            rb"Training loss: (?P<loss>" + NUMBER + rb"), accuracy: (?P<accuracy>" + NUMBER + rb")"
        ),
        fields=(Field("loss"), Field("accuracy", "fraction")),
        sample="INFO:resnet50_trainer:Training loss: 6.90421, accuracy: 0.03125",
        read=_read_caffe2_loss,
    ),
)
