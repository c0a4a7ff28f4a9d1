"""The text of a dry run: what a cell would do. Writes nothing.

Requests are only made to a paid backend for its prices, to a server for what it does with an image, and to
all backends for the jobs after which a job is to start.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Iterator, Sized

from batchai_magics.backends.base import Backend
from batchai_magics.backends.base.backend_registry import default_vm_size, host_note, is_paid, open_backend
from batchai_magics.cell.cell_request import CellRequest, describe
from batchai_magics.cell.sweep_request import SweepRequest
from batchai_magics.config import Settings
from batchai_magics.errors import BatchAIError
from batchai_magics.jobs import submit
from batchai_magics.jobs.predecessors import check_predecessors
from batchai_magics.jobs.sweeps import sweep_submission
from batchai_magics.launch import planning as launch
from batchai_magics.launch.job_bounds import JobBounds
from batchai_magics.launch.plan import LaunchMode, Plan, PlanNode
from batchai_magics.launch.toolkits import JobSite
from batchai_magics.models import vm_sizes
from batchai_magics.models.resource_ids import ResourceId
from batchai_magics.models.secret_masking import SecretMask
from batchai_magics.options.option import DisplayText

_MAX_TRIALS = 20  # that a dry run lists


def dry_run_text(
    request: CellRequest, settings: Settings, *, created_before: Collection[ResourceId] = ()
) -> DisplayText:
    """The description, the uploads, the processes per node, and the problems.

    `created_before` are the jobs that the same line creates first, after which this one may start.
    """

    def check(backend: Backend) -> None:
        submit.checked_request(backend, request, settings)
        check_predecessors(backend, request, settings.share, created_before=created_before)

    return _text(request, settings, check)


def _text(request: CellRequest, settings: Settings, check: Callable[[Backend], object]) -> DisplayText:
    """The text of a job; `check` raises what its backend refuses before anything is sent."""
    is_default = request.cluster.name == settings.cluster
    is_free_default = is_default and not is_paid(settings)  # is created with the sizes of Batch AI
    gpus = vm_sizes.lookup(default_vm_size(settings)).gpus if is_free_default else 0
    JobBounds.of(settings).check(request.spec, gpus_per_node=gpus)
    preparation = request.spec.job_preparation
    lines = [
        describe(request),
        *_process_lines(_plan(request, gpus), preparation.command_line if preparation else ""),
    ]
    if is_paid(settings) or request.spec.predecessors:
        lines += filter(None, [_cost_or_problem(request, settings, check)])
    if is_free_default and request.spec.node_count > settings.cluster_nodes:
        cluster = f"cluster {request.cluster.name} is made with {settings.cluster_nodes} nodes"
        lines.append(f"problem: the job wants {request.spec.node_count} nodes; {cluster}")
    lines += filter(None, [host_note(settings, request.spec)])
    return DisplayText("\n".join([*lines, "Nothing was written or submitted."]))


def _cost_or_problem(request: CellRequest, settings: Settings, check: Callable[[Backend], object]) -> str:
    """The forecast of the job's cost, or why its backend refuses it; may be empty."""
    with contextlib.closing(open_backend(settings)) as backend:
        try:
            check(backend)
        except BatchAIError as error:
            return "\n".join(filter(None, (f"problem: {error.message}", error.hint)))
        return backend.prices.forecast(request.spec) if backend.prices else ""


def sweep_dry_run_text(request: SweepRequest, settings: Settings) -> DisplayText:
    """The trials of a sweep, and the dry run of the first one."""
    head = f"sweep {request.name}: {request.trial_count} trials ({request.options.search})"
    trials = [
        f"  {number}  {' '.join(f'{name}={value}' for name, value in trial.items())}"
        for number, trial in enumerate(request.trials[:_MAX_TRIALS], 1)
    ]
    rest = len(request.trials) - len(trials)
    more = [f"  … and {rest} more trials"] if rest else []

    def check(backend: Backend) -> None:
        sweep_submission.check_sweep(backend, request, settings)
        check_predecessors(backend, request.first, settings.share)

    text = _text(request.first, settings, check)
    return DisplayText("\n".join([head, *trials, *more, "", text]))


def _plan(request: CellRequest, gpus: int) -> Plan:
    names = [f"node {number}" for number in range(request.spec.node_count)]
    site = JobSite(
        stdouterr="$AZ_BATCHAI_STDOUTERR_DIR",
        shared_temp="$AZ_BATCHAI_SHARED_JOB_TEMP",
        host_file="$AZ_BATCHAI_MPI_HOST_FILE",
        output_segment="",
        mount_root="$AZ_BATCHAI_MOUNT_ROOT",
        job_mount_root="$AZ_BATCHAI_JOB_MOUNT_ROOT",
        python="python",
        addresses=tuple(names),
        gpu_count=gpus,
    )
    return launch.plan(request.spec, [PlanNode(name, "$AZ_BATCHAI_JOB_TEMP") for name in names], site)


def _process_lines(plan: Plan, preparation: str) -> Iterator[str]:
    how = "as the ranks of one MPI job" if plan.launcher is LaunchMode.MPI else "without MPI"
    mask = SecretMask().line
    yield f"to start: {_count(plan.processes, 'process', 'es')} on {_count(plan.nodes, 'node')}, {how}"
    for node in range(len(plan.nodes)):
        processes = [process for process in plan.processes if process.node == node]
        if preparation:
            yield f"  node {node}  preparation  {mask(preparation)}"
        if not processes:
            yield f"  node {node}  nothing"
        for process in processes:
            yield f"  node {node}  {process.role.value} {process.rank}  {mask(process.command)}"


def _count(items: Sized, noun: str, plural: str = "s") -> str:
    return f"{len(items)} {noun}{plural * (len(items) != 1)}"
