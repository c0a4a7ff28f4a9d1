"""How JSON lines of one form are read without parsing them: where the values of their keys stand."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from batchai_magics.metrics.formats.line_plan import LinePlan, NumberPlace, Role, digits_in, plan_of_numbers
from batchai_magics.metrics.grammar.metric_names import TEST, VALIDATION, phase_of_word, split_phase
from batchai_magics.metrics.reading.line_prefixes import DIGITS_TO_ZERO, TimestampSlices, timestamp_slices

JSON_STEP_KEYS = ("global_step", "step", "iteration", "iter")
JSON_TIME_KEYS = ("timestamp", "time", "ts")
JSON_POSITION_KEYS = {*JSON_STEP_KEYS, *JSON_TIME_KEYS, "epoch", "rank", "pid", "version", "n_parameters"}
_PHASE_KEYS = frozenset(("mode", "phase", "split", "stage", "type", "_type"))
_PAIR = re.compile(
    rb'[ \t]*"(?P<key>[^"\\\x00-\x1f]*)"[ \t]*:[ \t]*(?:'
    rb"(?P<number>-?(?P<whole>\d+)(?:\.\d+)?(?:[eE][-+]?\d+)?|NaN|-?Infinity)"
    rb'|"(?P<text>[^"\\\x00-\x1f]*)"|true|false|null)[ \t]*(?:,|\Z)'
)
_COUNT = re.compile(rb"\d{1,15}")
_EPOCH = re.compile(rb"\d{1,15}(?:\.\d{0,15})?")
_DIGITAL = re.compile(rb"\d{9,20}(?:\.\d{0,12})?")
_MAX_NUMBER_BYTES = 40
_MIN_TIME_BYTES, _MAX_TIME_BYTES = 19, 64


def object_plan(match: re.Match[bytes]) -> LinePlan | None:
    """Where the numbers stand in objects of a form; None if one of them holds lists or objects."""
    found = _FlatObject.of(match)
    if found is None or not found.is_plain:
        return None
    numbers, text = found.numbers, match.string
    texts = (
        (key, pair["text"].decode("utf-8", "replace")) for key, pair in found.pairs.items() if pair["text"]
    )
    phase = told_phase(texts)
    places = [
        NumberPlace(name_in_phase(key, phase), place)
        for key, place in numbers.items()
        if key not in JSON_POSITION_KEYS
    ]
    return plan_of_numbers(
        Role.OBJECT,
        places,
        timestamp=found.text_time,
        step=found.step,
        epoch=numbers.get("epoch"),
        rank=numbers.get("rank"),
        seconds=numbers.get(found.time_key),
        fixed=tuple(run for pair in found.pairs.values() for run in digits_in(text, *pair.span("key"))),
        refused=tuple(found.no_zeros),
    )


def told_phase(texts: Iterable[tuple[str, str]]) -> str | None:
    """The phase of an object's numbers: `"mode": "val"`, `"_type": "val_epoch"`."""
    words = (re.split(r"[\W_]", text, maxsplit=1)[0] for key, text in texts if key in _PHASE_KEYS)
    return next(filter(None, map(phase_of_word, words)), None)


def name_in_phase(key: str, phase: str | None) -> str:
    """The name of a number of a phase, which says so unless it is of training."""
    before = {VALIDATION: "val_", TEST: "test_"}.get(phase or "", "")
    return key if split_phase(key)[0] else before + key


@dataclass(frozen=True)
class _FlatObject:
    """The pairs of an object by key, and where its numbers stand."""

    pairs: Mapping[str, re.Match[bytes]]
    numbers: Mapping[str, slice]

    @classmethod
    def of(cls, match: re.Match[bytes]) -> _FlatObject | None:
        at, end = match.start("object") + 1, match.end("object") - 1
        pairs: dict[str, re.Match[bytes]] = {}
        while at < end:
            pair = _PAIR.match(match.string, at, end)
            key = pair["key"].decode("utf-8", "replace") if pair else ""
            if pair is None or key in pairs:
                return None
            pairs[key], at = pair, pair.end()
        numbers = {key: slice(*pair.span("number")) for key, pair in pairs.items() if pair["number"]}
        return cls(pairs, numbers)

    @property
    def step(self) -> slice | None:
        return next((self.numbers[key] for key in JSON_STEP_KEYS if key in self.numbers), None)

    @property
    def time_key(self) -> str:
        return next((key for key in JSON_TIME_KEYS if key in self.pairs), "")

    @property
    def text_time(self) -> TimestampSlices | None:
        """Where the date and time in a text stand."""
        begin, end = self.pairs[self.time_key].span("text") if self.time_key else (-1, -1)
        if end - begin < _MIN_TIME_BYTES:
            return None
        zeroed = self.pairs[self.time_key].string.translate(DIGITS_TO_ZERO)
        return timestamp_slices(zeroed, begin, min(end, begin + _MAX_TIME_BYTES))

    @property
    def no_zeros(self) -> Iterator[tuple[slice, bytes]]:
        """Where zeros are no JSON, or not as a float has them."""
        for pair in self.pairs.values():
            if len(pair["whole"] or b"") > 1:
                begin = pair.start("whole")
                yield slice(begin, begin + 1), b"0"
            if pair["number"] and len(pair["number"]) == 2 and pair["number"][:1] == b"-":
                yield slice(*pair.span("number")), b"-0"  # an integer, whose zero has no sign

    @property
    def is_plain(self) -> bool:
        """Whether each position is a plain number, and each number a metric by its key."""
        return self._is_placed and not (
            {"name", "value"} <= self.pairs.keys()
            or sum(key in self.pairs for key in JSON_TIME_KEYS) > 1
            or any(place.stop - place.start > _MAX_NUMBER_BYTES for place in self.numbers.values())
            or _DIGITAL.fullmatch((self.pairs[self.time_key]["text"] or b"") if self.time_key else b"")
        )

    @property
    def _is_placed(self) -> bool:
        step, epoch = self.step, self.numbers.get("epoch")
        if not (step or epoch):
            return False
        counts = [place for place in (step, self.numbers.get("rank")) if place]
        is_epoch = epoch is None or _EPOCH.fullmatch(self._text(epoch)) is not None
        return is_epoch and all(_COUNT.fullmatch(self._text(place)) for place in counts)

    def _text(self, place: slice) -> bytes:
        return next(iter(self.pairs.values())).string[place]
