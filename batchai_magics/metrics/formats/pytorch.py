r"""The PyTorch examples: mnist (and its Hogwild variant), and ImageNet before and after June 2019; tqdm bars.

'Train Epoch: {} [{}/{} ({:.0f}%)]\tLoss: {:.6f}'      the step is in samples
'Test set: Average loss: {:.4f}, Accuracy: {}/{} ({:.0f}%)'
'Epoch: [{}][{}/{}]\tTime {:.3f} ({:.3f})\tData ..\tLoss ..\tPrec@1 ..'    value (mean of the epoch)
'Epoch: [0][  10/5005]\tTime  0.3 ( 0.4)\tData ..\tLoss 6.9e+00 (7.0e+00)\tAcc@1 ..\tAcc@5 ..'
' * Acc@1 {:.3f} Acc@5 {:.3f}'
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
)
from batchai_magics.metrics.measurement import Record

_METER = re.compile(
    rb"\t(Time|Data|Loss|Prec@1|Prec@5|Acc@1|Acc@5) +(" + NUMBER + rb") \( *" + NUMBER + rb"\)"
)
_METERS = (
    rb"(?P<meters>(?:\t(?:Time|Data|Loss|Prec@[15]|Acc@[15]) +" + NUMBER + rb" \( *" + NUMBER + rb"\))+)"
)
_COUNTER = rb"\[ *(?P<step>" + COUNT + rb")/" + COUNT + rb"\]"
_TOP = rb"(?P<val_top_1>\d+\.\d{3}) +"
_TOP_5 = rb"(?P<val_top_5>\d+\.\d{3})"


def _read_meters(line: Line, row: LineFormat, match: re.Match[bytes]) -> Iterator[Record]:
    fields = {field.source: field for field in row.fields}
    groups = match.groupdict()
    step, epoch = count(groups["step"]), count(groups.get("epoch"))
    for name, number in _METER.findall(match["meters"]):
        yield line.value(fields[name.decode()], number, step=step, epoch=epoch)


def _meters(before: str) -> tuple[Field, ...]:
    return (
        Field(f"{before}step_time", "s", "Time"),
        Field(f"{before}data_time", "s", "Data"),
        Field(f"{before}loss", "", "Loss"),
        *(Field(f"{before}top_{k}", "%", f"{word}@{k}") for word in ("Prec", "Acc") for k in (1, 5)),
    )


PYTORCH = (
    LineFormat(
        name="PyTorch mnist",
        literals=(b"Train Epoch: ",),
        pattern=line_pattern(
            rb"(?:\d+\t)?Train Epoch: (?P<epoch>" + COUNT + rb") \[(?P<step>" + COUNT + rb")/" + COUNT + rb" "
            rb"\(\d+%\)\]\tLoss: (?P<loss>-?\d+\.\d{6}|nan|inf)(?:\tLoss Scale: (?P<loss_scale>"
            + NUMBER
            + rb"))?"
        ),
        fields=(Field("loss"), Field("loss_scale")),
        sample="Train Epoch: 1 [640/60000 (1%)]\tLoss: 2.310000",
    ),
    LineFormat(
        name="PyTorch mnist test",
        literals=(b"Test set: Average loss: ",),
        pattern=line_pattern(
            rb"(?:\d+\t)?Test set: Average loss: (?P<test_loss>" + NUMBER + rb"), "
            rb"Accuracy: (?P<test_correct>" + COUNT + rb")/(?P<test_examples>" + COUNT + rb") "
            rb"\((?P<test_accuracy>\d+)%\)"
        ),
        fields=(
            Field("test_loss"),
            Field("test_correct", "examples"),
            Field("test_examples", "examples"),
            Field("test_accuracy", "%"),
        ),
        sample="Test set: Average loss: 0.0563, Accuracy: 9821/10000 (98%)",
        is_self_terminating=True,
    ),
    LineFormat(
        name="PyTorch ImageNet",
        literals=(b"Epoch: [",),
        pattern=line_pattern(rb"Epoch: \[(?P<epoch>" + COUNT + rb")\]" + _COUNTER + _METERS),
        fields=_meters(""),
        sample="Epoch: [0][  10/5005]\tTime  0.312 ( 0.411)\tData  0.001 ( 0.105)\tLoss 6.9e+00 (7.0e+00)"
        "\tAcc@1   0.39 (  0.21)\tAcc@5   1.17 (  0.92)",
        read=_read_meters,
    ),
    LineFormat(
        name="PyTorch ImageNet validation",
        literals=(b"Test: [",),
        pattern=line_pattern(rb"Test: " + _COUNTER + _METERS),
        fields=_meters("val_"),
        sample="Test: [ 10/196]\tTime  0.157 ( 0.489)\tLoss 1.2e+00 (1.1e+00)\tAcc@1  71.09 ( 72.05)"
        "\tAcc@5  89.45 ( 90.91)",
        read=_read_meters,
    ),
    LineFormat(
        name="PyTorch ImageNet epoch",
        literals=(b" Acc@1 ", b" Prec@1 "),
        pattern=line_pattern(
            rb"\* {1,4}(?:Acc@1 "
            + _TOP
            + rb"Acc@5 |Prec@1 "
            + _TOP.replace(b"1>", b"1_>")
            + rb"Prec@5 )"
            + _TOP_5
        ),
        fields=(Field("val_top_1", "%"), Field("val_top_1", "%", "val_top_1_"), Field("val_top_5", "%")),
        sample=" * Acc@1 69.758 Acc@5 89.078",
        is_self_terminating=True,
    ),
)
