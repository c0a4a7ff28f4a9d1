"""Positions in training: step, iteration, batch and epoch in every form that programs print."""

from __future__ import annotations

import re
from typing import NamedTuple

_COUNT = rb"\d{1,3}(?:,\d{3})+(?!\d|,\d)|\d{1,3}(?:_\d{3})+(?!\w)|\d{1,18}"
_ROUNDED = rb"\d{1,6}(?:\.\d{1,3})?[kKM](?![\w./])"  # `12.5K`
_OF = (
    rb"(?:[ \t]*(?:/|\bof\b(?:[ ]max_iter:)?|\bout of\b|\|(?=[ ]?\d+[ ]?[\])]))[ \t]*"
    rb"(?P<total>(?:" + _COUNT + rb")|\?|Unknown)(?:/\d{1,18}(?=, [A-Za-z]))?)"
)
_PERCENT = rb"(?:[ \t]*\([ \t]*\d[\d.]*[ \t]*%\))?"
_ADJECTIVE = (
    rb"(?:train(?:er|ing)?/(?=global))?(?:(?:global|minibatch|mini-batch|optimizer|training|trainer|train|num"
    rb"|micro|mini|completed|current|cur|acc|learning"
    rb"|learner|actor|env|environment|agent|gradient|grad|policy|valid_num|inner|outer|ppo)"
    rb"[ _/-]?)?"
)
_NOUN = (
    rb"timesteps|timestep|time steps(?=:)|steps(?=[ \t]*[:=])|(?<=(?i:num)[ _])steps(?=[ ]\d)|step_i|step"
    rb"|iterations?(?![A-Za-z])"
    rb"|iters?|itrs?|it|batch|updates?|episode|t_env"
    rb"|total_step(?=[ ]?[:=]?[ ]?\d{1,18}[,|;])"
    rb"|(?<=(?i:ppo)[ _])epoch|rollout(?=[ ]\d)|generation(?=[ :=])|minibatch|nupdates|total t(?=:)"
    rb"|frame(?=[ ]\d|[:=](?![ ]*\d+[ ]fps=[ ]*[\d.]+[ ]q=))"  # but not of ffmpeg
    rb"|sample(?=[ ]?:?[ ]?\d{1,18}[ ]?/[ ]?\d)"
    rb"|tick(?=[ ]\d)|up\.(?=[ ]\d)|i(?=[ ]?=[ ]?\d{1,18}[ ]?/)|round(?='[ ]?:)"
)

WORD_POSITION = re.compile(
    rb"'?(?i:(?P<epoch>(?:data[ _])?epoch(?:e?s)?(?=[ \t\[(#\d]|\.{3} )|epoch(?=[:='_])|epch(?=:)"
    rb"|epochs(?=[:=][ ]?\d{1,9}[ ]?/)|pass(?=[ ]?[:#]?[ ]?\d{1,9}(?:/\d{1,9})?[ ]?[,|][ ]"
    rb"(?:[a-z]{1,20}[ ])?(?:batch|step|iter))"
    rb"|ep(?:\.(?=[ ]\d))?)|(?P<step>" + _ADJECTIVE + rb"(?:" + _NOUN + rb")))(?![A-Za-z])"
    rb"(?:/(?:total|max|num|n)_?[a-z]{0,12}(?=[ ]?:?[ ]?\d{1,18}[ ]?/))?"
    rb"(?:\((?P<phase>[A-Za-z]+)\))?'?"
    rb"(?:[ \t]*[:=#]{1,3}[ \t]*|[ ]is[ ](?=\[?\d)|[ \t]+#?|_(?=\d)|(?=[\[\d(])|\.{3}[ ]\(?)"
    rb"'?(?P<open>[\[(][ \t]*)?(?:(?<=\[)\d{1,18}-)?"
    rb"(?P<number>(?:\d{1,18}\.\d{1,18}(?:[eE][-+]?\d{1,3})?(?![kKM]))|"
    + _ROUNDED
    + rb"|"
    + _COUNT
    + rb")'?"
    + _OF
    + rb"?'?"
    + _PERCENT
    + rb"[ \t]*(?(open)[\])]|)"
    + _PERCENT
    + rb"(?:[ ](?:it|iters|batches)(?=[,;|]))?(?![\w%]|\.\d|[-+]\d|/\d|:\d|,\d{3})"
)
"""A word with its count: groups `epoch` or `step`, `phase`, `number`, `total`."""

COUNTER = re.compile(
    rb"[ \t:,|-]*(?P<open>[\[(])?[ \t]*(?P<number>"
    + _COUNT
    + rb")"
    + _OF
    + rb"?"
    + _PERCENT
    + rb"(?(open)(?:(?<=\d)[ ][a-z]{3,12}(?=\])|[ ][A-Za-z]{2,12}:[ ]\d{1,9}[ ]\([^()\n]{1,8}\)(?=\])|))"
    + rb"[ \t]*(?(open)[\])]|)(?:[ \t]+batches)?(?:(?<=\])(?=\d)|(?![\w%]|\.\d|:\d|-\d))"
)
"""The counter within an epoch, right after it. A bare number needs brackets or a total."""

_WORD_PAIR = re.compile(
    rb"(?i:epoch[ ]?/[ ]?(?:iter(?:ation)?|step|batch))[ ]?[:=][ ]?"
    rb"(?P<epoch>\d{1,9})[ ]?/[ ]?(?P<step>\d{1,18})(?![\w.])"
)
_PHASE = rb"(?i:(?P<phase>train(?:ing)?|val(?:id(?:ation)?)?|eval(?:uation)?|test(?:ing)?))"
_LINE_STARTS = tuple(
    re.compile(pattern)
    for pattern in (
        rb"(?:\[[A-Z][a-z]{1,8}\]:[ ])?\[[ ]*(?P<epoch>" + _COUNT + rb")/[ ]*\d{1,18}\][ \t]*"
        rb"\[[ ]*(?P<step>" + _COUNT + rb")/[ ]*(?P<of>\d{1,18})\]",
        rb"\[(?P<epoch>\d{1,9}):[ ]*(?P<step>\d{1,18})/(?P<of>\d{1,18})\](?=[ ])",
        rb"[Ss]teps[ ](?P<step>" + _COUNT + rb"),(?=[ ][a-z_]+[ ]-?[\d.])",
        rb"(?i:after)[ ](?P<epoch>\d{1,9})[ ](?i:epochs?)(?=[ ]?[:,-])",
        rb"(?i:after)[ ](?P<step>"
        + _COUNT
        + rb")[ ](?i:(?:training[ ])?(?:steps?|iterations?|batches|updates?))(?=[ ]?[:,-])",
        rb"Progress on:(?P<phase>train|eval)[ ](?P<step>\d{1,9}(?:\.\d{1,3})?[kM]?)it/\S{1,20}"
        rb"[ ]rate:\S{1,20}[ ]remaining:\S{1,20}[ ]elapsed:\S{1,20}[ ]postfix:",
        rb"Progress:[ \t]*(?P<step>\d{1,3})(?:\.\d{1,3})?%(?=[ ][^\n]{0,120}loss:)",  # of all steps
        rb"\[(?P<step>\d{1,18}) \| \d{1,9}\.\d\d?\](?=[ ])",  # and the seconds since the start
        rb"(?i:(?:global[ ])?round)[ ]?[:#]?[ ]{1,3}(?P<step>\d{1,9})(?:[ ]?/[ ]?(?P<of>\d{1,9}))?"
        rb"(?=[ ]*(?:[,:|-]|\Z))",
        rb"(?P<epoch>\d{1,9})/\d{1,9} \* Epoch \((?P<phase>\w+)\):",
        rb"\[" + _PHASE + rb": (?P<epoch>\d{1,9}), (?P<step>\d{1,18}) / (?P<of>\d{1,18})\](?=[ ])",
        _PHASE + rb" \((?P<epoch>\d{1,9})/\d{1,9}\)(?=[ ])",
        _PHASE + rb"[ ](?P<epoch>\d{1,9})(?=, [a-z])",
        rb"\[(?P<epoch>" + _COUNT + rb"),[ \t]*(?P<step>" + _COUNT + rb")\](?=[ \t])",
        rb"\((?P<step>\d{1,18})/(?P<of>\d{1,18})\)(?=[ ][A-Za-z][\w ]{0,20}:[ ])",
        rb"\[#?(?P<step>" + _COUNT + rb")(?:/(?P<of>\d{1,18}))?\](?=[ \t:])",
        rb"(?P<epoch>" + _COUNT + rb")epoch:(?P<phase>\w+):\d+-(?P<step>" + _COUNT + rb")batch:",
        rb"(?P<epoch>" + _COUNT + rb")epoch results:",
        _PHASE
        + rb":?[ \t]*\[[ ]{0,4}(?P<epoch>"
        + _COUNT
        + rb")(?:/\d{1,18})?\][ \t]*(?:\d{1,3}%[ \t]*)?[\[(](?P<step>"
        + _COUNT
        + rb")/(?P<of>\d{1,18})[\])]",
        rb"(?P<step>\d{1,18})[ \t]+\|(?=[ \t]+[A-Za-z])(?![^\n;]*;[ \t]*\Z)",  # but no line of C's
        rb"(?P<epoch>\d{1,9})\|(?P<step>\d{1,18})\|",
        _PHASE
        + rb":?[ \t]+(?P<epoch>\d{1,9})(?:/\d{1,9})?"
        + _PERCENT
        + rb"[ \t]*\[[ \t]*(?P<step>"
        + _COUNT
        + rb")/(?P<of>\d{1,18})"
        + _PERCENT
        + rb"[ \t]*\]",
        _PHASE
        + rb":?[ \t]*\[[ \t]*(?P<step>"
        + _COUNT
        + rb")/[ \t]*(?P<of>\d{1,18})"
        + _PERCENT
        + rb"[ \t]*\]",
        rb"(?P<step>" + _COUNT + rb")[ ]?:(?=[ \t]+(?:[A-Za-z]|[\d.-]+,))",
        rb"(?P<phase>TRAIN|CV) Batch (?P<epoch>\d{1,9})/(?P<step>\d{1,18})(?=[ ]loss[ ])",
        rb"(?:\d{1,3}(?:\.\d{1,3})?%[ ]{1,3})?(?P<step>"
        + _COUNT
        + rb")[ ]?/[ ]?(?P<total>\d{1,18}|Unknown)(?=[ \t,]|:[ ])",
        rb"(?P<epoch>\d{1,9})[ ](?P<step>\d{1,18})(?=[ ](?i:loss)=)",
        rb"(?P<step>\d{1,18})(?=[ \t]+(?:(?:train(?:ing)?|val)[_ ])?(?i:loss)[ :=])",
        rb"(?P<step>\d{1,18})(?=[ \t]+\[[A-Z][\w ]*:)",
    )
)


_FACTORS = {b"k": 1_000, b"K": 1_000, b"M": 1_000_000}
_ANY_START = re.compile(rb"|".join(re.sub(rb"\?P<\w+>", b"?:", start.pattern) for start in _LINE_STARTS))
_GAP = re.compile(rb"[ \t,;|:/\[\]-]*")


class Position(NamedTuple):
    """A count and what it counts: `kind` is `epoch` or `step`, `noun` the printed word or empty."""

    kind: str
    span: tuple[int, int]
    end: int
    fineness: int = 0
    phase: str = ""
    total: tuple[int, int] | None = None
    noun: str = ""


_FINENESS = (
    (b"total_step", 1),
    (b"global", 9), (b"tick", 9), (b"acc", 9), (b"env", 8), (b"learner", 7), (b"grad", 3), (b"actor", 4),
    (b"frame", 8), (b"total", 8), (b"update", 6), (b"timestep", 8), (b"it", 7), (b"step", 5), (b"batch", 4),
    (b"episode", 3), (b"epch", 2),
)  # fmt: skip


def line_start(text: bytes, at: int) -> list[Position]:
    """The positions without a word at the start of a message."""
    for pattern in _LINE_STARTS if _ANY_START.match(text, at) else ():
        match = pattern.match(text, at)
        if match:
            groups = match.groupdict()
            phase = (groups.get("phase") or b"").decode()
            if phase.lower() == "test" and groups.get("step"):
                phase = "val"  # the loop over the validation set in PyTorch's ImageNet programs
            fineness = 4 if groups.get("total") else 2  # finer than an episode
            total = next((match.span(name) for name in ("total", "of") if groups.get(name)), None)
            return [
                Position(kind, match.span(kind), match.end(), fineness, phase, of_kind)
                for kind, of_kind in (("epoch", None), ("step", total))
                if groups.get(kind)
            ]
    return []


def word_pair(text: bytes, at: int) -> list[Position]:
    """The epoch and the step at `at` in the form `epoch/iter: 49/12899`; empty without them."""
    match = _WORD_PAIR.match(text, at)
    return [Position(kind, match.span(kind), match.end()) for kind in ("epoch", "step")] if match else []


def word_position(text: bytes, at: int) -> Position | None:
    """The position at `at` that starts with a word; None without one."""
    match = WORD_POSITION.match(text, at)
    if match is None:
        return None
    kind = "epoch" if match["epoch"] else "step"
    number = match["number"]
    is_rounded = number[-1:] in b"kKM"
    is_exponent = b"e+" in number
    is_whole = is_rounded or is_exponent or (b"." not in number and b"e" not in number.lower())
    if is_rounded and kind == "epoch":
        return None
    if kind == "step" and not is_whole and number.rstrip(b"0")[-1:] != b".":
        return None
    word = (match["step"] or match["epoch"]).lower()
    fineness = next((rank for part, rank in _FINENESS if part in word), 1)
    phase = (match["phase"] or b"").decode()
    noun = kind if match["epoch"] else word.decode()
    return Position(kind, match.span("number"), match.end(), fineness, phase, _total(match), noun)


def is_count(text: bytes) -> bool:
    """Whether a total is a number; a bar of unknown length has `Unknown`."""
    return re.fullmatch(_COUNT, text) is not None


_MOST_STEPS = 1e18  # of a number with an exponent, which may be larger than any float


def count(text: bytes) -> int:
    """Parse a step, which may be rounded: `12.5K` is 12,500."""
    try:
        return int(text)
    except ValueError:
        if b"e+" in text:
            return round(min(float(text), _MOST_STEPS))
        factor, digits = _FACTORS.get(text[-1:], 1), text.rstrip(b"kKM").replace(b",", b"")
        return round(float(digits) * factor) if factor > 1 else int(digits.split(b".")[0])


def step_of(text: bytes) -> int | None:
    """The step at the start of a message or after its epoch; None without one."""
    at = 0
    while position := word_position(text, at):
        if position.kind == "step":
            return count(text[slice(*position.span)])
        gap = _GAP.match(text, position.end)
        at = gap.end() if gap else position.end
    return None


def counter_at(text: bytes, at: int) -> Position | None:
    """The counter within an epoch at `at`; None without one."""
    match = COUNTER.match(text, at)
    if match is None or not (match["open"] or match["total"]):
        return None
    return Position("step", match.span("number"), match.end(), 2, "", _total(match))


def _total(match: re.Match[bytes]) -> tuple[int, int] | None:
    return match.span("total") if match["total"] else None
