"""Submits a sweep: stores its definition and creates the jobs of its trials, or continues an earlier one."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace

from batchai_magics.backends.base import Backend
from batchai_magics.backends.base.protocol import run_names, run_number
from batchai_magics.cell.cell_options import TPE
from batchai_magics.cell.sweep_request import SweepRequest
from batchai_magics.config import Settings
from batchai_magics.errors import CapabilityError, ConflictError
from batchai_magics.jobs.submit import checked_request, prepare
from batchai_magics.jobs.sweeps import sweep_steps
from batchai_magics.jobs.sweeps.optuna_study import optuna_module
from batchai_magics.jobs.sweeps.sweep_definition import (
    SweepDefinition,
    SweepFiles,
    continued,
    definition_of,
    digest_of,
)
from batchai_magics.jobs.sweeps.sweep_handle import Sweep

BATCH = 10_000  # jobs whose descriptions are in memory at once


@dataclass(frozen=True)
class SubmittedSweep:
    """The sweep of a request, and a message about its submission; empty for a new one."""

    sweep: Sweep
    note: str = ""


def submit_sweep(backend: Backend, request: SweepRequest, settings: Settings) -> SubmittedSweep:
    """Creates a sweep, or continues the one of its name that the same cell has created.

    Continuing runs the trials that are new, failed or cancelled. An edited cell starts the next sweep of the
    name.

    Raises:
        CapabilityError: The backend lacks a feature that the trials require; nothing was created.
        ConflictError: A different sweep of the name exists and the cell refuses that (`--same`).
        NotFoundError: Something that the jobs refer to, such as their cluster, does not exist.
        SpecError: A value of a job is impossible on its cluster.
    """
    if request.options.search == TPE or request.options.prune:
        optuna_module()
    first = request.template or request.first
    check_sweep(backend, request, settings)
    host = backend.host_note(first.spec) if first.spec.container_settings else ""
    templates = [request.template] if request.template else []
    prepared, _ = prepare(backend, [*templates, *request.cells], settings)
    template = prepared.pop(0) if templates else None
    request = replace(request, template=template, cells=prepared)
    experiment = first.id.parent
    files = SweepFiles(backend, settings.share, experiment.name)
    definition, note = _definition(files, request)
    sweep = Sweep(backend, experiment, files, definition.name)
    if definition.name in files.names():
        sweep_steps.check_rights(sweep, sweep.stored_trials())
    files.write(definition)
    again, notes = _create_trials(sweep, definition, request)
    sweep.step()
    warnings = (f"Warning: {text}." for text in (host, *notes) if text)
    repeated = f"{again} {'trials run' if again != 1 else 'trial runs'} again." if again else ""
    return SubmittedSweep(sweep, " ".join(filter(None, (note, repeated, *warnings))))


def check_sweep(backend: Backend, request: SweepRequest, settings: Settings) -> None:
    """Checks that the backend supports a sweep; nothing is sent.

    Raises:
        CapabilityError: It cannot run sweeps, or lacks a feature that the trials require.
        SpecError: A value of a job is impossible there.
    """
    if backend.storage is None:
        text = f"sweeps are not supported by the {backend.capabilities.name} backend"
        hint = "Their definitions are kept on a file share. Submit jobs instead. Nothing was sent."
        raise CapabilityError(text, code="NotSupported", hint=hint)
    checked_request(backend, request.template or request.first, settings)


def _definition(files: SweepFiles, request: SweepRequest) -> tuple[SweepDefinition, str]:
    """The definition to store, and a message about an earlier sweep of the name."""
    present = run_names(files.names(), request.name)
    latest = files.read(present[-1]) if present else None
    fresh = definition_of(request, request.name, now=time.time())
    if latest is None:
        return fresh, ""
    if latest.digest == digest_of(request) and not request.first.is_new:
        return continued(latest, fresh), f"The sweep {latest.name} continues."
    if request.first.is_same:
        text = f"a different sweep called {latest.name} exists"
        raise ConflictError(text, code="Conflict", hint="Leave out --same to start the next one.")
    name = f"{request.name}-{run_number(latest.name, request.name) + 1}"
    changed = "" if request.first.is_new else f"The cell changed since {latest.name}: running as {name}."
    return replace(fresh, name=name), changed


def _create_trials(sweep: Sweep, definition: SweepDefinition, request: SweepRequest) -> tuple[int, list[str]]:
    """Creates the jobs of trials that have none or failed.

    Returns:
        The number of trials that run again, and the backend's notes on the new jobs.
    """
    trials = {trial.number: trial for trial in sweep.stored_trials()}
    numbers = {str(parameters): number for number, parameters in enumerate(definition.trials, 1)}
    due, notes = [], dict[str, None]()
    for index, parameters in enumerate(request.trials):
        number = numbers[str(parameters)]
        trial = trials.get(number)
        if trial is None or not trial.runs or trial.is_repeatable:
            due.append((index, (number, len(trial.runs) + 1 if trial else 1, parameters)))
    for begin in range(0, len(due), BATCH):
        part = due[begin : begin + BATCH]
        jobs = [
            sweep_steps.new_job_of(sweep, definition, request.template or request.cells[index], due_job)
            for index, due_job in part
        ]
        notes |= dict.fromkeys(sweep_steps.create(sweep, jobs))
    return sum(run > 1 for _, (_, run, _) in due), [*notes]
