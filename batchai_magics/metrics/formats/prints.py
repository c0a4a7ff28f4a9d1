r"""What people print themselves: where they are, then numbers with their names.

    'step 0: loss = 2.000, accuracy = 0.00'       'Epoch 0: loss: 1.0 acc: 0.5'
    'Epoch [1/5], Step [100/600], Loss: 0.1547'   'iter 20: loss 2.3117, time 210.33ms, mfu 3.20%'
    '[1,  2000] loss: 2.218'                      'loss: 2.303  [   64/60000]'
    "{'loss': 2.1, 'learning_rate': 5e-05, 'epoch': 0.08}"

All of the line must be the place and pairs, and what is not written with `=` must name something that
training measures: `Step 2/5 : FROM python:3.10` and `Epoch 3: reducing learning rate of group 0 to 1e-3` are
no metrics.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from batchai_magics.metrics.formats.printed_pairs import printed_pairs, tell_metrics
from batchai_magics.metrics.formats.row import COUNT, NUMBER, Field, Line, LineFormat, count, line_pattern
from batchai_magics.metrics.record import Record

_STEP_WORD = rb"(?i:(?:global[ _])?(?:step|iteration|iter|it|(?:mini-?)?batch|episode))"
_OF = rb"(?:[ \t]?(?:/|of)[ \t]{0,4}" + COUNT + rb")?"
_SHARE = rb"(?:[ \t]{0,2}\([ \t]{0,2}\d{1,3}(?:\.\d{1,4})?%\))?"
_GAP = rb"[ \t]{0,8}(?:[:,;|>]|->|-(?=[ \t]))?[ \t]{0,8}"


def _place(word: bytes, group: bytes) -> bytes:
    """`word 3`, `word: 3/10`, `word [3/10]`, `[word 3 of 10]`, `word=3 (30%)`."""
    number = rb"(?P<" + group + rb">" + COUNT + rb")" + _OF
    return rb"\[?" + word + rb"[ \t]{0,8}[:=#]?[ \t]{0,8}\[?[ \t]{0,8}" + number + rb"[ \t]{0,2}\]?" + _SHARE


_PHASE = rb"(?:(?P<phase>(?i:train|val|valid|test|eval)(?i:ing|idation|ation|uation)?)[ \t]{1,8})?"
_EPOCH_PLACE = _place(rb"(?i:epoch)", b"epoch")
_PLACE = (
    rb"(?:" + _EPOCH_PLACE + rb"(?:" + _GAP + _place(_STEP_WORD, b"step") + rb")?"
    rb"|" + _place(_STEP_WORD, b"step_") + rb"(?:" + _GAP + _place(rb"(?i:epoch)", b"epoch_") + rb")?)"
)

_PHASES = {b"v": "val_", b"e": "val_", b"t": ""}


_LINES_PLACE = re.compile(_PHASE + _PLACE + rb"(?![\w.])")


def step_of(text: bytes) -> int | None:
    """The step that a line begins with, whatever follows."""
    place = _LINES_PLACE.match(text)
    return count(place["step"] or place["step_"]) if place else None


def _read_print(line: Line, row: LineFormat, match: re.Match[bytes]) -> Iterator[Record]:
    pairs = printed_pairs(match["pairs"])
    if not tell_metrics(pairs):
        return
    groups = match.groupdict()
    step = count(groups.get("step") or groups.get("step_"))
    epoch = count(groups.get("epoch") or groups.get("epoch_"))
    before = _before(groups.get("phase"))
    for pair in pairs:
        if pair.number:
            field = pair.field
            yield line.value(Field(before + field.name, field.unit), pair.number, step=step, epoch=epoch)


def _before(phase: bytes | None) -> str:
    """What the names of an evaluation's numbers begin with."""
    if phase is None:
        return ""
    word = phase.lower()
    return "test_" if word.startswith(b"test") else _PHASES[word[:1]]


def _read_loss(line: Line, row: LineFormat, match: re.Match[bytes]) -> Iterator[Record]:
    groups = match.groupdict()
    step, epoch = count(groups.get("step")), count(groups.get("epoch"))
    yield line.value(row.fields[0], match["loss"], step=step, epoch=epoch)


_ITEM = rb"'(?P<name>[\w./@-]{1,80})': (?P<number>" + NUMBER + rb"|'" + NUMBER + rb"')"
_ITEMS = re.compile(_ITEM)


def _read_dictionary(line: Line, row: LineFormat, match: re.Match[bytes]) -> Iterator[Record]:
    """Numbers that tell how far in the epoch they are in fractions, which is no step: they are counted."""
    items = {name.decode(): number.strip(b"'") for name, number in _ITEMS.findall(match["items"])}
    epoch = items.pop("epoch")
    step = items.pop("step", None)
    whole = int(epoch) if epoch.isdigit() else None
    for name, number in items.items():
        yield line.value(Field(name), number, step=count(step), epoch=whole)


PRINTS = (
    LineFormat(
        name="print",
        literals=(
            *(b"^step #", b"^Step #", b"^step: ", b"^Step: ", b"^Step [", b"^step ["),
            *(
                b"epoch #",
                b"Epoch #",
                b"EPOCH #",
                b"epoch: #",
                b"Epoch: #",
                b"epoch [",
                b"Epoch [",
                b"epoch=#",
            ),
            *(b"Epoch=#", b"^step=#", b"_step=#", b"^iter #", b"^Iter #", b"iter: #", b"Iter: #", b"^Iter ["),
            *(b"iteration #", b"Iteration #", b"iteration: ", b"Iteration: ", b"Episode #", b"episode #"),
            *(b"epoch  ", b"Epoch  ", b"^step  ", b"^Step  ", b"^iter  ", b"Batch #", b"batch #"),
        ),
        pattern=line_pattern(_PHASE + _PLACE + _GAP + rb"(?<=[^\w.])(?P<pairs>\[?[A-Za-z_].+?)"),
        fields=(),
        sample="step 0: loss = 2.000, accuracy = 0.00",
        read=_read_print,
    ),
    LineFormat(
        name="PyTorch tutorial",
        literals=(b"] loss: ",),
        pattern=line_pattern(
            rb"\[(?P<epoch>"
            + COUNT
            + rb"), {1,8}(?P<step>"
            + COUNT
            + rb")\] loss: (?P<loss>\d{1,12}\.\d{3}|nan|inf)"
        ),
        fields=(Field("loss"),),
        sample="[1,  2000] loss: 2.218",
        read=_read_loss,
        is_closed=True,
    ),
    LineFormat(
        name="PyTorch quickstart",
        literals=(b"loss: #",),
        pattern=line_pattern(
            rb"loss: (?P<loss>\d{1,12}\.\d{1,12}|nan|inf)  \[ *(?P<step>" + COUNT + rb")/ *" + COUNT + rb"\]"
        ),
        fields=(Field("loss"),),
        sample="loss: 2.303494  [   64/60000]",
        read=_read_loss,
        is_closed=True,
    ),
    LineFormat(
        name="Transformers trainer",
        literals=(b"'epoch': ",),
        pattern=line_pattern(
            rb"\{(?P<items>(?:"
            + _ITEM.replace(b"?P<name>", b"").replace(b"?P<number>", b"")
            + rb"(?:, |(?=\}))){2,64})\}"
        ),
        fields=(),
        sample="{'loss': 2.1041, 'learning_rate': 4.9e-05, 'epoch': 0.08}",
        read=_read_dictionary,
        is_closed=True,
    ),
)
