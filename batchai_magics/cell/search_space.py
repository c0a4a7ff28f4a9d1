"""The search space of a sweep, as `--sweep` describes it; the trials of a grid and of a random search."""

from __future__ import annotations

import enum
import itertools
import math
import random
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from batchai_magics.errors import UsageError
from batchai_magics.models.runs.labels import MAX_PARAMETERS, Parameter, is_parameter, value_of

OPTION = "--sweep"
MAX_TRIALS = 100_000
FORM = 'write it as --sweep "lr=1e-4,1e-3 batch=32,64" or --sweep "lr=log(1e-5,1e-1)" --trials 20'
_NAME = re.compile(r"[A-Za-z_]\w*")
_PART = re.compile(r"\s*(?P<name>[^\s=(),]+)\s*=\s*(?P<values>(?:[^\s()]*\([^()]*\)|[^\s()]+)?)(?=\s|$)")
_CALL = re.compile(r"(?P<kind>\w+)\((?P<bounds>.*)\)")
_NUMBER = r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?"
_OTHER_FORM = re.compile(
    rf"{_NUMBER}(?::|\.\.){_NUMBER}(?::{_NUMBER})?|\[.*\]|\(.*\)|\{{.*\}}"
)  # of a range or list
_DRAWS_PER_TRIAL = 100  # of a random search, before all distinct trials are taken to be found


class Distribution(str, enum.Enum):
    """How the values of a range are drawn; the value is its word in `--sweep`."""

    UNIFORM = "uniform"  # each number is equally likely
    LOG = "log"  # each order of magnitude is
    INTEGER = "int"  # each whole number is, both ends included


@dataclass(frozen=True)
class Choices:
    """A parameter that takes one of these values."""

    values: tuple[Parameter, ...]

    @property
    def lowest(self) -> Parameter:
        """The first value."""
        return self.values[0]

    def has(self, value: object) -> bool:
        """Whether it is one of them."""
        return value in self.values

    def readable(self, value: Parameter) -> Parameter:
        """A value as it is."""
        return value

    def draw(self, generator: random.Random) -> Parameter:
        """A random value."""
        return generator.choice(self.values)


@dataclass(frozen=True)
class Range:
    """A parameter that takes a number between two bounds."""

    scale: Distribution
    low: float
    high: float

    @property
    def lowest(self) -> Parameter:
        """The lower bound."""
        return int(self.low) if self.scale is Distribution.INTEGER else self.low

    def has(self, value: object) -> bool:
        """Whether it is a number between them."""
        return isinstance(value, (int, float)) and self.low <= value <= self.high

    def readable(self, value: Parameter) -> Parameter:
        """A value with as many digits as people read, between the bounds."""
        if not isinstance(value, float):
            return value
        return min(max(float(f"{value:.6g}"), self.low), self.high)

    def draw(self, generator: random.Random) -> Parameter:
        """A random value."""
        if self.scale is Distribution.INTEGER:
            return generator.randint(int(self.low), int(self.high))
        if self.scale is Distribution.LOG:
            drawn = math.exp(generator.uniform(math.log(self.low), math.log(self.high)))
        else:
            drawn = generator.uniform(self.low, self.high)
        return self.readable(drawn)


Domain = Choices | Range
Trials = list[dict[str, Parameter]]


@dataclass(frozen=True)
class SearchSpace:
    """The parameters of a sweep by name, and the values that each may take."""

    domains: Mapping[str, Domain]

    @property
    def is_finite(self) -> bool:
        """Whether all parameters are lists of values."""
        return all(isinstance(domain, Choices) for domain in self.domains.values())

    @property
    def grid_size(self) -> int:
        """The number of combinations of the listed values."""
        return math.prod(
            len(domain.values) for domain in self.domains.values() if isinstance(domain, Choices)
        )

    @property
    def lowest(self) -> dict[str, Parameter]:
        """The first value of each parameter, or the lower bound of its range."""
        return {name: domain.lowest for name, domain in self.domains.items()}

    def grid(self) -> Trials:
        """Every combination of the values; the last parameter varies fastest."""
        values = [domain.values for domain in self.domains.values() if isinstance(domain, Choices)]
        return [dict(zip(self.domains, row, strict=True)) for row in itertools.product(*values)]

    def sample(self, count: int, seed: int) -> Trials:
        """Distinct random trials; a larger count continues the same sequence.

        Fewer than `count` if there are no more.
        """
        generator, trials = random.Random(seed), dict[str, dict[str, Parameter]]()
        for _ in range(count * _DRAWS_PER_TRIAL):
            drawn = {name: domain.draw(generator) for name, domain in self.domains.items()}
            trials.setdefault(str(drawn), drawn)
            if len(trials) == count or (self.is_finite and len(trials) == self.grid_size):
                break
        return list(trials.values())


def search_space(text: str, *, is_stored: bool = False) -> SearchSpace:
    """Reads `lr=1e-4,1e-3 batch=32,64` or `lr=log(1e-5,1e-1) dropout=uniform(0,.5) layers=int(2,8)`.

    What a stored sweep has as a text, such as `lr=0.1:0.3`, stays one, though it is refused in a new sweep.

    Raises:
        UsageError: It is invalid; the message names the parameter.
    """
    domains: dict[str, Domain] = {}
    position, text = 0, text.rstrip()
    if not text:
        raise UsageError(f"{OPTION}: no parameter is given", hint=FORM)
    while position < len(text):
        match = _PART.match(text, position)
        if match is None:
            raise UsageError(f"{OPTION}: {text[position:].strip()!r} is not NAME=VALUES", hint=FORM)
        name, position = match["name"], match.end()
        _check_name(name)
        if name in domains:
            raise UsageError(f"{OPTION}: the parameter {name} is there twice")
        if not is_stored:
            _check_form(name, match["values"])
        domains[name] = _domain(name, match["values"])
    return SearchSpace(domains)


def listed_trials(rows: object) -> Trials:
    """The trials of a DataFrame, or of a list of dicts, row by row; duplicates are left out.

    Raises:
        UsageError: A value is not a number, Boolean or short text; the message names row and column.
    """
    records = rows.to_dict("records") if hasattr(rows, "to_dict") else rows
    if not isinstance(records, Sequence) or isinstance(records, (str, bytes)) or not records:
        raise UsageError(f"{OPTION}: the rows of a sweep are a DataFrame or a list of dicts, not empty")
    trials = [_checked_row(number, row) for number, row in enumerate(records)]
    names = list(trials[0])
    for number, trial in enumerate(trials):
        if missing := {*names} ^ {*trial}:
            raise UsageError(f"{OPTION}: row {number} and row 0 differ in {', '.join(sorted(missing))}")
    return list({str(trial): trial for trial in trials}.values())


def _check_name(name: str) -> None:
    if not _NAME.fullmatch(name):
        hint = "Use letters, digits and underscores: the script finds it as $PARAM_NAME."
        raise UsageError(f"{OPTION}: {name!r} is not a name for a parameter", hint=hint)


def _check_form(name: str, text: str) -> None:
    """Raises UsageError for a range or list as other programs write them."""
    if _OTHER_FORM.fullmatch(text):
        hint = f"Values: {name}=0.1,0.3; a range: {name}=uniform(0.1,0.3) or log(0.1,0.3), with --trials N"
        raise UsageError(f"{OPTION}: {name}={text} is neither a list of values nor a range", hint=hint)


def _domain(name: str, text: str) -> Domain:
    if match := _CALL.fullmatch(text):
        return _range(name, match["kind"], match["bounds"])
    listed = text.split(",")
    if "" in listed:
        raise UsageError(f"{OPTION}: {name} has an empty value in {text!r}", hint=FORM)
    values: dict[str, Parameter] = {}
    for word in listed:
        value = value_of(word)
        if isinstance(value, bool) and word not in ("True", "False"):
            value = word
        values.setdefault(str(value), value)  # 1 is not True
    return Choices(tuple(values.values()))


def _range(name: str, kind: str, bounds: str) -> Range:
    where = f"{OPTION}: {name}={kind}({bounds})"
    if kind not in [scale.value for scale in Distribution]:
        raise UsageError(f"{where}: there is no {kind}(…)", hint="Use uniform(LOW,HIGH), log(…) or int(…).")
    scale, numbers = Distribution(kind), [value_of(text.strip()) for text in bounds.split(",")]
    if len(numbers) != 2 or any(isinstance(number, (bool, str)) for number in numbers):
        raise UsageError(f"{where}: expected two numbers, as in {kind}(1,10)")
    low, high = (float(number) for number in numbers)
    if not low < high:
        raise UsageError(f"{where}: the first bound must be less than the second")
    if scale is Distribution.LOG and low <= 0:
        raise UsageError(f"{where}: the bounds of log(…) must be positive")
    if scale is Distribution.INTEGER and not (low.is_integer() and high.is_integer()):
        raise UsageError(f"{where}: the bounds of int(…) must be whole numbers")
    return Range(scale, low, high)


def _checked_row(number: int, row: object) -> dict[str, Parameter]:
    if not isinstance(row, Mapping) or not row or len(row) > MAX_PARAMETERS:
        raise UsageError(f"{OPTION}: row {number} is not a mapping of 1 to {MAX_PARAMETERS} parameters")
    trial: dict[str, Parameter] = {}
    for column, value in row.items():
        name, item = str(column), getattr(value, "item", None)
        value = item() if callable(item) else value  # of a NumPy scalar
        _check_name(name)
        if not is_parameter(value):
            text = f"{OPTION}: row {number}, column {name}: {value!r} is not a number, Boolean or short text"
            raise UsageError(text)
        trial[name] = value
    return trial
