"""Random runs of a training script: what they print, and where each number belongs."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from random import Random

from tests.jobs.printed_logs import ERR, OUT, Print

LOSS, ACCURACY = "loss", "val_acc"
STARTED = 1_700_000_000.0


@dataclass(frozen=True)
class Number:
    """A number that an attempt prints at a step of an epoch, in one of several fits."""

    name: str
    value: float
    fit: int
    epoch: int
    step: int
    rank: int | None = None


@dataclass(frozen=True)
class ScriptKind:
    """How a script prints the numbers of training, and those at the end of an epoch.

    Attributes:
        step_form: A step; empty if it prints none.
        step_file: Where it prints steps.
        is_counted_over_run: Its steps are counted over the run.
        has_length: It prints how far the counter goes.
        epoch_form: The end of an epoch; empty if it prints none.
    """

    step_form: str = ""
    step_file: str = OUT
    is_counted_over_run: bool = False
    has_length: bool = True
    epoch_form: str = ""


_BAR = "{step}/{length} [00:01<00:01, 9.0it/s, loss={value}]"

KINDS = {
    "epochs": ScriptKind(epoch_form="Epoch {epoch}: val_acc={value}\n"),
    "steps of the run": ScriptKind("step {step}: loss={value}\n", is_counted_over_run=True),
    "steps of the run, epochs": ScriptKind(
        "step {step}: loss={value}\n", is_counted_over_run=True, epoch_form="Epoch {epoch}: val_acc={value}\n"
    ),
    "steps of epochs": ScriptKind("epoch {epoch} step {step}/{length} loss {value}\n"),
    "steps of epochs without a length": ScriptKind(
        "epoch {epoch} step {step} loss {value}\n", has_length=False
    ),
    "steps of epochs, their ends": ScriptKind(
        "epoch {epoch} step {step}/{length} loss {value}\n",
        epoch_form="epoch {epoch} val_acc {value}\n",
    ),
    "bars of epochs": ScriptKind("\rEpoch {epoch}:  10%|##  | " + _BAR, ERR),
    "bars, epochs": ScriptKind("\r 10%|##  | " + _BAR, ERR, epoch_form="Epoch {epoch}: val_acc={value}\n"),
}
"""Scripts by what they print."""


class Script:
    """A script that runs in one or several attempts.

    Attributes:
        prints: What it prints, in the order of writing.
        numbers: The numbers that belong to the run, in this order.
    """

    def __init__(self, seed: int, kind: str = "") -> None:
        random = self._random = Random(seed)
        self.kind_name = kind or random.choice([*KINDS])
        self._kind = KINDS[self.kind_name]
        self.length = random.randint(2, 6)  # steps of an epoch
        self.fit_count = random.choice([1, 1, 1, 2, 3])
        self.has_headings = random.random() < 0.6
        self.epoch_count = random.randint(2, 4)
        self.ranks: list[int | None] = random.choice([[None], [None], [0, 1]])
        self.prints: list[Print] = []
        self.numbers: list[Number] = []
        self._time = STARTED
        self._value = 0
        attempts = random.choice([1, 1, 2, 3, 3])
        places = [(fit, epoch) for fit in range(self.fit_count) for epoch in range(1, self.epoch_count + 1)]
        begin = 0
        reached = 0
        for attempt in range(1, attempts + 1):
            is_last = attempt == attempts
            if attempt > 1:
                self._print(OUT, f"[batchai] attempt {attempt} begins on node-1: a node of it was lost\n")
                begin = self._resume_at(reached)
            end = len(places) if is_last and random.random() < 0.5 else random.randint(begin + 1, len(places))
            ends_within = random.random() < 0.5
            self._attempt(places[begin:end], ends_within=ends_within and not is_last)
            reached = min(max(begin, end - ends_within), len(places) - 1)

    def _resume_at(self, reached: int) -> int:
        """The place at which an attempt begins: at a checkpoint, or anew."""
        per_fit = self.epoch_count
        first = 0 if self.has_headings else reached // per_fit * per_fit
        # without a heading, an attempt that goes on where a fit begins looks like one that starts anew
        choices = [
            place for place in range(max(first, 1), reached + 1) if self.has_headings or place % per_fit
        ]
        return self._random.choice([0, *choices]) if choices else 0

    def _attempt(self, places: list[tuple[int, int]], *, ends_within: bool) -> None:
        first = places[0]
        self.numbers = [number for number in self.numbers if (number.fit, number.epoch) < first]
        fit_before = None
        for place in places:
            fit, epoch = place
            if self.has_headings and self.fit_count > 1 and fit != fit_before:
                self._print(OUT, f"Fold {fit + 1}\n")
            fit_before = fit
            is_cut = ends_within and place == places[-1] and place != first
            last = self._random.randint(1, self.length) if is_cut else self.length
            if self._kind.step_form:
                for step in range(1, last + 1):
                    self._print_step(fit, epoch, step)
            if self._kind.epoch_form and not is_cut:
                self._print_number(ACCURACY, self._kind.epoch_form, OUT, fit, epoch, self.length, epoch)
        if self._kind.step_file == ERR:
            self._print(ERR, "\n")

    def _print_step(self, fit: int, epoch: int, step: int) -> None:
        counted = (epoch - 1) * self.length + step if self._kind.is_counted_over_run else step
        self._print_number(LOSS, self._kind.step_form, self._kind.step_file, fit, epoch, step, counted)

    def _print_number(
        self, name: str, form: str, file: str, fit: int, epoch: int, step: int, counted: int
    ) -> None:
        for rank in self.ranks:
            self._value += 1
            value = round(self._value / 1000, 3)
            text = form.format(epoch=epoch, step=counted, length=self.length, value=value)
            self._print(file, text, rank)
            self.numbers.append(Number(name, value, fit, epoch, step, rank))

    def _print(self, file: str, text: str, rank: int | None = None) -> None:
        self._time += 0.7
        self.prints.append(Print(file, self._time, text, rank))

    def segments(self, name: str) -> list[dict[float, float]]:
        """The mean over ranks at each position, of each fit that has the metric."""
        by_fit: dict[int, dict[float, dict[int | None, float]]] = defaultdict(lambda: defaultdict(dict))
        for number in self.numbers:
            if number.name == name:
                position = (number.epoch - 1) * self.length + number.step
                if not self._kind.step_form:
                    position = number.epoch
                by_fit[number.fit][float(position)][number.rank] = number.value
        return [
            {position: sum(of.values()) / len(of) for position, of in sorted(values.items())}
            for _, values in sorted(by_fit.items())
        ]
