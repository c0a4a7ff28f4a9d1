r"""CNTK: the Python API's ProgressPrinter, and BrainScript's stderr, whose lines start with a date.

    ' Minibatch[{:4d}-{:4d}]: loss = {:0.6f} * {:d}, metric = {:0.2f}% * {:d};'
    'Finished Epoch[{} of {}]: [Training] loss = {:0.6f} * {}, metric = ..% * {} {:0.3f}s ({:5.1f} samples/s)'
    'Finished Evaluation [{}]: Minibatch[1-{}]: metric = {:0.2f}% * {};'
    ' Epoch[%2d of %d]-Minibatch[%4d-%4d, %2.2f%%]: ce = %.8f * N; errs = x% * N; time = 0.1s; '
    'samplesPerSecond = %.1f'
    'Finished Epoch[ 1 of 3]: [Training] ce = ..; errs = ..%; totalSamplesSeen = ..; '
    'learningRatePerSample = ..; epochTime=..s'

Each number is the mean over the number of samples after its `*`; the step is the last minibatch. Samples are
counted over all processes, so the samples/s printed by each process are those of all.
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
    count,
    line_pattern,
    read_fields,
)
from batchai_magics.metrics.measurement import Record

_NAME = rb"[A-Za-z_][\w.]{0,80}"
_TERM = _NAME + rb" = " + NUMBER + rb"%? \* \d+"
_NODE = rb"(?!time |totalSamplesSeen |learningRate)" + _NAME + rb" = " + NUMBER + rb"%?(?: \* \d+)?"
_NUMBERS = re.compile(rb"(" + _NAME + rb") = (" + NUMBER + rb")(%?)(?= \*|;|,| |\Z)")
_TERMS = rb"(?P<terms>" + _TERM + rb"(?:, " + _TERM + rb")*)"
_NODES = rb"(?P<terms>" + _NODE + rb"(?:; " + _NODE + rb")*)"
_PHASES = {b"Validate": "val_", b"Evaluation ": "test_", b"Test": "test_"}
_FINISHED = rb"Finished Epoch\[ *(?P<epoch>" + COUNT + rb") of \d+\]: "


def _read_terms(line: Line, row: LineFormat, match: re.Match[bytes]) -> Iterator[Record]:
    groups = match.groupdict()
    step, epoch = count(groups.get("step")), count(groups.get("epoch"))
    before = _PHASES.get(groups.get("phase") or b"", "")
    for name, number, percent in _NUMBERS.findall(groups["terms"]):
        field = Field(before + name.decode(), "%" if percent else "")
        yield line.value(field, number, step=step, epoch=epoch)
    yield from read_fields(line, row, match)


CNTK = (
    LineFormat(
        name="CNTK minibatch",
        literals=(b"Minibatch[",),
        pattern=line_pattern(
            rb"(?P<phase>Evaluation )?Minibatch\[ *\d+- *(?P<step>" + COUNT + rb")\]: " + _TERMS + rb";"
        ),
        fields=(),
        sample=" Minibatch[   1- 100]: loss = 2.302585 * 6400, metric = 90.12% * 6400;",
        read=_read_terms,
        is_self_terminating=True,
    ),
    LineFormat(
        name="CNTK epoch",
        literals=(b"Finished Epoch[",),
        pattern=line_pattern(
            _FINISHED
            + rb"(?:\[\w+\] )?"
            + _TERMS
            + rb" (?P<epoch_time>\d+\.\d{3})s \( *(?P<total_samples_per_sec>\d+\.\d) samples/s\);"
        ),
        fields=(Field("epoch_time", "s"), Field("total_samples_per_sec", "samples/sec")),
        sample="Finished Epoch[1 of 10]: [Training] "
        "loss = 0.412031 * 60000, metric = 12.31% * 60000 12.345s (4860.3 samples/s);",
        read=_read_terms,
        is_self_terminating=True,
    ),
    LineFormat(
        name="CNTK evaluation",
        literals=(b"Finished Evaluation [",),
        pattern=line_pattern(
            rb"Finished (?P<phase>Evaluation )\[\d+\]: Minibatch\[1-(?P<step>"
            + COUNT
            + rb")\]: "
            + _TERMS
            + rb";"
        ),
        fields=(),
        sample="Finished Evaluation [1]: Minibatch[1-79]: metric = 2.31% * 10000;",
        read=_read_terms,
        is_self_terminating=True,
    ),
    LineFormat(
        name="CNTK BrainScript minibatch",
        literals=(b"]-Minibatch[",),
        pattern=line_pattern(
            rb"Epoch\[ *(?P<epoch>"
            + COUNT
            + rb") of \d+\]-Minibatch\[ *\d+- *(?P<step>"
            + COUNT
            + rb")(?:, +[\d.]+%)?\]: "
            + _NODES
            + rb"; time = (?P<minibatch_time>"
            + NUMBER
            + rb")s; samplesPerSecond = (?P<total_samples_per_sec>"
            + NUMBER
            + rb")"
        ),
        fields=(Field("minibatch_time", "s"), Field("total_samples_per_sec", "samples/sec")),
        sample="06/12/2018 10:00:00:  Epoch[ 1 of 3]-Minibatch[   1- 100, 10.67%]: "
        "CrossEntropyWithSoftmax = 1.20459251 * 6400;"
        " EvalClassificationError = 36.641% * 6400; time = 0.1234s; samplesPerSecond = 51863.9",
        read=_read_terms,
    ),
    LineFormat(
        name="CNTK BrainScript epoch",
        literals=(b"; totalSamplesSeen = ",),
        pattern=line_pattern(
            _FINISHED
            + rb"\[(?P<phase>\w+)\] "
            + _NODES
            + rb"; totalSamplesSeen = (?P<samples_seen>"
            + COUNT
            + rb")(?:; learningRatePerSample = (?P<learning_rate_per_sample>"
            + NUMBER
            + rb"))?"
            rb"(?:; epochTime=(?P<epoch_time>" + NUMBER + rb")s)?"
        ),
        fields=(
            Field("samples_seen", "samples"),
            Field("learning_rate_per_sample"),
            Field("epoch_time", "s"),
        ),
        sample="06/12/2018 10:00:09: Finished Epoch[ 1 of 3]: [Training] ce = 0.28911 * 60000;"
        " errs = 8.512% * 60000;"
        " totalSamplesSeen = 60000; learningRatePerSample = 0.003125; epochTime=1.23456s",
        read=_read_terms,
    ),
)
