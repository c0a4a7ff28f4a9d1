"""Tries the azureml backend on a real workspace, and prints a report: `python -m benchmarks.azureml_live`.

Without `--spend` it only reads, which costs nothing. With it, it runs small jobs one after the other on nodes
without a cluster, as long as their price for the longest time that they may take stays below that amount in
all. The report has no names, ids or addresses of the workspace. The exit code is 1 if a step failed.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

from batchai_magics.backends.azureml.azureml_backend import AzureMLBackend
from batchai_magics.backends.azureml.settings import with_workspace_file
from batchai_magics.backends.base import FileRef
from batchai_magics.backends.base.backend_registry import choose, load_settings, open_backend
from batchai_magics.cell import parse
from batchai_magics.config import Settings
from batchai_magics.errors import BatchAIError
from batchai_magics.jobs.submit import submit
from batchai_magics.models.resource_ids import Kind, ResourceId, workspace_id
from batchai_magics.models.resources import JobResource

LIMIT_MIN = 20  # the longest time of each job, which the service enforces
POLL_S = 3.0
EXPERIMENT = "batchai-live-check"
HELLO = "import os\nfor n in range(20):\n    print('step', n, 'loss', 1 / (n + 1), flush=True)\n"
MPI = "from mpi4py import MPI\nw = MPI.COMM_WORLD\nprint('rank', w.rank, 'of', w.allreduce(1), flush=True)\n"
FAILING = "import os, sys\nsys.exit(3 if os.environ['RANK'] == '1' else 0)\n"
_SIGNATURES = re.compile(r"(sig|se|st|sv|sp|sr|skoid|sktid)=[^&\s]*", re.IGNORECASE)
_ADDRESSES = re.compile(r"https?://\S+|/subscriptions/\S+", re.IGNORECASE)


@dataclass(frozen=True)
class JobCheck:
    """A job to run: the magic line, the script, and the state and exit code that it must have."""

    line: str
    script: str
    state: str = "succeeded"
    exit_code: int | None = 0
    nodes: int = 1


JOBS = (
    JobCheck("live-hello --toolkit custom", HELLO),
    JobCheck("live-torch --nodes 2 --processes 2 --toolkit pytorch", FAILING, "failed", 3, 2),
    JobCheck("live-mpi --nodes 2 --processes 2 --toolkit horovod --prep 'pip install mpi4py'", MPI, nodes=2),
    JobCheck("live-spot --toolkit custom --spot", HELLO),
)


@dataclass
class Report:
    """What was tried, with the time that it took; `failures` counts what did not work."""

    private: tuple[str, ...] = ()
    lines: list[str] = field(default_factory=list)
    failures: int = 0

    def step(self, name: str, act: Callable[[], object]) -> object:
        """Runs a step and reports its result, or its error."""
        began = time.monotonic()
        try:
            result = act()
        except BatchAIError as error:
            self.failures += 1
            self.add(f"FAILED {name} ({time.monotonic() - began:.1f} s): {type(error).__name__} {error}")
            return None
        self.add(f"ok     {name} ({time.monotonic() - began:.1f} s): {result}")
        return result

    def add(self, line: str) -> None:
        """Prints a line without names and addresses, and keeps it."""
        text = _SIGNATURES.sub("…", _ADDRESSES.sub("…", line))
        for name in filter(None, self.private):
            text = re.sub(rf"\b{re.escape(name)}\b", "…", text)
        self.lines.append(text)
        print(text, flush=True)


def main() -> None:
    """Runs the checks that the arguments ask for."""
    arguments = _arguments()
    settings = _settings(arguments)
    report = Report((settings.subscription, settings.resource_group, settings.workspace))
    backend = open_backend(settings)
    assert isinstance(backend, AzureMLBackend)
    try:
        read(report, backend, settings)
        if arguments.spend:
            run_jobs(report, backend, settings, arguments.spend)
    finally:
        backend.close()
    if arguments.output:
        arguments.output.write_text("\n".join(report.lines) + "\n", encoding="utf-8")
    sys.exit(1 if report.failures else 0)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--workspace-file", type=Path, help="the workspace's config.json")
    parser.add_argument("--size", default="", help="VM size of the jobs; by default azureml.size")
    parser.add_argument("--spend", type=float, default=0.0, help="what all jobs together may cost at most")
    parser.add_argument("--output", type=Path, help="a file for the report")
    return parser.parse_args()


def _settings(arguments: argparse.Namespace) -> Settings:
    settings = choose(load_settings(), "azureml")
    if arguments.workspace_file:
        settings = with_workspace_file(settings, arguments.workspace_file.resolve().parent)
    own = settings.sections["azureml"]
    own = replace(own, size=arguments.size or own.size)
    return replace(settings, experiment=EXPERIMENT, sections={**settings.sections, "azureml": own})


def read(report: Report, backend: AzureMLBackend, settings: Settings) -> None:
    """Everything that costs nothing."""
    workspace = workspace_id(settings)
    report.step("workspace", lambda: f"in {backend.connection.workspace.location}")
    report.step("run history", lambda: bool(backend.connection.history_url))
    report.step("clusters", lambda: len(backend.list(workspace, Kind.CLUSTER)))
    report.step("experiments", lambda: len(backend.list(workspace, Kind.EXPERIMENT)))
    report.step("quota", lambda: len(backend.usages.list(backend.connection.workspace.location)))
    report.step("price of the size", lambda: f"{_price(backend, settings)} an hour")
    report.step("a job of the workspace", lambda: _any_job(backend, settings))


def _any_job(backend: AzureMLBackend, settings: Settings) -> str:
    """What is known of the newest job: its state, logs and bytes."""
    jobs = backend.jobs.all(workspace_id(settings))
    if not jobs:
        return "there is none"
    job = jobs[-1]
    details = backend.jobs.details(job.run)
    names = sorted({re.sub(r"\d+", "N", name) for name in details.log_files})
    return f"{job.properties.get('jobType')} {job.status}, logs {json.dumps(names[:12])}"


def _price(backend: AzureMLBackend, settings: Settings) -> float | None:
    """What a node of the size costs in an hour; None where the service does not say."""
    cluster = backend.clusters.show(workspace_id(settings).child(Kind.CLUSTER, "serverless"))
    price = backend.prices.node_price(cluster)
    return price.per_hour if price else None


def run_jobs(report: Report, backend: AzureMLBackend, settings: Settings, spend: float) -> None:
    """Runs the jobs whose highest price the amount still covers."""
    price = _price(backend, settings)
    if price is None:
        report.failures += 1
        report.add("FAILED no job is run: the service does not say what a node costs")
        return
    for check in JOBS:
        cost = price * check.nodes * LIMIT_MIN / 60
        if cost > spend:
            report.add(f"left out: {check.line.split()[0]} may cost {cost:.2f}, and {spend:.2f} are left")
            continue
        spend -= cost
        report.step(check.line.split()[0], lambda check=check: _run_job(backend, settings, check))


def _run_job(backend: AzureMLBackend, settings: Settings, check: JobCheck) -> str:
    """Runs a job, follows it to its end and deletes it; what happened, with times."""
    line = f"{check.line} --max-time {LIMIT_MIN}m --new"
    began = time.monotonic()
    job = submit(backend, parse(line, check.script, settings=settings), settings).job
    try:
        seen = list(_states(backend, job.id, began))
        ended = backend.show(job.id)
        assert isinstance(ended, JobResource)
        log = backend.read(FileRef(job.id, "stdout.txt"))
        found = (ended.state.value, ended.execution.exit_code if ended.execution else None)
        ranks = [(exit.rank, exit.exit_code) for exit in ended.ranks]
        told = f"{'; '.join(seen)}; ended {found}, ranks {ranks}, log of {log.size} bytes"
        if found != (check.state, check.exit_code):
            errors = ended.execution.errors if ended.execution else ()
            raise BatchAIError(f"{told}; errors {[(error.code, error.message) for error in errors]}")
        return told
    finally:
        backend.terminate(job.id)


def _states(backend: AzureMLBackend, id: ResourceId, began: float) -> Iterator[str]:
    """Each state of a job as it is first seen, with the time since its submission."""
    last = ""
    while True:
        found = backend.jobs.find(id)
        if found.status != last:
            last = found.status
            yield f"{last} after {time.monotonic() - began:.0f} s"
        if found.state.is_final:
            return
        time.sleep(POLL_S)


if __name__ == "__main__":
    main()
