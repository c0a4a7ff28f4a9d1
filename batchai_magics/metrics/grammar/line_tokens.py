"""Splits the message of a line into tokens: positions, named numbers, bars, durations and other words."""

from __future__ import annotations

import re

from batchai_magics.metrics.grammar import number_grammar as numbers
from batchai_magics.metrics.grammar.bar_tokens import MAY_BE_BAR, take_bar, take_count_at_end
from batchai_magics.metrics.grammar.metric_names import TRAIN, VALIDATION, is_quality, phase_of_word
from batchai_magics.metrics.grammar.named_numbers import (
    ENDS_IN_POSITION,
    add_number,
    take_bare_pair,
    take_listed_numbers,
    take_pair,
    take_percent_name,
    take_rate,
    take_slashed_numbers,
)
from batchai_magics.metrics.grammar.parsed_line import LineScan
from batchai_magics.metrics.grammar.position_grammar import (
    Position,
    counter_at,
    line_start,
    word_pair,
    word_position,
)
from batchai_magics.metrics.grammar.prefix_grammar import Prefixes

_MAX_NUMBERS = 2048
_FILLERS = frozenset((
    "end", "of", "completed", "complete", "finished", "finish", "done", "training", "train", "validation",
    "valid", "val", "validating", "test", "testing", "eval", "evaluation", "evaluating", "metrics",
    "metric", "results", "result", "stats", "summary", "after", "average", "avg", "mean", "current",
    "cur", "running", "report", "progress", "log", "set", "dataset", "data", "subset", "model", "epoch",
    "epochs", "step", "steps", "batches", "batch", "iteration", "frames", "over", "the", "on", "at",
    "loss", "averaged", "elapsed", "validate", "dev", "final", "beginning", "starting", "begin", "start",
    "started", "info", "for", "taken", "timesteps", "time", "values", "pipeline", "in", "ending",
))  # fmt: skip
_NO_TEXT_NAMES = _FILLERS - {"elapsed", "time"}
_SECTION = re.compile(
    rb"[\[<](?P<phase>[A-Za-z]+(?: set)?)[\]>]|(?P<set>[a-z]{2,5})=\((?=[A-Za-z])"
    rb"|\((?P<aside>[A-Za-z]+)\)(?=[ ][A-Za-z_]+[:=])"
    rb"|\[(?P<member>[A-Za-z]\w{0,20})[ ]-[ ](?=[A-Za-z]\w{0,30}[:=])"
    rb"|(?P<group>[A-Za-z_]\w*)(?:(?::[ ])?\[(?=[A-Za-z_]+[:=][ ]?[-+.\d])"
    rb"|=\{(?=')|:[ ](?=\w{1,20}:[ ]\d+\.\d+[ ][GM]i?B))"
)
_NO_GROUPS = ("loss", "metrics")
DIGIT = re.compile(rb"\d")
_PHASE_PAIR = re.compile(
    rb"(?:'(?:(?:mode|phase|split|stage|_?type)':[ ]?'|name':[ ]?'(?=[A-Za-z]+'))"
    rb"|(?:[A-Za-z ]{1,30}:[ ]\[)?(?i:mode|phase|split|stage|subset)[ ]?[:=][ ]?)(?P<phase>[A-Za-z]+)"
)
_IS_TRAINED = re.compile(rb"'(?:is_)?train(?:ing)?':[ ]?(True|False)")
_VALIDATING = re.compile(rb"Test:(?![ ]*\()")  # the loop over the validation set in PyTorch's programs
_APART = re.compile(rb"(?:[ ][\w.'/-]+)*(?:[ ]{2,}|:[ ]+(?=[\w./]+=)|[ ]\|[ ]+(?=(?i:epoch|step|iter)))")
_LEVEL = re.compile(r"(?:^|[ ])(?:(?i:debug|info|notice|warn|warning|critical|fatal)|ERROR)$")
_ORIGIN = re.compile(r"(?i)(?:^|[ ])[\w/-]+(?:[.@][a-z][\w-]*)+$")  # a host, a file, a logger
_BEST_SO_FAR = re.compile(rb"(?i)best so far\b")
_SIGN = re.compile(rb"[:=]")
_JOINED_MEASURE = re.compile(
    rb",?[ ](?:and|with)[ ](?:the[ ]|an?[ ])?[A-Za-z_]\w{0,30}(?:[ ]\w{1,20})?[ ](?:is|of)[ ]"
)
_CONJUNCTION = re.compile(rb"(?:with|and)[ ](?:an?[ ])?")
_MEASURE_OF_PHASES = re.compile(
    rb"(?P<name>[A-Za-z][\w.@-]{0,30}(?:[ ][A-Za-z]\w{0,20})?)(?:[ ]?:|[ ][-|])[ ]{1,4}\(?"
    rb"(?=(?i:train(?:ing)?|val(?:id(?:ation)?)?|dev|test)(?:[ ]?[:=][ ]?|[ ])[-+]?\.?\d)"
)
_SUMMARY = re.compile(rb"\* (?=Acc@1|Prec@1|Finished epoch #)")  # of the validation in ImageNet programs


def scan_line(text: bytes, prefixes: Prefixes, *, is_of_metrics: bool = True) -> LineScan:
    """Take all tokens after the prefixes of a line; `is_of_metrics` stops at a text without metrics."""
    phase = VALIDATION if _SUMMARY.match(text, prefixes.begin - 2) else prefixes.phase
    scan = LineScan(text, prefixes.end, prefixes.begin, prefixes.begin, phase, prefixes.has_origin)
    for position in line_start(text, scan.at):
        _take_position(scan, position)
    may_be_text = is_of_metrics and prefixes.label is None  # a label may be taken for a position
    _take_name_before_position(scan)
    if MAY_BE_BAR.search(text, scan.at):
        take_count_at_end(scan)
    while scan.at < scan.end:
        before = scan.at
        _step(scan)
        if scan.at <= before:
            scan.at = before + 1
        if len(scan.numbers) > _MAX_NUMBERS:
            break
        is_text = may_be_text and scan.early_words and not scan.positions
        if is_text and not MAY_BE_BAR.search(scan.text, scan.at):
            break  # nothing further can make this a step line
    return scan


def _take_name_before_position(scan: LineScan) -> None:
    """Take `Loss at step 100: 0.5`."""
    match = numbers.NAME_AT.match(scan.text, scan.at, scan.end)
    position = word_position(scan.text, match.end()) if match else None
    number = numbers.NUMBER_BEHIND.match(scan.text, position.end, scan.end) if position else None
    if match and position and number:
        name = match["name"].decode("utf-8", "replace")
        if is_quality(name):
            _take_position(scan, position)
            add_number(scan, name, number, is_signed=True)
            if not (
                _SIGN.search(scan.text, scan.at) or _JOINED_MEASURE.match(scan.text, scan.at)
            ):  # `… in episode 7 is 21.3 total number of steps are 87`
                scan.end = scan.at


def _step(scan: LineScan) -> None:
    """Take the next token."""
    separator = numbers.SEPARATOR.match(scan.text, scan.at, scan.end)
    if _take_section(scan) or take_bar(scan) or _take_word_position(scan):
        return
    if duration := numbers.DURATION.match(scan.text, scan.at, scan.end):
        scan.at = duration.end()
        return
    if separator:
        scan.at = separator.end()
        if b"]" in separator[0] or b"}" in separator[0]:
            scan.group = ""
        bracket = max(scan.text.rfind(mark, *separator.span()) for mark in (b"[", b"<"))
        if bracket >= 0:
            scan.at = bracket
            if _take_section(scan) or _take_counter(scan):
                return
            scan.at = separator.end()
        return
    if not any(take(scan) for take in _NAMED_NUMBERS):
        _skip(scan)


def _take_section(scan: LineScan) -> bool:
    """Take the name of a group of numbers: `[val]`, `train=(`, `GPU0[`."""
    match = _SECTION.match(scan.text, scan.at, scan.end)
    if match is None:
        return False
    if group := match["group"] or match["member"]:
        name = group.decode()
        scan.group = "" if name in _NO_GROUPS else f"{name}/"
    elif match["aside"] and scan.numbers and not (scan.phase or scan.section):
        return False  # `loss=0.5 (train) acc=0.6 (train)`
    elif phase := phase_of_word((match["phase"] or match["set"] or match["aside"]).decode()):
        scan.enter_phase(phase)
    else:
        return False
    scan.at = match.end()
    return True


def _take_counter(scan: LineScan) -> bool:
    """Take a counter in brackets that stands apart: `loss: 2.30  [   64/60000]`."""
    if scan.positions and any(position.kind == "step" for position in scan.positions):
        return False
    if scan.numbers and scan.text[max(0, scan.at - 2) : scan.at] != b"  ":
        return False
    count = counter_at(scan.text, scan.at)
    if count is None or not count.total or count.end > scan.end:
        return False
    _take_position(scan, count)
    return True


def _take_word_position(scan: LineScan) -> bool:
    if pair := word_pair(scan.text, scan.at):
        for counted in pair:
            _take_position(scan, counted)
        return True
    position = word_position(scan.text, scan.at)
    if position is None or position.span[1] > scan.end:
        return False
    if _counts_epoch(scan, position):
        scan.excluded, scan.at = scan.excluded + 1, position.end  # `Epoch: 1, Steps: 264 |`: of the epoch
        return True
    _take_position(scan, position)
    if position.kind == "epoch" and not any(other.kind == "step" for other in scan.positions):
        count = counter_at(scan.text, scan.at)
        if count and count.end <= scan.end:
            is_in_brackets = scan.text[count.span[1] : count.end].strip()[:1] in (b"]", b")")
            if count.total or is_in_brackets:  # it nearly always counts the steps within the epoch
                _take_position(scan, count)
    return True


def _counts_epoch(scan: LineScan, position: Position) -> bool:
    """Whether it counts all steps of the epoch: `Epoch: 1, Steps: 264 |`, `Epoch: 1/5 Train steps: 100`."""
    if not scan.positions or position.total:
        return False
    word = scan.text[scan.at : position.span[0]].lower()
    if word.startswith((b"train steps:", b"val steps:")):
        return True
    if position.noun == "steps" and scan.positions[0].noun == "episode":
        return True  # `Episode: 7 | Reward: 21.3 | Steps: 87`
    return word.startswith(b"steps:") and scan.text[scan.positions[-1].end : scan.at] == b", "


def _take_position(scan: LineScan, position: Position) -> None:
    phase = phase_of_word(position.phase) if position.phase else None
    if scan.numbers and scan.text[scan.at : scan.at + 5].lower() == b"train":
        scan.phase = scan.last_phase = None  # `Test reward: 21.0. Training step: 100. Loss: 0.5`
    if phase and position.fineness != 2:  # `Epoch(val)`: only with metrics
        scan.strong += 1
    scan.phase = phase or scan.phase
    scan.positions.append(position)
    scan.at = position.end


def _pass_sentence(scan: LineScan) -> bool:
    """Pass the sentences after the numbers: `Loss is 0.5. The learning rate did not change.`."""
    if not (scan.strong and scan.positions and scan.text[scan.at - 2 : scan.at] == b". "):
        return False
    scan.at = scan.end
    return True


def _take_text_pair(scan: LineScan) -> bool:
    """Pass a name with a text as its value, which may be the name of a group: `LOC: recall: 0.5`."""
    match = numbers.TEXT_PAIR.match(scan.text, scan.at, scan.end)
    if match is None:
        return False
    if match[0].endswith(b": n/a"):
        scan.at = match.end()
        return True
    if trained := _IS_TRAINED.match(match[0]):  # as minai's course prints it
        scan.phase = TRAIN if trained[1] == b"True" else VALIDATION
    if phase_match := _PHASE_PAIR.match(match[0]):  # `'mode': 'val'`, `phase: test`, else a name
        phase, is_name = phase_of_word(phase_match["phase"].decode()), match[0].startswith(b"'name")
        scan.phase = (scan.phase or phase) if is_name else (phase or scan.phase)
    name = (match["name"] or b"").decode("utf-8", "replace")
    return (
        _enter_result(scan, match, name) or _enter_group(scan, match, name) or _pass_text(scan, match, name)
    )


def _enter_result(scan: LineScan, match: re.Match[bytes], name: str) -> bool:
    """Enter the phase of `Test Error: Avg loss: 0.5`."""
    head, _, tail = name.partition(" ")
    phase = phase_of_word(head) if tail.lower() in ("error", "performance") else None
    if not phase:
        return False
    scan.enter_phase(phase)
    scan.at = match.start() + match[0].index(b":") + 1
    return True


def _enter_group(scan: LineScan, match: re.Match[bytes], name: str) -> bool:
    """Enter the group of `Generator: loss 0.5` or `LOC: recall: 0.5`, unless the name is a line's prefix."""
    if not name or _is_filler(name) or phase_of_word(name) is not None:
        return False
    value = match[0].rpartition(b":")[2].strip().decode("utf-8", "replace")
    is_named = is_quality(value) and numbers.NUMBER_ALONE.match(scan.text, match.end(), scan.end)
    if is_named and scan.positions:
        scan.group = f"{name}/"
    elif not match[0].endswith(b":"):
        return False
    elif not (_LEVEL.search(name) or (_ORIGIN.search(name) and not scan.numbers)):
        scan.group = f"{name}/"
    scan.at = match.start() + match[0].index(b":") + 1
    return True


def _pass_text(scan: LineScan, match: re.Match[bytes], name: str) -> bool:
    """Pass a name and its text; the value of a phase is itself a name: `DEV : loss 0.5`."""
    has_value = match[0][-4:] in (b": --", b"None") or b"/" in match[0]
    if (
        _is_filler(name)
        or ENDS_IN_POSITION.search(name)
        or (phase_of_word(name) is not None and not has_value)
    ):
        return False
    scan.at = match.end()
    return True


def _is_filler(name: str) -> bool:
    return name.split(" ")[-1].lower() in _NO_TEXT_NAMES


def _pass_best(scan: LineScan) -> bool:
    """Pass everything from `Best so far` on."""
    if not _BEST_SO_FAR.match(scan.text, scan.at, scan.end):
        return False
    scan.at = scan.end
    return True


def _skip(scan: LineScan) -> None:
    """Pass one unknown token."""
    comment = numbers.COMMENT.match(scan.text, scan.at, scan.end)
    plain = comment or numbers.PLAIN.match(scan.text, scan.at, scan.end)
    if plain:
        scan.at = plain.end()
        return
    if _pass_field(scan):
        return
    begin = scan.at
    match = numbers.WORD.match(scan.text, scan.at, scan.end)
    scan.at = match.end() if match else scan.at + 1
    word = match[0].decode("utf-8", "replace").strip(":.'\"!").lower() if match else ""
    if phase := VALIDATION if _VALIDATING.match(scan.text, begin) else phase_of_word(word):
        scan.enter_phase(phase)
    _count_word(scan, begin, word)


def _count_word(scan: LineScan, begin: int, word: str) -> None:
    """Count the word that begins here, unless it is usual on lines of metrics."""
    if word in _FILLERS or word in ("n/a", "na", "none") or not any(map(str.isalnum, word)):
        return
    if word in ("time", "eta", "remaining") and numbers.DURATION.match(scan.text, scan.at + 1, scan.end):
        return
    if scan.numbers and (word == "in" or word.startswith("#")):  # `best_reward: 191.2 in #1`
        return
    if not scan.positions:
        # two blanks follow the words from here on, as after the event of a structured log, or a bar
        is_apart = scan.has_origin and _APART.match(scan.text, scan.at, scan.end)
        scan.early_words += not is_apart
        return
    before = scan.text[max(0, begin - 3) : begin]
    starts = before.rstrip(b" ")[-1:] in (b",", b";", b"|", b"]", b"[", b")", b"(") or before[-2:] == b"  "
    ends = scan.at >= scan.end or numbers.STRONG.match(scan.text, scan.at) is not None
    is_lone = starts and ends
    scan.lone_words += is_lone
    scan.stray_words += not is_lone


def _pass_field(scan: LineScan) -> bool:
    """Pass a field that consists of words: `some words` in `a | some words | b`."""
    begin = scan.text.rfind(b"|", 0, scan.at) + 1
    end = scan.text.find(b"|", scan.at, scan.end)
    end = scan.end if end < 0 else end
    is_field = (begin or end < scan.end) and scan.positions and not scan.text[begin : scan.at].strip()
    if not is_field or DIGIT.search(scan.text, begin, end):
        return False
    word = numbers.WORD.match(scan.text, scan.at, end)
    phase = phase_of_word(word[0].decode("utf-8", "replace")) if word else None
    if phase and not scan.numbers:
        scan.phase = phase
    scan.at = end
    return True


def _take_measure_of_phases(scan: LineScan) -> bool:
    """Take the name of a metric of several phases: `Loss: train=0.5, val=0.6`."""
    match = _MEASURE_OF_PHASES.match(scan.text, scan.at, scan.end)
    name = match["name"].decode("utf-8", "replace") if match else ""
    if match is None or not is_quality(name):
        return False
    scan.last_base, scan.at = name, match.end()
    return True


def _pass_conjunction(scan: LineScan) -> bool:
    """Pass a conjunction before a measure: `done with a loss of 0.5 and accuracy of 0.6`."""
    match = _CONJUNCTION.match(scan.text, scan.at, scan.end) if scan.positions else None
    pair = numbers.PAIR.match(scan.text, match.end(), scan.end) if match else None
    if not (match and pair and pair["name"] and is_quality(pair["name"].decode("utf-8", "replace"))):
        return False
    scan.at = match.end()
    return True


_NAMED_NUMBERS = (
    _pass_best,
    _pass_conjunction,
    _take_measure_of_phases,
    take_slashed_numbers,
    take_listed_numbers,
    take_percent_name,
    take_bare_pair,
    take_pair,
    take_rate,
    _pass_sentence,
    _take_text_pair,
)
