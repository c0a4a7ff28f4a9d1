"""Writes the job bundle of a run: the files that Slurm and its first node start it from."""

from __future__ import annotations

import json
import math
from pathlib import Path

from batchai_magics.backends.folders.layout import Layout
from batchai_magics.backends.service import private_files
from batchai_magics.backends.service.runner import Launch, Run
from batchai_magics.backends.slurm import cli_args, parse, preparation, programs
from batchai_magics.backends.slurm.node.job_bundle import JobBundle
from batchai_magics.backends.slurm.node.run_files import RunFiles
from batchai_magics.backends.slurm.settings import SlurmSettings
from batchai_magics.launch.plan import Plan

SLACK_S = 120.0  # added to the job's own time limit, so that the job can end itself and report why
NICENESS = (0, 10_000, 20_000)  # for high, normal and low priority


def write(layout: Layout, run: Run, launch: Launch, settings: SlurmSettings) -> None:
    """Writes a run's job bundle, its secrets, and the batch script of its first attempt.

    The programs of nodes must have been installed.
    """
    files, cluster_guid = RunFiles(layout.job(run.guid).root), run.state["cluster_guid"]
    programs_folder = programs.current(layout.home)
    setup = launch.setup._replace(exits=str(files.setup_exits)) if launch.setup else None
    bundle = JobBundle(
        plan=_without_gpu_selection(launch.plan).to_json(),
        preparation=_without_gpu_selection(launch.preparation).to_json() if launch.preparation else "",
        node_count=run.state["node_count"],
        port_count=launch.port_count,
        mpi=settings.mpi,
        programs=str(programs_folder),
        home=str(layout.home),
        setup=setup.to_json() if setup else "",
        setups=str(preparation.setup_folder(layout, cluster_guid)),
        setup_secrets=str(preparation.secrets_file(layout, cluster_guid)),
        is_setup_elevated=launch.is_setup_elevated,
        scratch=settings.scratch,
        scratch_limit_bytes=settings.scratch_limit_mib << 20,
    )
    files.reserve_room(len(launch.plan.processes))
    private_files.write(files.bundle, bundle.to_json())
    if launch.secrets:
        private_files.write(files.secrets, json.dumps(dict(launch.secrets)))
    _write_script(files, 1, python=run.state["python"], programs_folder=programs_folder)


def minutes(wall_s: float, partition_limit: str) -> int:
    """The time limit for Slurm: slightly above the job's own, capped at the partition's."""
    wanted, limit = math.ceil((wall_s + SLACK_S) / 60), parse.minutes(partition_limit)
    return wanted if limit is None else min(wanted, limit)


def write_script(layout: Layout, guid: str, attempt: int, *, python: str) -> None:
    """Writes the batch script of a later attempt."""
    files = RunFiles(layout.job(guid).root)
    programs_folder = layout.home / JobBundle.read(files.bundle).programs
    _write_script(files, attempt, python=python, programs_folder=programs_folder)


def _write_script(files: RunFiles, attempt: int, *, python: str, programs_folder: Path) -> None:
    text = cli_args.batch_script(files.root, attempt, python=python, programs=programs_folder)
    private_files.write(files.script, text)


def _without_gpu_selection(plan: Plan) -> Plan:
    """The plan without CUDA_VISIBLE_DEVICES: Slurm assigns the GPUs."""
    nodes = tuple(
        node._replace(env={name: text for name, text in node.env.items() if name != "CUDA_VISIBLE_DEVICES"})
        for node in plan.nodes
    )
    return plan._replace(nodes=nodes)
