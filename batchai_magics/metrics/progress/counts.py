"""Counts in the words of a log line: `step i of n`, `Epoch [i/n]`, `Epoch: 3 [640/60000 (1%)]`."""

from __future__ import annotations

import re

from batchai_magics.metrics.progress.sighting import Count, Sighting, seconds

_OF = r"(?:\s*/\s*|\s+of\s+|\s+out of\s+)"
_BEFORE, _BEHIND = r"(?<![\w/.-])", r"(?![\w/%]|\.\d|-\d)"
_PAIR = rf"[\s:#=]*[\[(]?\s*(?P<done>\d{{1,12}}){_OF}(?P<total>\d{{1,12}}){_BEHIND}[\])]?"
_EPOCH = re.compile(rf"{_BEFORE}epoch{_PAIR}", re.IGNORECASE)
_STEP = re.compile(rf"{_BEFORE}(?P<noun>step|iter(?:ation)?|(?:mini)?batch|update){_PAIR}", re.IGNORECASE)
# PyTorch's examples: `Train Epoch: 3 [640/60000 (1%)]`, `Epoch: [3][ 10/5005]`; torchvision's, MMEngine:
# `Epoch(train) [3]  [ 10/5005]`
_WITHIN = re.compile(
    rf"{_BEFORE}epoch(?:\(\w{{1,10}}\))?:?\s*\[?(?P<epoch>\d{{1,9}})\]?\s*"
    r"\[\s*(?P<done>\d{1,12})/(?P<total>\d{1,12})(?:\s*\(\d{1,3}%\))?\]",
    re.IGNORECASE,
)
# CNTK: `Epoch[ 3 of 160]-Minibatch[ 11- 20, 4.00%]: …`
_CNTK = re.compile(
    r"Epoch\[\s*(?P<done>\d{1,9}) of (?P<total>\d{1,9})\]-"
    r"Minibatch\[\s*\d+-\s*\d+, (?P<percent>\d{1,3}(?:\.\d{1,4})?)%\]"
)
_ETA = re.compile(r"\beta:?\s*((?:\d{1,4} days?, )?\d{1,4}(?::\d\d){1,2})", re.IGNORECASE)
_REST = re.compile(r"[\s\W]*$")


def count_in(line: str) -> Sighting | None:
    """The count that a whole line names."""
    eta = _ETA.search(line)
    left_s = seconds(eta[1]) if eta else None
    return _of_cntk(line) or _of_pytorch(line, left_s) or _of_words(line, left_s)


def _of_cntk(line: str) -> Sighting | None:
    pair = _CNTK.search(line)
    if pair is None:
        return None
    epoch, within = Count(pair["done"], pair["total"], "epoch"), Count(pair["percent"], "")
    return None if epoch.fraction is None or within.fraction is None else Sighting(epoch, within, None, True)


def _of_pytorch(line: str, left_s: float | None) -> Sighting | None:
    pair = _WITHIN.search(line)
    if pair is None:
        return None
    count = Count(pair["done"], pair["total"], f"epoch {pair['epoch']} ·")
    return Sighting(None, count, left_s) if count.fraction is not None else None


def _of_words(line: str, left_s: float | None) -> Sighting | None:
    epoch, step = _EPOCH.search(line), _STEP.search(line)
    counts = _possible(Count(epoch["done"], epoch["total"], "epoch")) if epoch else None
    within = _possible(Count(step["done"], step["total"], step["noun"].lower())) if step else None
    if counts is None and within is None:
        return None
    is_bare = epoch is not None and _REST.match(line, epoch.end()) is not None
    return Sighting(counts, within, left_s, is_bare or within is not None)


def _possible(count: Count) -> Count | None:
    return None if count.fraction is None else count
