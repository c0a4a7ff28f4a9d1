"""Progress bars on a line: tqdm's, Keras', rich's, and bars without a length."""

from __future__ import annotations

import re

from batchai_magics.metrics.grammar.metric_names import phase_of_word
from batchai_magics.metrics.grammar.parsed_line import LineScan
from batchai_magics.metrics.grammar.position_grammar import Position, counter_at

_TQDM = rb"\d{1,3}%\|[^|\n]{0,400}\|"
_BAR = re.compile(rb"[ \t]*" + _TQDM + rb"[ \t]*")
_THICK_BAR = re.compile(
    rb"(?:\xe2(?:[\x94\x95][\x80-\xbf]|\x96[\x80-\x9f])){2,}|\[[=>.]*\]|\?{6,}"
    rb"|[ ]?\|[#\xe2\x96\x80-\x9f]+ *\|(?=[ ]\()"
)
_COUNT_AT_END = re.compile(rb"(?<=[ )])(?P<number>\d{1,18})/(?P<total>\d{1,18})[ ]*\Z")
_FRACTION_COUNT = re.compile(rb"(?P<number>\d{1,18})/(?P<total>\d{1,18})\.0(?=[ ]\[)")  # `105/131.0 [01:03<`
_LISTED_BAR = re.compile(rb"[ \t]*\d{1,3}%[ ](?=\d{1,18}/\d{1,18}[ ])")
MAY_BE_BAR = re.compile(rb"%\||\|#|[\x80-\xff]|\[[=>.]*\]|\?{6}")
"""Every line with a bar matches this."""
_OPEN_BAR = re.compile(rb"[ \t]*\d{1,3}%\|[\xe2\x96\x80-\x8f# ]*(?=, [\w/.]+=| \[\d)")  # without an end
_COUNTED_BAR = re.compile(
    rb"[ \t]*(?P<number>\d{1,18})it \[[\d:]+(?:,[ \t]*[\d.?]+[ \t]*(?:it/s|s/it))?(?=[,\]])"
    rb"|Progress on:(?P<label>\w+) (?P<count>\d{1,18}(?:\.\d{1,3})?[kM]?)it/[\d.]+[kM]?it"
    rb" rate:\S+ remaining:\S+ elapsed:\S+ postfix:"
)
_DAYS = rb"(?:\d{1,4} days?, )?"
_BAR_CLOCKS = re.compile(
    rb"[ \t]*\[" + _DAYS + rb"[\d:]+<(?:" + _DAYS + rb"[\d:]+|\?)"
    rb"(?:,[ \t]*(?:[\d.]+|\?)[ \t]*[^\s,\]]+/[^\s,\]]+)?"
)
_GLUED = re.compile(rb"([^\]\n]{0,300}\])[ \t]*(?=[A-Z*][A-Za-z*])")  # other text right after a bar
_TRAINING_LABELS = (b"", b"train:", b"training:", b"steps:")
_DRAWN_BAR = re.compile(  # of tqdm, Keras 2, Chainer, rich and Keras 3
    _TQDM + rb"|\[[=>.]{3,}\]|(?<=total )\[#*\.*\]"
    rb"|(?:\xe2\x94[\x80\x81]|\xe2\x95[\xb8\xba]){3,}(?:\xe2\x94\x81|\xe2\x95[\xb8\xba]|[ ])*"
)
_AMOUNT = rb"\d{1,15}(?:\.\d{1,6})?[kKMGTP]?"
_COUNT_BEFORE = re.compile(rb"(?P<done>\d{1,18})/(?P<total>\d{1,18})[ \t]+\Z")
_COUNT_BEHIND = re.compile(
    rb"[ \t]*(?:(?P<done>" + _AMOUNT + rb")/(?P<total>" + _AMOUNT + rb")|(?P<percent>\d{1,3}(?:\.\d{1,4})?)%)"
)
_THIN_LINE = b"\xe2\x94\x80"
_CLOCK = _DAYS + rb"\d{1,4}(?::\d\d){1,2}"
_TIME_LEFT = re.compile(
    rb"(?:\[" + _DAYS + rb"[\d:]{1,20}<|\b(?i:eta):?[ \t]*|\xe2\x80\xa2[ \t]+"
    rb"|[\x80-\xbf][ ]+(?=\S{1,12}[ ]\S{1,16}/step))"
    rb"(?P<left>" + _CLOCK + rb"|\d{1,6}s)"
)
_TIME_AT_END = re.compile(rb"[ \t](?P<left>" + _CLOCK + rb")[ \t]*\Z")


def take_bar(scan: LineScan) -> bool:
    """Take a bar with its count and its clocks."""
    if _take_counted_bar(scan):
        return True
    bars = (pattern.match(scan.text, scan.at, scan.end) for pattern in (_BAR, _OPEN_BAR, _LISTED_BAR))
    bar = next(filter(None, bars), None)
    if bar:
        scan.is_bar = True
        scan.is_labelled = scan.text[scan.begin : bar.start()].strip().lower() not in _TRAINING_LABELS
        if scan.numbers and scan.early_words:
            return False
        scan.early_words = scan.stray_words = scan.lone_words = 0
        scan.at = bar.end()
        _take_bar_count(scan)
        clocks = _BAR_CLOCKS.match(scan.text, scan.at, scan.end)
        scan.at = clocks.end() if clocks else scan.at
        if clocks and (glued := _GLUED.match(scan.text, scan.at, scan.end)):
            scan.end = glued.end(1)
        return True
    thick = _THICK_BAR.match(scan.text, scan.at, scan.end)
    if thick:
        scan.is_bar = True
        scan.early_words = scan.stray_words = scan.lone_words = 0
        scan.at = thick.end()
        _take_bar_count(scan)
        return True
    return False


def _take_counted_bar(scan: LineScan) -> bool:
    """Take a bar of unknown length: `10001it [00:08, 1183.12it/s`."""
    bar = _COUNTED_BAR.match(scan.text, scan.at, scan.end)
    if bar is None:
        return False
    scan.is_bar, scan.at = True, bar.end()
    scan.phase = phase_of_word((bar["label"] or b"").decode()) or scan.phase
    scan.positions.append(Position("step", bar.span("count" if bar["count"] else "number"), bar.end(), 3))
    return True


def _take_bar_count(scan: LineScan) -> None:
    count = counter_at(scan.text, scan.at)
    if fraction := _FRACTION_COUNT.match(scan.text, scan.at, scan.end):
        count = Position("step", fraction.span("number"), fraction.end(), total=fraction.span("total"))
    if count and count.total and count.end <= scan.end:
        outer = scan.positions[0] if len(scan.positions) == 1 else None
        if outer and outer.kind == "step" and outer.total and scan.text[outer.span[0] - 1 :][:1] == b"[":
            scan.positions = [outer._replace(kind="epoch")]  # `[3/9] Loss: 0.5: 100%|███| 25/25`
        scan.positions.append(count._replace(fineness=3))
        scan.at = count.end


def take_count_at_end(scan: LineScan) -> None:
    """Take the count at the end of a line with a bar: `[=>....]  Loss: 2.3 | Acc: 12.5% (16/128) 1/391`."""
    match = _COUNT_AT_END.search(scan.text, scan.at, scan.end)
    if match and _THICK_BAR.match(scan.text, scan.at):
        position = Position("step", match.span("number"), match.end(), 3, total=match.span("total"))
        scan.positions.append(position)
        scan.end = match.start()


def bar_count(text: bytes) -> tuple[bytes, re.Match[bytes]] | None:
    """The label of the first bar on a line, and the match of its count: `done` and `total`, or `percent`.

    The count need not be of steps: `45.0M/100M`. A bar of tqdm must have its times. None without a bar.
    """
    bar = _DRAWN_BAR.search(text)
    if bar is None:
        return None
    behind = _COUNT_BEHIND.match(text, bar.end())
    if behind and not bar[0].startswith(_THIN_LINE):
        is_cut = bar[0].endswith(b"|") and not _BAR_CLOCKS.match(text, behind.end())
        return None if is_cut else (text[: bar.start()], behind)
    before = _COUNT_BEFORE.search(text, 0, bar.start())
    return (text[: before.start()], before) if before else None


def time_left(text: bytes, *, has_bar: bool) -> bytes:
    """The remaining time of a run or an epoch, as printed; empty if the line has none."""
    match = _TIME_LEFT.search(text) or (_TIME_AT_END.search(text) if has_bar else None)
    return match["left"] if match else b""
