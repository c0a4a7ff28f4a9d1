"""What is asked before Slurm's commands are run, and how often they are."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from batchai_magics.backends.machines.machine import CommandLine, CompletedCommand, Machine
from batchai_magics.backends.slurm.client import SlurmClient
from batchai_magics.backends.slurm.queries import NEW_JOB_INTERVAL_S
from batchai_magics.backends.slurm.runner import SlurmBackend
from batchai_magics.backends.slurm.settings import SlurmSettings
from batchai_magics.errors import CapabilityError

JOBS = 20


@pytest.fixture
def commands(monkeypatch: pytest.MonkeyPatch) -> Iterator[Counter[str]]:
    """How often each command has been run."""
    run, counts = Machine.run, Counter[str]()

    def counted(
        machine: Machine, line: CommandLine, *, timeout_s: float, result_folder: Path | None = None
    ) -> CompletedCommand:
        counts[line.arguments[0]] += 1
        return run(machine, line, timeout_s=timeout_s, result_folder=result_folder)

    monkeypatch.setattr(Machine, "run", counted)
    return counts


@pytest.mark.parametrize(
    ("conf", "variable", "named"),
    [("{}", "", "slurm.conf"), ("", "{}", "SLURM_CONF")],
    ids=["setting", "env"],
)
def test_a_configuration_that_is_not_there_is_named_before_any_command_waits_for_it(
    commands, tmp_path, monkeypatch, conf, variable, named
):
    missing = tmp_path / "slurm.conf"
    monkeypatch.setenv("SLURM_CONF", variable.format(missing))
    slurm = SlurmClient(Machine(), conf.format(missing))
    for _ in range(2):
        with pytest.raises(CapabilityError, match=rf"{named}: {missing} does not exist"):
            slurm.nodes()
    assert not commands


@pytest.mark.slow
def test_many_jobs_are_submitted_with_few_questions(place, commands):
    look_s = SlurmSettings().look_s
    settings = replace(place.backend.settings, look_s=look_s)
    began_s = time.monotonic()
    with closing(SlurmBackend(settings)) as backend:
        for number in range(JOBS):
            backend.create(place.job(f"job{number}"), place.spec("true"))
    took_s = time.monotonic() - began_s
    assert commands["sbatch"] == JOBS
    assert commands["squeue"] <= 1 + took_s / NEW_JOB_INTERVAL_S
    assert commands["sinfo"] <= 3 + took_s / look_s
