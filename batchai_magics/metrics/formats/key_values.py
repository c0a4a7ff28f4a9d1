"""Generic lines of any program: a position, then named numbers (`name=number`, `name: number unit`)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from batchai_magics.metrics.formats.json_lines import JSON_POSITION_KEYS, JSON_STEP_KEYS, JSON_TIME_KEYS
from batchai_magics.metrics.formats.line_format import (
    COUNT,
    NUMBER,
    Field,
    Line,
    LineFormat,
    count,
    line_pattern,
)
from batchai_magics.metrics.reading.timestamps import Timestamp, json_timestamp
from batchai_magics.metrics.record import Record

_PRINTED_NAME = rb"(?P<name>[A-Za-z_][\w./@-]{0,60}(?: [A-Za-z_][\w./@-]{0,60}){0,3}?(?: ?\([\w./]{1,20}\))?)"
_UNIT = (
    rb"%|[mu]?s|secs?|seconds|mins?|[KMG]i?B|x"
    rb"|(?:it|steps|imgs?|images|samples|examples|seqs|tok|tokens)/s(?:ec)?|s(?:ec)?/(?:it|step|batch|epoch)"
)
_PRINTED_PAIR = re.compile(
    rb"\[?" + _PRINTED_NAME + rb"(?:[ \t]{0,4}(?P<sign>[=:])[ \t]{0,8}|[ \t]{1,8})"
    rb"(?:(?P<number>"
    + NUMBER
    + rb")(?:[ \t]?(?P<unit>"
    + _UNIT
    + rb"))?|(?(sign)(?P<word>[^\s,;|=(]{1,60}(?=[ \t]*(?:[,;|]|\Z)))|(?!)))"
    rb"(?:[ \t]{1,2}\([^()]{0,60}\))?\]?(?:[ \t]{0,8}(?:[,;|]|-(?=[ \t]))[ \t]{0,8}|[ \t]{1,8}|\Z)"
)
_SEAM = re.compile(rb" .*[a-z][A-Z]|[a-z][A-Z].* ")
"""Two lines joined inside a name of several words: `so onTotal images/sec`."""
_MOST_PAIRS = 64

_INTEGER_MEASURE = re.compile("loss|acc|accuracy|reward|return")
"""Metrics that may have integer values; `error: 404` is not one."""
_MEASURE = re.compile(
    _INTEGER_MEASURE.pattern
    + "|losses|error|err|nll|elbo|kl|entropy|ce|bce|cost|objective|likelihood|lr|rate|norm|grad"
    "|score|perplexity|ppl|auc|auroc|f1|r2|mse|mae|rmse|bleu|rouge|wer|cer|map|miou|iou|dice|psnr|ssim|fid"
    "|precision|recall|top1|top5|throughput|speed|fps|ips|mfu|tflops|time|elapsed|dt|images|imgs|img"
    "|samples|tokens|tok"
)
"""A word in the name of a training metric."""
_RATES = {"img": "images", "imgs": "images", "images": "images", "samples": "samples", "examples": "samples"}
_LETTERS = re.compile(r"[a-z]+\d?")


class PrintedPair(NamedTuple):
    """A name, its separator, the printed number (empty for a word), and its unit."""

    name: str
    sign: bytes
    number: bytes
    unit: str

    @property
    def words(self) -> list[str]:
        """The words of the name."""
        return _LETTERS.findall(self.name)

    @property
    def is_measure(self) -> bool:
        """Whether the name looks like a training metric."""
        return any(map(_MEASURE.fullmatch, self.words))

    @property
    def is_conclusive(self) -> bool:
        """Whether this pair alone identifies the line as metrics."""
        if not self.number or not self.is_measure:
            return False
        is_whole = self.number.isdigit() and not self.unit
        return not is_whole or any(map(_INTEGER_MEASURE.fullmatch, self.words))

    @property
    def is_plausible(self) -> bool:
        """Whether the pair may occur among metrics; without a separator, its name must end in one."""
        if " " in self.name and not self.is_measure:
            return False
        return bool(self.sign) or bool(_MEASURE.fullmatch((self.words or [""])[-1]))

    @property
    def field(self) -> Field:
        """Name and unit of its record; rates in images or samples have one name regardless of spelling."""
        items, slash, _ = (self.unit if "/s" in self.unit else self.name).partition("/s")
        if slash and items in _RATES:
            return Field(f"{_RATES[items]}_per_sec", f"{_RATES[items]}/sec")
        return Field(self.name.replace(" ", "_"), self.unit)


def parse_printed_pairs(text: bytes) -> list[PrintedPair]:
    """Parse a text as pairs; empty if any part of it is not a pair."""
    pairs: list[PrintedPair] = []
    at = 0
    while at < len(text):
        match = _PRINTED_PAIR.match(text, at)
        if match is None or len(pairs) == _MOST_PAIRS:
            return []
        at = match.end()
        number, unit = match["number"] or b"", (match["unit"] or b"").decode()
        if _SEAM.search(match["name"]):
            return []
        pairs.append(PrintedPair(match["name"].decode().lower(), match["sign"] or b"", number, unit))
    return pairs


def are_metrics(pairs: list[PrintedPair]) -> bool:
    """Whether the pairs are metrics: all plausible, and one conclusive or all assigned with `=`."""
    if not all(pair.is_plausible for pair in pairs):
        return False
    is_assigned = all(pair.sign == b"=" for pair in pairs) and any(pair.number for pair in pairs)
    return is_assigned or any(pair.is_conclusive for pair in pairs)


_NAME = rb"[A-Za-z_][\w./@-]{0,80}"
_PAIRS = rb"(?:" + _NAME + rb"=[^\s=,;|]{1,80}(?:[ \t]{0,8}[,;|][ \t]{0,8}|[ \t]{1,8}|\Z)){2,64}"
_PAIR = re.compile(rb"(" + _NAME + rb")=(" + NUMBER + rb")(%?)(?=[\s,;|]|\Z)")
_TIME = re.compile(rb"\b(?:" + "|".join(JSON_TIME_KEYS).encode() + rb")=([\d.:TZ+-]{9,64})(?=[\s,;|]|\Z)")
_COUNT = re.compile(COUNT)


def _read_pairs(line: Line, row: LineFormat, match: re.Match[bytes]) -> Iterator[Record]:
    pairs = {name.decode(): (number, percent) for name, number, percent in _PAIR.findall(line.text)}
    counts = _counts(pairs)
    step, epoch = _first(counts, JSON_STEP_KEYS), counts.get("epoch")
    if step is None and epoch is None:
        return
    if line.rank is None:
        line.rank = counts.get("rank")
    line.timestamp = _timestamp(line.text) or line.timestamp
    for name in filter(_is_metric, pairs):
        number, percent = pairs[name]
        yield line.value(Field(name, "%" if percent else ""), number, step=step, epoch=epoch)


def _is_metric(name: str) -> bool:
    return name not in JSON_POSITION_KEYS


def _counts(pairs: Mapping[str, tuple[bytes, bytes]]) -> dict[str, int]:
    return {name: int(number) for name, (number, _) in pairs.items() if _COUNT.fullmatch(number)}


def _first(counts: Mapping[str, int], names: Iterable[str]) -> int | None:
    """The first of these counts that is present."""
    return next((counts[name] for name in names if name in counts), None)


def _timestamp(text: bytes) -> Timestamp | None:
    """The timestamp in one of the pairs."""
    time = _TIME.search(text)
    return json_timestamp(time[1].decode()) if time else None


PAIRS = (
    LineFormat(
        name="pairs",
        literals=(b"^step=#", b"_step=#", b"iteration=", b"epoch=#"),
        pattern=line_pattern(_PAIRS),
        fields=(),
        sample="epoch=1 step=100 loss=0.25 lr=0.001",
        read=_read_pairs,
    ),
)


_STEP_WORD = rb"(?i:(?:global[ _])?(?:step|iteration|iter|it|(?:mini-?)?batch|episode))"
_OF = rb"(?:[ \t]?(?:/|of)[ \t]{0,4}" + COUNT + rb")?"
_SHARE = rb"(?:[ \t]{0,2}\([ \t]{0,2}\d{1,3}(?:\.\d{1,4})?%\))?"
_GAP = rb"[ \t]{0,8}(?:[:,;|>]|->|-(?=[ \t]))?[ \t]{0,8}"


def _position_pattern(word: bytes, group: bytes) -> bytes:
    """`word 3`, `word: 3/10`, `word [3/10]`, `[word 3 of 10]`, `word=3 (30%)`."""
    number = rb"(?P<" + group + rb">" + COUNT + rb")" + _OF
    return rb"\[?" + word + rb"[ \t]{0,8}[:=#]?[ \t]{0,8}\[?[ \t]{0,8}" + number + rb"[ \t]{0,2}\]?" + _SHARE


_PHASE = rb"(?:(?P<phase>(?i:train|val|valid|test|eval)(?i:ing|idation|ation|uation)?)[ \t]{1,8})?"
_EPOCH_POSITION = _position_pattern(rb"(?i:epoch)", b"epoch")
_POSITION = (
    rb"(?:" + _EPOCH_POSITION + rb"(?:" + _GAP + _position_pattern(_STEP_WORD, b"step") + rb")?"
    rb"|"
    + _position_pattern(_STEP_WORD, b"step_")
    + rb"(?:"
    + _GAP
    + _position_pattern(rb"(?i:epoch)", b"epoch_")
    + rb")?)"
)

_PHASES = {b"v": "val_", b"e": "val_", b"t": ""}


_LINE_POSITION = re.compile(_PHASE + _POSITION + rb"(?![\w.])")


def step_of(text: bytes) -> int | None:
    """The step at the start of a line."""
    place = _LINE_POSITION.match(text)
    return count(place["step"] or place["step_"]) if place else None


def _read_print(line: Line, row: LineFormat, match: re.Match[bytes]) -> Iterator[Record]:
    pairs = parse_printed_pairs(match["pairs"])
    if not are_metrics(pairs):
        return
    groups = match.groupdict()
    step = count(groups.get("step") or groups.get("step_"))
    epoch = count(groups.get("epoch") or groups.get("epoch_"))
    before = _name_prefix(groups.get("phase"))
    for pair in pairs:
        if pair.number:
            field = pair.field
            yield line.value(Field(before + field.name, field.unit), pair.number, step=step, epoch=epoch)


def _name_prefix(phase: bytes | None) -> str:
    """The name prefix for metrics of an evaluation phase."""
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
    """Parse a printed dict. A fractional epoch is not a step: such lines are numbered in order."""
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
        pattern=line_pattern(_PHASE + _POSITION + _GAP + rb"(?<=[^\w.])(?P<pairs>\[?[A-Za-z_].+?)"),
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
        is_self_terminating=True,
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
        is_self_terminating=True,
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
        is_self_terminating=True,
    ),
)
