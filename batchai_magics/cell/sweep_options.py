"""The options of a sweep as values: how it searches, how many trials run at once, what the best one is."""

from __future__ import annotations

import re
import shlex
from argparse import Namespace
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from batchai_magics.cell.search_space import FORM
from batchai_magics.errors import UsageError
from batchai_magics.models.stop_conditions import metric_name
from batchai_magics.options.job_options import count

GRID, RANDOM, TPE, ROWS = "grid", "random", "tpe", "rows"
SEARCHES = (GRID, RANDOM, TPE)  # of --search; rows come from a variable
PRUNERS = ("median",)
_OF_SWEEP = ("trials", "seed", "search", "parallel", "best", "retry_failed", "prune")
SWEEP_FLAGS = ("--sweep", "--seeds", *(f"--{name.replace('_', '-')}" for name in _OF_SWEEP))
_GOAL = re.compile(r"(?:(?P<word>min|max)\s+)?(?P<metric>[A-Za-z_][\w./%-]*)")


def is_sweep(line: str) -> bool:
    """Whether a magic line describes a sweep."""
    words = words_of(line)
    return is_given("--sweep", words) or is_given("--seeds", words)


def words_of(line: str) -> list[str]:
    """The words of a magic line; none of one with an unclosed quote, which its parser reports."""
    try:
        return shlex.split(line)
    except ValueError:
        return []


def is_given(flag: str, words: Sequence[str]) -> bool:
    """Whether an option is among the words of a line."""
    return any(word.partition("=")[0] == flag for word in words)


class Goal(NamedTuple):
    """What makes a trial the best: the metric, empty for the headline, and whether the greatest value wins.

    None: as the metric's name says.
    """

    metric: str = ""
    is_max: bool | None = None

    @property
    def text(self) -> str:
        """The text of `--best`; empty for the headline."""
        word = "" if self.is_max is None else ("max " if self.is_max else "min ")
        return f"{word}{self.metric}" if self.metric else ""


HEADLINE = Goal()


@dataclass(frozen=True)
class SweepOptions:
    """The options of a sweep. None: not given."""

    space: str  # the parameters, or the name of a variable with rows; empty: seeds alone
    seeds: int = 0  # how often each trial runs, with a seed of its own; 0: once, without one
    trials: int | None = None
    seed: int = 0
    search: str = ""
    parallel: int = 0  # trials at once; 0: as many as there are nodes for
    goal: Goal = HEADLINE
    retries: int = 0
    prune: str = ""


def sweep_options_of(given: Namespace) -> SweepOptions | None:
    """The options of `--sweep` and `--seeds`; None without both.

    Raises:
        UsageError: A value is invalid, or belongs to a sweep and there is none; the message names the option.
    """
    if given.sweep is None and given.seeds is None:
        lonely = next((name for name in _OF_SWEEP if getattr(given, name) is not None), None)
        if lonely:
            flag = f"--{lonely.replace('_', '-')}"
            raise UsageError(f"{flag} is given without --sweep or --seeds, which it belongs to", hint=FORM)
        return None
    return SweepOptions(
        space=given.sweep or "",
        seeds=_count("--seeds", given.seeds),
        trials=_count("--trials", given.trials) or None,
        seed=seed_of(given.seed),
        search=given.search or "",
        parallel=_count("--parallel", given.parallel),
        goal=goal_of(given.best),
        retries=_count("--retry-failed", given.retry_failed),
        prune=given.prune or "",
    )


def _count(option: str, text: str | None) -> int:
    """The number of an option; 0 if it is not given."""
    return 0 if text is None else count(option, text)


def goal_of(text: str | None) -> Goal:
    """The goal of `--best "min val_loss"` or `--best accuracy`; without a text, the headline metric.

    Raises:
        UsageError: It is neither.
    """
    if text is None:
        return HEADLINE
    match = _GOAL.fullmatch(text.strip())
    if not match:
        raise UsageError(f'--best {text}: write it as "min val_loss", "max accuracy" or accuracy')
    word = match["word"]
    return Goal(metric_name(match["metric"]), None if word is None else word == "max")


def seed_of(text: str | None) -> int:
    """The number of `--seed`, by default 0; raises UsageError for anything but a whole number."""
    if text is not None and not re.fullmatch(r"[0-9]{1,9}", text):
        raise UsageError(f"--seed {text}: expected a whole number of at least 0")
    return int(text or 0)
