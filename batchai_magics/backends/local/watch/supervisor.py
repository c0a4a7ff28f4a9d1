"""The one process that watches over one job; it outlives the kernel that submitted it.

Started as `python supervisor.py HOME KEY GUID` in a session of its own, with the job's secrets as JSON on its
standard input (the only place they ever are). It waits for its nodes, prepares them, starts the
processes, and tells the store how they ended; then it starts the next queued job.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO

import psutil

from batchai_magics.backends.local.folders import mpi_segments, trees
from batchai_magics.backends.local.folders.layout import JobLayout, Layout
from batchai_magics.backends.local.state.store import Store
from batchai_magics.backends.local.watch import process
from batchai_magics.backends.local.watch.job_secrets import JobSecrets
from batchai_magics.backends.local.watch.verdict import Verdicts
from batchai_magics.backends.node import mounting, mpiexec, requirements
from batchai_magics.backends.node.execution_log import ExecutionLog
from batchai_magics.backends.node.outcome import (
    Outcome,
    exits_in,
    failed_with,
    of_preparation,
    of_ranks,
    stopped,
)
from batchai_magics.backends.node.programs import RANK
from batchai_magics.launch.plan import Launcher, Plan, Process, Role

TICK_S = 0.1
HOLD_S = 0.2  # between looks at the queue of a job that waits with its secrets in memory
ENDING_S = 0.3  # what the other ranks get to end by themselves when one has failed


class Supervisor:
    """Runs one job from its assignment to its end."""

    def __init__(self, layout: JobLayout, verdicts: Verdicts, secrets: JobSecrets) -> None:
        self._verdicts = verdicts
        self._layout = layout
        self._plan = Plan.read(str(layout.plan))
        self._env = {**os.environ, **mpiexec.ENV, **secrets.variables}
        self._password = secrets.registry_password
        self._log = ExecutionLog(self._plan.execution_logs)
        self._deadline = time.monotonic() + self._plan.limits.wall_s
        self._children: list[subprocess.Popen[bytes]] = []
        self._wakeup = process.wake_on_signals()

    def run(self) -> Outcome:
        """Prepares the nodes, runs the processes, and leaves none of them behind."""
        try:
            outcome = self._meet_requirements() or self._prepare() or self._run_ranks()
        finally:
            self._end_all()
            self._remove_containers()
            if self._plan.mounts:
                trees.unmount(self._layout.root)
        self._log.write(outcome.sentence)
        return outcome

    def _meet_requirements(self) -> Outcome | None:
        """Pulls, mounts and makes what the job needs; the job's end when something is not to be had."""
        job = self._layout
        tools = requirements.tools(
            self._plan, sign_in=job.registry, mounts=job.mounts, password=self._password
        )
        with contextlib.closing(tools):
            ends = (self._use(tool) for tool in tools)
            failed = next((end for end in ends if end), None)
        return failed or requirements.directories(self._plan)

    def _use(self, tool: requirements.Tool) -> Outcome | None:
        log = self._layout.tool_log
        with log.open("wb") as output:
            child = self._popen(tool.argv, {**os.environ, **tool.env}, output)
        self._children = [child]
        interrupted = self._watch(Path(self._plan.exits))
        if interrupted:
            process.kill(lambda: process.marked(mounting.mark(self._plan.guid)))
            return interrupted
        words = log.read_text(encoding="utf-8", errors="replace")
        for line in words.splitlines():
            self._log.write(line)
        return tool.outcome(child.wait(), words)

    def _prepare(self) -> Outcome | None:
        plan_file = self._layout.preparation
        if not plan_file.exists():
            return None
        self._log.write("job preparation started")
        plan = Plan.read(str(plan_file))
        self._children = [self._start_one(plan_file, process) for process in plan.processes]
        interrupted = self._watch(Path(plan.exits))
        codes = [child.poll() for child in self._children]
        return interrupted or of_preparation([code for code in codes if code is not None])

    def _run_ranks(self) -> Outcome:
        self._announce()
        is_mpi = self._plan.launcher is Launcher.MPI
        self._children = [self._start_mpi()] if is_mpi else self._start_each()
        exits = Path(self._plan.exits)
        interrupted = self._watch(exits)
        by_themselves = {ended.rank for ended in exits_in(exits)}
        self._end_all()
        if interrupted:
            return interrupted.with_ranks(exits, self._plan)
        launcher_code = (self._children[0].poll() or 0) if is_mpi else 0
        return of_ranks(exits, self._plan, by_themselves, launcher_code=launcher_code)

    def _announce(self) -> None:
        for note in self._plan.notes:
            self._log.write(f"warning: {note}")
        count = len(self._plan.processes)
        self._log.write(f"starting {count} process(es) on {len(self._plan.nodes)} node(s)")

    def _remove_containers(self) -> None:
        for command in self._plan.containers.removals:
            subprocess.run(command, env=self._env, stdin=subprocess.DEVNULL, capture_output=True, check=False)

    def _start_each(self) -> list[subprocess.Popen[bytes]]:
        return [self._start_one(self._layout.plan, process) for process in self._plan.processes]

    def _start_one(self, plan: Path, process: Process) -> subprocess.Popen[bytes]:
        argv = [self._plan.python, "-I", "-S", RANK, str(plan), str(process.rank)]
        return self._popen(argv, self._env, self._log.file)

    def _start_mpi(self) -> subprocess.Popen[bytes]:
        argv = mpiexec.command(self._plan, str(self._layout.plan))
        return self._popen(argv, self._env, self._log.file)

    def _popen(
        self, argv: Sequence[str], env: Mapping[str, str], output: IO[bytes]
    ) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            argv,
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            preexec_fn=process.die_with_starter,
        )

    def _watch(self, exits: Path) -> Outcome | None:
        """Waits for the end of the children; tells why if they were not left to end by themselves."""
        while any(child.poll() is None for child in self._children):
            select.select([self._wakeup], [], [], TICK_S)
            reason = self._verdicts.stop_reason(self._wakeup)
            if reason:
                return stopped(reason)
            if time.monotonic() > self._deadline:
                return failed_with(
                    "JobMaxWallClockTimeReached", f"The job ran longer than {self._plan.limits.wall}"
                )
            if self._is_over(exits):
                self._let_end()
                return None
        return None

    def _is_over(self, exits: Path) -> bool:
        """Whether a process has failed, or only parameter servers are left."""
        codes = {ended.rank: ended.exit_code for ended in exits_in(exits)}
        if any(codes.values()):
            return True
        servers = [process.role is Role.PARAMETER_SERVER for process in self._plan.processes]
        return any(servers) and all(
            is_server or process.rank in codes
            for process, is_server in zip(self._plan.processes, servers, strict=True)
        )

    def _let_end(self) -> None:
        deadline = time.monotonic() + ENDING_S
        while time.monotonic() < deadline and any(child.poll() is None for child in self._children):
            time.sleep(0.02)

    def _end_all(self) -> None:
        """Ends the job's processes kindly, then everything below this process surely."""
        guid = self._plan.guid
        process.end(lambda: process.marked(guid))
        process.kill(lambda: [*process.marked(guid), *self._descendants()])
        for child in self._children:
            child.wait()

    def _descendants(self) -> list[psutil.Process]:
        """All below this process, but for what serves its mounts: that ends by itself, unmounted."""
        serving = process.marked(mounting.mark(self._plan.guid)) if self._plan.mounts else []
        return [child for child in psutil.Process().children(recursive=True) if child not in serving]


def main() -> None:
    """Waits until the job has its nodes, runs it, records the outcome, starts the next one."""
    home, key, guid = sys.argv[1:4]
    secrets = JobSecrets.from_message(json.load(sys.stdin))
    layout = Layout(Path(home))
    store = Store(layout.database)
    verdicts = Verdicts(store, key, guid)
    process.adopt_orphans()
    if not verdicts.claim():
        return
    while _wait_for_nodes(verdicts, layout.job(guid)):
        is_again = verdicts.begin() and _run(layout.job(guid), verdicts, secrets)
        # The next job needs the models, which this one did not: they are imported when it has ended.
        from batchai_magics.backends.local.watch import upkeep

        upkeep.settle(store, layout)
        if not (is_again and secrets):  # a job that is queued again keeps who knows its secrets
            return


def _run(job: JobLayout, verdicts: Verdicts, secrets: JobSecrets) -> bool:
    """Runs the job and records its end; whether it is queued again."""
    try:
        outcome = Supervisor(job, verdicts, secrets).run()
    except Exception as error:  # noqa: BLE001 whatever it was, the job must not stay "running"
        outcome = failed_with("SupervisorFailed", f"The job could not be run: {error!r}")
    if outcome.is_requeued:
        job.plan.unlink(missing_ok=True)  # other nodes, another plan
    verdicts.finish(outcome)
    mpi_segments.sweep()
    return outcome.is_requeued


def _wait_for_nodes(verdicts: Verdicts, job: JobLayout) -> bool:
    """Waits for the assignment; False when the job was ended before."""
    while verdicts.is_open():
        if verdicts.is_assigned() and job.plan.exists():
            return True
        time.sleep(HOLD_S if not verdicts.is_assigned() else 0.01)
    return False


if __name__ == "__main__":
    main()
