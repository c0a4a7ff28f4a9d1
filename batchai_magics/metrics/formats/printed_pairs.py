"""Numbers with their names, as people print them: `loss = 2.000, time 210.33ms, mfu 3.20%`."""

from __future__ import annotations

import re
from typing import NamedTuple

from batchai_magics.metrics.formats.row import NUMBER, Field

_NAME = rb"(?P<name>[A-Za-z_][\w./@-]{0,60}(?: [A-Za-z_][\w./@-]{0,60}){0,3}?(?: ?\([\w./]{1,20}\))?)"
_UNIT = (
    rb"%|[mu]?s|secs?|seconds|mins?|[KMG]i?B|x"
    rb"|(?:it|steps|imgs?|images|samples|examples|seqs|tok|tokens)/s(?:ec)?|s(?:ec)?/(?:it|step|batch|epoch)"
)
_PAIR = re.compile(
    rb"\[?" + _NAME + rb"(?:[ \t]{0,4}(?P<sign>[=:])[ \t]{0,8}|[ \t]{1,8})"
    rb"(?:(?P<number>"
    + NUMBER
    + rb")(?:[ \t]?(?P<unit>"
    + _UNIT
    + rb"))?|(?(sign)(?P<word>[^\s,;|=(]{1,60}(?=[ \t]*(?:[,;|]|\Z)))|(?!)))"
    rb"(?:[ \t]{1,2}\([^()]{0,60}\))?\]?(?:[ \t]{0,8}(?:[,;|]|-(?=[ \t]))[ \t]{0,8}|[ \t]{1,8}|\Z)"
)
_SEAM = re.compile(rb" .*[a-z][A-Z]|[a-z][A-Z].* ")
"""Of two lines that were glued to each other, in a name of several words: `so onTotal images/sec`."""
_MOST_PAIRS = 64

_WHOLE = re.compile("loss|acc|accuracy|reward|return")
"""Measures that a whole number may well tell; `error: 404` is none."""
_MEASURE = re.compile(
    _WHOLE.pattern
    + "|losses|error|err|nll|elbo|kl|entropy|ce|bce|cost|objective|likelihood|lr|rate|norm|grad"
    "|score|perplexity|ppl|auc|auroc|f1|r2|mse|mae|rmse|bleu|rouge|wer|cer|map|miou|iou|dice|psnr|ssim|fid"
    "|precision|recall|top1|top5|throughput|speed|fps|ips|mfu|tflops|time|elapsed|dt|images|imgs|img"
    "|samples|tokens|tok"
)
"""A word in the name of what training measures."""
_RATES = {"img": "images", "imgs": "images", "images": "images", "samples": "samples", "examples": "samples"}
_LETTERS = re.compile(r"[a-z]+\d?")


class PrintedPair(NamedTuple):
    """A name, what stands behind it, the number as it is printed (empty where a word is there), its unit."""

    name: str
    sign: bytes
    number: bytes
    unit: str

    @property
    def words(self) -> list[str]:
        """The words that the name is made of."""
        return _LETTERS.findall(self.name)

    @property
    def is_measure(self) -> bool:
        """Whether the name is that of something which training measures."""
        return any(map(_MEASURE.fullmatch, self.words))

    @property
    def is_sure(self) -> bool:
        """Whether no more than this pair is needed to know that the line tells metrics."""
        if not self.number or not self.is_measure:
            return False
        is_whole = self.number.isdigit() and not self.unit
        return not is_whole or any(map(_WHOLE.fullmatch, self.words))

    @property
    def is_possible(self) -> bool:
        """Whether it may stand on a line of metrics; with a blank alone, a measure's name must end there."""
        if " " in self.name and not self.is_measure:
            return False
        return bool(self.sign) or bool(_MEASURE.fullmatch((self.words or [""])[-1]))

    @property
    def field(self) -> Field:
        """The name and the unit of its record: a rate in images or samples has one name whoever prints it."""
        items, slash, _ = (self.unit if "/s" in self.unit else self.name).partition("/s")
        if slash and items in _RATES:
            return Field(f"{_RATES[items]}_per_sec", f"{_RATES[items]}/sec")
        return Field(self.name.replace(" ", "_"), self.unit)


def printed_pairs(text: bytes) -> list[PrintedPair]:
    """All pairs of a text; none where anything in it is no pair."""
    pairs: list[PrintedPair] = []
    at = 0
    while at < len(text):
        match = _PAIR.match(text, at)
        if match is None or len(pairs) == _MOST_PAIRS:
            return []
        at = match.end()
        number, unit = match["number"] or b"", (match["unit"] or b"").decode()
        if _SEAM.search(match["name"]):
            return []
        pairs.append(PrintedPair(match["name"].decode().lower(), match["sign"] or b"", number, unit))
    return pairs


def tell_metrics(pairs: list[PrintedPair]) -> bool:
    """Whether they are metrics: none is impossible, and one is sure or all are assigned."""
    if not all(pair.is_possible for pair in pairs):
        return False
    is_assigned = all(pair.sign == b"=" for pair in pairs) and any(pair.number for pair in pairs)
    return is_assigned or any(pair.is_sure for pair in pairs)
