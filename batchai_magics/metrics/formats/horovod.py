r"""Horovod's examples: the synthetic benchmarks of TensorFlow, PyTorch and Keras, and mnist of TensorFlow 2.

    'Model: %s'
    'Batch size: %d'
    'Number of %ss: %d'
    'Iter #%d: %.1f img/sec per %s'
    'Img/sec per %s: %.1f +-%.1f'
    'Total img/sec on %d %s(s): %.1f +-%.1f'

Only rank 0 prints them. The number after `+-` is 1.96 standard deviations of the rates.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from batchai_magics.metrics.formats.line_format import (
    COUNT,
    Field,
    Line,
    LineFormat,
    line_pattern,
    read_fields,
    read_parameters,
)
from batchai_magics.metrics.grammar.number_grammar import PLAIN_NUMBER
from batchai_magics.metrics.measurement import TOTAL, Fact, Record

_RATE = rb"\d+\.\d"
_TEST = rb"Test set: Average loss: (?P<test_loss>" + PLAIN_NUMBER + rb"), Accuracy: "


def _read_total(line: Line, row: LineFormat, match: re.Match[bytes]) -> Iterator[Record]:
    yield Fact(TOTAL, match["total"].decode(), line.rank, line.offset)
    yield from read_fields(line, row, match)


HOROVOD = (
    LineFormat(
        name="Horovod benchmark model",
        literals=(b"Model: ",),
        pattern=line_pattern(rb"Model: (?P<model>[A-Za-z][\w.-]{0,80})"),
        fields=(),
        sample="Model: ResNet50",
        read=read_parameters,
    ),
    LineFormat(
        name="Horovod benchmark batch size",
        literals=(b"Batch size: #",),
        pattern=line_pattern(rb"Batch size: (?P<batch_size>" + COUNT + rb")"),
        fields=(),
        sample="Batch size: 32",
        read=read_parameters,
    ),
    LineFormat(
        name="Horovod benchmark devices",
        literals=(b"Number of GPUs: ", b"Number of CPUs: ", b"Number of TPUs: "),
        pattern=line_pattern(rb"Number of [CGT]PUs: (?P<device_count>" + COUNT + rb")"),
        fields=(),
        sample="Number of GPUs: 8",
        read=read_parameters,
    ),
    LineFormat(
        name="Horovod benchmark iteration",
        literals=(b" img/sec per ",),
        pattern=line_pattern(
            rb"Iter #(?P<step>"
            + COUNT
            + rb"): (?P<images_per_sec_per_device>"
            + _RATE
            + rb") img/sec per [CGT]PU"
        ),
        fields=(Field("images_per_sec_per_device", "images/sec"),),
        sample="Iter #3: 101.2 img/sec per GPU",
        is_self_terminating=True,
    ),
    LineFormat(
        name="Horovod benchmark mean",
        literals=(b"Img/sec per ",),
        pattern=line_pattern(
            rb"Img/sec per [CGT]PU: (?P<mean_images_per_sec_per_device>" + _RATE + rb") \+-"
            rb"(?P<spread_images_per_sec_per_device>" + _RATE + rb")"
        ),
        fields=(
            Field("mean_images_per_sec_per_device", "images/sec"),
            Field("spread_images_per_sec_per_device", "images/sec"),
        ),
        sample="Img/sec per GPU: 101.4 +-2.3",
        is_self_terminating=True,
    ),
    LineFormat(
        name="Horovod benchmark total",
        literals=(b"Total img/sec on ",),
        pattern=line_pattern(
            rb"Total img/sec on (?P<devices>" + COUNT + rb") [CGT]PU\(s\): (?P<total>" + _RATE + rb") \+-"
            rb"(?P<spread_total_images_per_sec>" + _RATE + rb")"
        ),
        fields=(Field("spread_total_images_per_sec", "images/sec"), Field("devices", "devices")),
        sample="Total img/sec on 8 GPU(s): 811.3 +-18.6",
        read=_read_total,
        is_self_terminating=True,
    ),
    LineFormat(
        name="Horovod TensorFlow 2 mnist",
        literals=(b"\tLoss: ",),
        pattern=line_pattern(rb"Step #(?P<step>" + COUNT + rb")\tLoss: (?P<loss>\d+\.\d{6}|nan|inf)"),
        fields=(Field("loss"),),
        sample="Step #130\tLoss: 0.412031",
        is_self_terminating=True,
    ),
    LineFormat(
        name="Horovod PyTorch mnist test",
        literals=(b"Test set: Average loss: ",),
        pattern=line_pattern(_TEST + rb"(?P<test_accuracy>\d+\.\d\d)%"),
        fields=(Field("test_loss"), Field("test_accuracy", "%")),
        sample="Test set: Average loss: 0.0563, Accuracy: 98.21%",
        is_self_terminating=True,
    ),
)
