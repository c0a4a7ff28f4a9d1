"""Launches an attempt on the nodes of an allocation: on one node as children, on several through srun."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

from batchai_magics.backends.node.child_processes import ChildProcesses
from batchai_magics.backends.node.launcher import AttemptFiles, Launcher, PlanProcesses
from batchai_magics.backends.node.ranks import termination
from batchai_magics.backends.node.ranks.signal_pipe import SignalPipe
from batchai_magics.backends.node.ranks.signed_records import LogSeal, seal_of
from batchai_magics.backends.service import private_files
from batchai_magics.backends.slurm.node import allocation
from batchai_magics.backends.slurm.node.attempt_ends import (
    KILLED,
    RunningAttempt,
    kernel_reason,
    oom_kills,
    orphan_folder,
    out_of_memory,
    out_of_memory_folder,
    started_folder,
)
from batchai_magics.backends.slurm.node.attempt_report import SlurmReport
from batchai_magics.backends.slurm.node.job_bundle import JobBundle
from batchai_magics.backends.slurm.node.node_setups import NodeSetups
from batchai_magics.backends.slurm.node.run_files import (
    RunFiles,
    cut_off_folder,
    ending_mark,
    unwritten_folder,
)
from batchai_magics.backends.slurm.node.run_rank import read_secrets
from batchai_magics.backends.slurm.node.scratch import Collection
from batchai_magics.backends.slurm.node.srun_processes import SrunProcesses
from batchai_magics.launch.outcome import Outcome
from batchai_magics.launch.plan import Plan

COLLECT_AFTER_STOP_S = 15.0  # how long a stopped run may take to collect its working directories
COLLECT_S = 60.0  # the same for other runs, in addition to their time limit


class SlurmLauncher(Launcher):
    """Starts processes on the nodes of an allocation, the first of which runs this program.

    Those of a single node are its children, others run below srun. `report` is the attempt's `Report`.
    """

    def __init__(self, files: RunFiles, running: RunningAttempt, signal_pipe: SignalPipe) -> None:
        self._files, self._running, self.signal_pipe = files, running, signal_pipe
        self.files: AttemptFiles = files.layout
        self._bundle, self.nodes = JobBundle.read(files.bundle), allocation.nodes()
        addresses = allocation.addresses(self.nodes)
        self.address = addresses[0]
        self.number, self.previous_end = running.number, ""
        self.plan = self._resolved(Plan.from_json(self._bundle.plan), self.nodes, addresses)
        self.env: Mapping[str, str] = {**os.environ, **read_secrets(files.secrets)}
        setup = Plan.from_json(self._bundle.setup) if self._bundle.setup else None
        setup = setup and self._bundle.resolved(setup, files.root.name, self.nodes, addresses)
        self.setup = self._setup(setup) if setup else None
        self.report = SlurmReport(files, running, self.nodes, self.plan)
        self._make_folders(setup)

    def _resolved(self, plan: Plan, nodes: Sequence[str], addresses: Sequence[str]) -> Plan:
        """The plan of the job on these nodes, with what is this attempt's own."""
        resolved = self._bundle.resolved(plan, self._files.root.name, nodes, addresses)
        return self._running.with_own_exits(resolved)

    def _setup(self, plan: Plan) -> NodeSetups:
        return NodeSetups(
            Path(self._bundle.setups),
            plan,
            env={**os.environ, **read_secrets(Path(self._bundle.setup_secrets))},
            boots=allocation.boot_times(self.nodes),
        )

    def _make_folders(self, setup: Plan | None) -> None:
        job = self._files.layout
        own = (cut_off_folder, unwritten_folder, started_folder, out_of_memory_folder, orphan_folder)
        folders = (Path(self.plan.exits), *(folder(self.plan) for folder in own))
        for stale in (*folders, job.preparation_exits, job.preflight_exits, self._files.setup_exits):
            shutil.rmtree(stale, ignore_errors=True)
            private_files.make_folder(stale)
        ending_mark(self.plan).unlink(missing_ok=True)
        for kept in (job.checkpoints, job.artifacts):
            private_files.make_folder(kept)
        for node in (*self.reachable(self.plan).nodes, *(setup.nodes if setup else ())):
            private_files.make_folder(Path(node.folder))
        if self._bundle.scratch:
            limit_bytes = self._bundle.scratch_limit_bytes
            Collection.request(self._files, limit_bytes=limit_bytes, number=self._running.number)
        self._write_plan()

    def _write_plan(self) -> None:
        """Writes the plan and its host file, and creates its logs."""
        for log in (*(stream.path for stream in self.plan.output), *self.plan.execution_logs):
            os.close(private_files.opener(log, os.O_RDWR | os.O_CREAT))
        hosts = "".join(f"{node.id}\n" for node in self.plan.nodes)
        self._files.layout.host_file.write_text(hosts, encoding="utf-8")
        self.plan._replace(preparation=None).write(str(self._files.layout.plan))  # each rank reads it

    def processes(
        self, plan: Plan, env: Mapping[str, str], *, are_independent: bool = False
    ) -> PlanProcesses:
        """The processes of a plan, yet to be started; on several nodes, a failed one ends the others."""
        own_node = os.environ.get("SLURMD_NODENAME", plan.nodes[0].id)
        if {plan.node_of(process).id for process in plan.processes} <= {own_node}:
            return SingleNodeProcesses(plan, self.signal_pipe, env)
        return SrunProcesses(
            plan,
            self.signal_pipe,
            env,
            files=self._files,
            mpi=self._bundle.mpi,
            are_independent=are_independent,
        )

    def reachable(self, plan: Plan) -> Plan:
        """The plan without the nodes that have working directories on disks of their own."""
        return plan._replace(nodes=plan.nodes[:1]) if self._bundle.scratch else plan

    def smaller(self, plan: Plan, nodes: Sequence[int]) -> Plan:
        """The plan for some of its nodes, by number."""
        names = [self.nodes[number] for number in nodes]
        self.plan = self._resolved(plan, names, allocation.addresses(names))
        self._write_plan()
        return self.plan

    def close(self) -> None:
        """Ends everything that was started on this node, and collects what the nodes have on their disks."""
        termination.kill()
        timeout_s = (
            COLLECT_AFTER_STOP_S if self.report.is_stopped else self.report.deadline.left_s + COLLECT_S
        )
        self.left_behind = Collection(self._files, self.plan).collect(timeout_s)

    def seals(self) -> Mapping[str, LogSeal]:
        """The logs' seals, now that nothing writes to them any more."""
        folder = Path(self.plan.output.stdout.path).parent
        logs = [file for file in folder.glob("std*.txt") if file.is_file() and not file.is_symlink()]
        return {file.name: seal_of(file) for file in logs}


class SingleNodeProcesses(ChildProcesses):
    """The processes of a single node; one that is killed may have run out of memory."""

    def __init__(self, plan: Plan, signal_pipe: SignalPipe, env: Mapping[str, str]) -> None:
        super().__init__(plan, signal_pipe, env)
        self._kills = oom_kills()

    def outcome(self) -> Outcome:
        """The outcome according to the processes, and to the kernel's count of those that it killed."""
        outcome = super().outcome()
        if outcome.exit_code == KILLED and oom_kills() > self._kills:
            return out_of_memory(outcome, kernel_reason(self.plan.nodes[0].id))
        return outcome
