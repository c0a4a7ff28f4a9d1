"""Named numbers on a line: `loss: 0.5`, `42.0 % MFU`, `174000 tok/s`."""

from __future__ import annotations

import re

from batchai_magics.metrics.grammar import number_grammar as numbers
from batchai_magics.metrics.grammar.metric_names import (
    TRAIN,
    has_inner_phase,
    is_excluded,
    is_measure,
    is_quality,
    is_rate,
    is_stop_word,
    is_timer,
    may_be_integer,
    phase_of_word,
    split_phase,
    with_r2,
    words_of,
)
from batchai_magics.metrics.grammar.parsed_line import LineScan, NamedNumber
from batchai_magics.metrics.grammar.position_grammar import Position

_PERCENT_NAME = re.compile(
    rb"(?P<number>" + numbers.NUMBER + rb")(?P<unit>%)[ \t]+(?:bf16[ \t]+)?(?P<name>MFU|mfu|HFU)\b"
)
ENDS_IN_POSITION = re.compile(r"(?i)(?:^|[ ])(?:(?:num_)?timesteps|step|iter|iteration|epoch|batch|update)$")
_MORE_NUMBERS = re.compile(rb"[ ][\d.]+[ ][\d.]+(?![\w:=%])")  # a list, not a number
_MORE_ELEMENTS = re.compile(rb"[ ]+[-+]?[\d.]")
_SECONDS = ("s", "sec", "secs", "seconds", "ms")
_DURATIONS = re.compile(r"ms|(?:m?s|secs?|seconds?)/(?:it|iter|step|batch|image|img|frame)")
_TIMED_POSITIONS = ("step", "batch", "iter")
_STATISTICS = ("mean", "std", "min", "max", "median", "avg", "average", "sum")
_INFO = re.compile(r"(?i)(?P<phase>(?:train|cv|valid|val|test) )?info (?P<name>.+)")
_LISTED_POSITIONS = {"epoch": "epoch", "ep": "epoch"} | dict.fromkeys(
    ("step", "global_step", "iter", "iteration", "round", "batch", "update", "episode"), "step"
)
_AFTER = re.compile(rb"(?i)(?:after|in|at|for|during)[ ]")
_EARLIER = re.compile(r"(?i)(?:the )?(?:previous|last|prior|initial|old|first|lowest|highest|min|max)\b")
_OVER_EPOCH = re.compile(r"(?i)[ ](?:over|of|for|in)(?:[ ](?:the|this))?[ ]epoch")
_ASIDES = re.compile(  # `cv_agg's train l2`, `the accuracy`, `accuracy of the model`
    r"\w+'s (?=(?:train|valid|test)\b)|(?i:^(?:and the|and|the) )(?=\w)"
    r"| of the (?:model|network|classifier)\b"
)
_COUNTED_NOUNS = ("episodes", "games", "samples", "examples", "images", "batches", "trials", "runs")
_COUNT_BEFORE = re.compile(rb"(?i)(?:over|on|of|for)[ ]\d{1,9}[ ]\Z")
_IN_PARENTHESES = re.compile(rb"\d%?[ ]?\(\Z")
_COUNTED = re.compile(rb"[ ]\d+ / \d+\Z")
_COUNT_OF_BAR = re.compile(rb"[ ]\d{1,18}/\d")
_RATES = {"img": "images", "imgs": "images", "images": "images", "samples": "samples", "examples": "samples"}
_UNIT_IN_NAME = re.compile(r"\s+\(([^()]*(?:\([^()]*\))?)\)$")
_MAY_BE_DECIMAL = re.compile(rb"[-+]?\d{1,3},\d{3}")  # in a language with decimal commas
_IS_SMALL = re.compile(r"(?i)loss|acc|err")  # seldom as much as a thousand
_NAMES_WITHOUT_SIGN = frozenset(
    ("peak mem", "max mem", "episode length", "episode len", "ep length", "ep len", "mean episode length")
)
_TIME_LEFT = re.compile(rb"[ .]*(?:[,;|-]?[ ]*ETA(?:[ ]is|:)?[ ]{1,2}[\w:. ]{1,40})?")
_JOINED = re.compile(rb"[ ](?:with|and)(?:[ ]an?)?\Z")
_IS_RATE = re.compile(r"[A-Za-z]*/s(?:ec(?:ond)?)?")


def take_percent_name(scan: LineScan) -> bool:
    """Take a number before its name: `42.0% MFU`."""
    match = _PERCENT_NAME.match(scan.text, scan.at, scan.end)
    if match is None:
        return False
    name = match["name"].decode().lower()
    scan.numbers.append(NamedNumber(name, "%", scan.section, *match.span("number")))
    scan.at = match.end()
    return True


def take_slashed_numbers(scan: LineScan) -> bool:
    """Take numbers between slashes after as many names: `train/val loss: 0.5/0.6`, `mIoU/allAcc 0.5/0.6`."""
    match = numbers.SLASHED_NUMBERS.match(scan.text, scan.at, scan.end)
    if match is None:
        return False
    heads = [head.strip() for head in match["heads"].decode().split("/")]
    elements = [*re.finditer(numbers.NUMBER, match["numbers"])]
    name = (match["name"] or match["front"] or b"").decode("utf-8", "replace")
    phases = [*map(phase_of_word, heads)]
    if len(heads) != len(elements) or not (all(phases) or is_quality(name) or all(map(is_quality, heads))):
        return False
    for head, phase, element in zip(heads, phases, elements, strict=True):
        full = (name or "metric") if phase else f"{head} {name}".strip()
        begin = match.start("numbers") + element.start()
        end = match.start("numbers") + element.end()
        scan.numbers.append(NamedNumber(_canonical(full), "", phase or scan.section, begin, end))
    scan.strong += len(heads) * is_quality(name or heads[0])
    scan.at = match.end()
    return True


def take_listed_numbers(scan: LineScan) -> bool:
    """Take names, a phase among them, and then their numbers: `val, round, loss => 3, 0.5`."""
    match = numbers.LISTED_NUMBERS.match(scan.text, scan.at, scan.end)
    if match is None:
        return False
    heads = [head.strip() for head in match["heads"].decode().split(",")]
    elements = [*numbers.ELEMENT.finditer(scan.text, *match.span("numbers"))]
    phase = phase_of_word(heads[0]) if len(heads) == len(elements) + 1 else None
    heads = heads[1:] if phase else heads
    if len(heads) != len(elements):
        return False
    if phase:
        scan.enter_phase(phase)
    is_sentence = any(is_stop_word(word) for head in heads for word in head.split())
    if not (is_sentence or scan.words or scan.early_words):
        for head, element in zip(heads, elements, strict=True):
            _add_listed(scan, head, element)
    scan.at = match.end()
    return True


def _add_listed(scan: LineScan, head: str, element: re.Match[bytes]) -> None:
    """Add a number of a list if its name is a position or a measure."""
    kind = _LISTED_POSITIONS.get(head.lower())
    if kind and element["number"].isdigit():
        scan.positions.append(Position(kind, element.span("number"), element.end()))
    elif is_measure(head) or is_timer(head):
        add_number(scan, head, element, is_signed=True)
    else:
        scan.excluded += 1


def take_bare_pair(scan: LineScan) -> bool:
    """Take a quality and its number without a sign between, after a position: `loss_2.912`."""
    for pattern, others in _BARE_PAIRS if scan.positions else ():
        match = pattern.match(scan.text, scan.at, scan.end)
        name = match["name"].decode("utf-8", "replace") if match else ""
        is_beside_bar = scan.is_bar and pattern is numbers.DASHED_PAIR
        is_further = pattern is numbers.PIPED_PAIR and scan.numbers
        if match and not is_further and (is_quality(name) or name in others or is_beside_bar):
            add_number(scan, name, match, is_signed=True)
            return True
    return False


_BARE_PAIRS = (
    (numbers.JOINED_PAIR, ()),
    (numbers.DASHED_PAIR, ()),
    (numbers.NUMBER_AND_NAME, ("lr", "rate", "learning rate", "grad norm")),
    (numbers.PIPED_PAIR, ()),
)


def take_pair(scan: LineScan) -> bool:
    """Take a name and its number: `loss: 0.5`."""
    match = numbers.PAIR.match(scan.text, scan.at, scan.end)
    if match is None or _take_step_and_number(scan, match):
        return match is not None
    raw = (match["quoted"] or match["name"]).decode("utf-8", "replace")
    is_counted = _COUNTED.search(match[0]) is not None and not ENDS_IN_POSITION.search(raw)
    if not match["sign"] and (raw == "best" or is_counted):  # `78.1 %, best 79.2 %`, `edge path 1 / 1`
        scan.excluded, scan.at = scan.excluded + 1, match.end()
        return True
    is_signed = bool(match["sign"] or match["quoted"] or match["is"])
    if _is_no_pair(scan, raw, match) or not (is_signed or _is_name_without_sign(raw)):
        return False
    scan.assigned += match["sign"] == b"="
    add_number(scan, raw if is_signed else _headed(scan, raw), match, is_signed=is_signed)
    return True


def _headed(scan: LineScan, name: str) -> str:
    """The name, with the quality that precedes single letters: `MAE f` in `MAE e 0.11  f 0.21`."""
    head, _, letter = name.rpartition(" ")
    if len(letter) == 1 and head and " " not in head and is_quality(head):
        scan.head = head
    return f"{scan.head} {name}" if len(name) == 1 and scan.head else name


def _is_no_pair(scan: LineScan, name: str, match: re.Match[bytes]) -> bool:
    """Whether a sentence, a share of progress, a list or a position begins here."""
    is_sentence = match["is"] and not _states_measure(scan, name, match.end())
    if is_sentence or _is_share(scan, name, match):
        return True
    # `Batch 2.736 (7.783)`, `fps step: 96241`
    is_timed = b"." in match["number"] and name.lower() in _TIMED_POSITIONS
    is_of_epoch = b"." in match["number"] and is_quality(name) and _OVER_EPOCH.search(name)
    is_measured = is_timed or is_of_epoch or (match["sign"] and (is_rate(name) or " per " in name))
    is_position = ENDS_IN_POSITION.search(name) and not is_measured
    is_vector = match["wrap"] == b"[" and _MORE_ELEMENTS.match(scan.text, match.end("number"))
    is_list = (is_vector and not is_measure(name)) or _MORE_NUMBERS.match(scan.text, match.end(), scan.end)
    return bool(is_position or is_list)


def _is_share(scan: LineScan, name: str, match: re.Match[bytes]) -> bool:
    """Whether the number is a share of progress: `Finished [100%]:`, `Train 89/110 (81%)`."""
    if match["unit"] == b"%" and match["wrap"] == b"[" and not match["sign"]:
        return True
    if is_quality(name):
        return False
    is_count = b"/" in (match["wrap"] or b"") and "correct" not in name.lower()
    is_bar = match["unit"] == b"%" and _COUNT_OF_BAR.match(scan.text, match.end("unit"), scan.end)
    return is_count or bool(is_bar)


def _states_measure(scan: LineScan, name: str, end: int) -> bool:
    """Whether a name and `is` state a measure, unlike a sentence: `epoch: 1 step: 7, loss is 0.5`."""
    is_first, lower = scan.at == scan.begin, name.lower()
    is_last = _TIME_LEFT.fullmatch(scan.text, end) is not None
    if is_first and (is_last or lower.startswith(("average", "epoch"))):
        return is_quality(name)  # `Accuracy is 0.5`
    if is_last and scan.positions and lower.startswith("the "):
        return is_quality(name)  # `at step 7 the loss is 0.5`
    if scan.text[scan.at : end].count(b" was ") and _EARLIER.match(name):
        return False
    before = scan.text[: scan.at].rstrip()
    is_after = _AFTER.match(scan.text, scan.begin) is not None and len(scan.positions) == 1
    is_joined = before[-1:] in (b",", b";", b":", b"|", b".") or _JOINED.search(before) is not None
    return (is_measure(name) or is_timer(name)) and (is_after or is_joined)


def _take_step_and_number(scan: LineScan, match: re.Match[bytes]) -> bool:
    """Take `Train loss 100 24.01`: a phase, a name, a step and a number."""
    if scan.positions or scan.numbers or match["sign"] or not match["number"].isdigit():
        return False
    name = (match["name"] or b"").decode("utf-8", "replace")
    phase, base = split_phase(name)
    number = numbers.NUMBER_ALONE.match(scan.text, match.end("number"), scan.end)
    if not number or b"." not in number["number"] or phase is None or not is_quality(base):
        return False
    scan.positions.append(Position("step", match.span("number"), match.end("number")))
    add_number(scan, name, number, is_signed=True)
    return True


def _is_name_without_sign(name: str) -> bool:
    words = name.partition(" (")[0].split(" ")
    if any(is_stop_word(word) for word in words):
        return False
    last = words[-1]
    if phase_of_word(last) and is_quality(words[0]):
        return True  # `LOSS train 0.44 valid 0.43`
    if len(words) == 2 and len(last) == 1 and is_quality(words[0]):
        return True  # `MAE e 0.11`
    if last.lower() in _STATISTICS and is_quality(name):
        return True  # `total rewards mean 0.5`
    return len(words) == 1 or is_measure(last) or is_timer(last) or name.lower() in _NAMES_WITHOUT_SIGN


def add_number(scan: LineScan, raw: str, match: re.Match[bytes], *, is_signed: bool) -> None:
    """Add the number of a match under a name; classify it as a metric, the rank or excluded."""
    number, span, scan.at = match["number"], match.span("number"), match.end()
    unit = (match.groupdict().get("unit") or b"").decode("utf-8", "replace")
    if raw.lower() == "rank" and number.isdigit():
        scan.rank = span
        return
    raw = _ASIDES.sub("", raw)
    if info := _INFO.fullmatch(raw):  # `CV info cv_loss 92.5`
        raw = info["name"] if split_phase(info["name"])[0] else (info["phase"] or "") + info["name"]
    if _is_no_metric(scan, raw, number, unit) or _is_counted_before(scan, raw, match.start()):
        scan.excluded += 1
        return
    phase, name, unit = _named(scan, raw, match, unit)
    is_first = not scan.positions and not scan.numbers
    scan.numbers.append(NamedNumber(name, unit, phase or scan.section, *span))
    if is_first and phase and " " in raw:
        scan.phase = phase  # `val Loss: 0.5 Acc: 0.9`
    is_assigned = scan.text[span[0] - 1 : span[0]] == b"="
    is_whole = number.isdigit() and not unit
    strong_name = name if phase_of_word(raw) else raw
    scan.strong += _is_strong(strong_name, is_whole=is_whole, is_assigned=is_assigned, is_signed=is_signed)


def _named(scan: LineScan, raw: str, match: re.Match[bytes], unit: str) -> tuple[str | None, str, str]:
    """The phase (None if the line has none), the metric's name and the unit of a number."""
    phase, base = _phase_and_name(scan, raw, match.start())
    if phase is None and scan.numbers and _IN_PARENTHESES.search(scan.text, scan.begin, match.start()):
        phase = scan.numbers[-1].phase  # `val: 0.25 (acc 0.5)`
    name, unit = _name_and_unit(scan.group + base, base, unit)
    names_training = phase == TRAIN and name == base != "metric" and phase_of_word(raw) is None
    if names_training or has_inner_phase(raw):
        name = raw
    return phase, _canonical(name), unit


def _is_no_metric(scan: LineScan, raw: str, number: bytes, unit: str) -> bool:
    """Whether a number is a setting, may have a decimal comma, counts phases, or is a time called a cost."""
    is_fraction = b"." in number and raw.lower() in _TIMED_POSITIONS
    full = scan.group + raw if is_quality(scan.group) else raw  # `losses: [total: 0.5]`
    phase, base = split_phase(raw)
    if is_excluded(full) and not is_fraction:
        return True
    if base != raw and phase != TRAIN and is_excluded(base):
        return True
    if _MAY_BE_DECIMAL.fullmatch(number) and _IS_SMALL.search(raw):
        return True
    if raw.lower() in ("cost", "avg") and unit in _SECONDS:
        return True
    counted = phase_of_word(raw) if number.isdigit() else None  # `Eval 1 at step 4000`
    if counted is None or unit or scan.last_base:
        return False
    if not (scan.positions or scan.numbers):
        scan.phase = counted
    return True


def _is_counted_before(scan: LineScan, name: str, begin: int) -> bool:
    """Whether a name is of what a count before it counts; its value has none: `over 10 episodes: 2.5`."""
    return name in _COUNTED_NOUNS and _COUNT_BEFORE.search(scan.text, scan.begin, begin) is not None


def _is_strong(raw: str, *, is_whole: bool, is_assigned: bool, is_signed: bool) -> bool:
    """Whether a number alone makes its line a step line."""
    if is_quality(raw):
        return not is_whole or is_assigned or may_be_integer(raw)
    if is_whole:
        return is_signed and is_rate(raw)
    return (is_measure(raw) and not is_timer(raw)) or (is_signed and is_rate(raw))


def _name_and_unit(name: str, base: str, unit: str) -> tuple[str, str]:
    named = _UNIT_IN_NAME.search(name)
    if named:
        name, unit = name[: named.start()], unit or named[1]
    if set(words_of(name)) <= {"speed", "throughput"}:
        return _rate(unit) or (name, unit)
    if base.startswith(("images/", "samples/", "examples/")):
        return _rate(base) or (name, unit)
    return name, unit


def _phase_and_name(scan: LineScan, raw: str, begin: int) -> tuple[str | None, str]:
    """The phase of a number, from its name or the number before it, and its name without the phase."""
    phase, base = split_phase(raw)
    if word := phase_of_word(raw):  # `loss train: 1.2, val: 1.3`; some print only the phases of their metric
        if scan.numbers and _IN_PARENTHESES.search(scan.text, scan.begin, begin):
            scan.last_base = split_phase(scan.numbers[-1].name)[1]  # `loss 0.5 (val 0.6) acc 0.7 (val 0.8)`
        scan.last_base = scan.last_base or "metric"
        phase, base = word, scan.last_base
    if phase is not None and phase_of_word(base) is None:  # which the next numbers have too
        scan.last_base = base
        scan.last_phase = phase if " " in raw else None
    elif is_quality(base) and scan.last_phase != TRAIN:
        phase = phase or scan.last_phase
    return phase, base


def _canonical(name: str) -> str:
    return with_r2(re.sub(r"\s+", "_", re.sub(r"\s*/\s*", "/", name.strip("'\" "))).lower())


def take_rate(scan: LineScan) -> bool:
    """Take a number that has only a unit, which names it."""
    match = numbers.RATE.match(scan.text, scan.at, scan.end)
    if match is None:
        return False
    scan.at = match.end()
    unit = match["unit"].decode("utf-8", "replace")
    rate = unit.rpartition(" ")[2]
    if not scan.is_bar and (_IS_RATE.fullmatch(rate) or _DURATIONS.fullmatch(unit)):
        name, unit = _rate(unit) or (rate, unit)
        scan.numbers.append(NamedNumber(name, unit, scan.section, *match.span("number")))
    return True


def _rate(text: str) -> tuple[str, str] | None:
    """The uniform name and unit of a rate in images or samples, in any spelling; None for other texts."""
    items = text.lower().partition("/")[0]
    if items not in _RATES or not _IS_RATE.fullmatch(text):
        return None
    return f"{_RATES[items]}_per_sec", f"{_RATES[items]}/sec"
