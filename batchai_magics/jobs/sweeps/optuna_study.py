"""Optuna's choices for a sweep: the next trials by TPE, and which trials to prune.

A study is created from the trials each time, so that any process can take the next step.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Any

from batchai_magics.cell.search_space import Choices, Distribution, SearchSpace
from batchai_magics.errors import CapabilityError
from batchai_magics.jobs.sweeps.trial import Trial, TrialResult
from batchai_magics.models.runs.labels import Parameter

WARM_UP_TRIALS = 4  # how many trials must have ended before any is pruned


@dataclass(frozen=True)
class Study:
    """A study of a sweep: its space, the seed, whether the greatest value wins, its submitted trials."""

    space: SearchSpace
    seed: int
    is_max: bool
    trials: Sequence[tuple[Trial, TrialResult]]

    def next_trials(self, count: int) -> list[dict[str, Parameter]]:
        """The parameters of the next trials, by TPE; the same for the same trials.

        Raises:
            CapabilityError: Optuna is not installed.
        """
        optuna = optuna_module()
        seed = self.seed + len(self.trials)
        study = self._study(optuna, optuna.samplers.TPESampler(seed=seed, constant_liar=True))
        suggestions = [study.ask(self._distributions(optuna)).params for _ in range(count)]
        domains = self.space.domains
        return [
            {name: domains[name].readable(value) for name, value in suggestion.items()}
            for suggestion in suggestions
        ]

    def are_pruned(self) -> list[bool]:
        """Whether each open trial is to be pruned: its best value is worse than the others' median.

        Raises:
            CapabilityError: Optuna is not installed.
        """
        optuna = optuna_module()
        study = self._study(optuna, optuna.samplers.RandomSampler(seed=self.seed))
        pruner = optuna.pruners.MedianPruner(n_startup_trials=WARM_UP_TRIALS)
        frozen = study.get_trials(deepcopy=False)
        return [
            trial.is_open and bool(result.points) and bool(pruner.prune(study, studied))
            for (trial, result), studied in zip(self.trials, frozen, strict=True)
        ]

    def _study(self, optuna: ModuleType, sampler: Any) -> Any:
        """A study in memory with all trials."""
        direction = "maximize" if self.is_max else "minimize"
        study = optuna.create_study(direction=direction, sampler=sampler)
        study.add_trials([self._frozen(optuna, *trial) for trial in self.trials])
        return study

    def _frozen(self, optuna: ModuleType, trial: Trial, result: TrialResult) -> Any:
        domains = self.space.domains
        # A trial of an earlier space may be outside of this one: its parameters are then left out.
        is_inside = all(domain.has(trial.parameters.get(name)) for name, domain in domains.items())
        known = {name: trial.parameters[name] for name in domains} if is_inside else {}
        states = optuna.trial.TrialState
        best = None if trial.has_failed else result.best
        value = best if best is not None and math.isfinite(best) else None
        state = states.COMPLETE if value is not None else states.FAIL
        state = states.RUNNING if trial.is_open else states.PRUNED if trial.is_pruned else state
        return optuna.trial.create_trial(
            state=state,
            params=known,
            distributions=self._distributions(optuna) if is_inside else {},
            value=value if state in (states.COMPLETE, states.PRUNED) else None,
            intermediate_values=dict(result.points),
        )

    def _distributions(self, optuna: ModuleType) -> dict[str, Any]:
        distributions, known = optuna.distributions, {}
        for name, domain in self.space.domains.items():
            if isinstance(domain, Choices):
                known[name] = distributions.CategoricalDistribution(domain.values)
            elif domain.scale is Distribution.INTEGER:
                known[name] = distributions.IntDistribution(int(domain.low), int(domain.high))
            else:
                is_log = domain.scale is Distribution.LOG
                known[name] = distributions.FloatDistribution(domain.low, domain.high, log=is_log)
        return known


def optuna_module() -> ModuleType:
    """The library.

    Raises:
        CapabilityError: It is not installed.
    """
    try:
        import optuna
    except ImportError:
        text, hint = "--search tpe and --prune need Optuna", "pip install 'batchai-magics[sweep]'"
        raise CapabilityError(text, code="NotSupported", hint=hint) from None
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    warnings.filterwarnings("ignore", category=optuna.exceptions.ExperimentalWarning)
    return optuna
