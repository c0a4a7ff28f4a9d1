"""Launches plans on the nodes of a run, through an actor on each, and delivers requests to stop."""

from __future__ import annotations

import contextlib
import json
import os
import shlex
import signal
import sys
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from batchai_magics.backends.folders import private_files
from batchai_magics.backends.node import mpi_launchers, stack_dumps
from batchai_magics.backends.node.launcher import POLL_S, Deadline, Launcher, PlanProcesses, Report
from batchai_magics.backends.node.node_programs import programs_folder, start_words
from batchai_magics.backends.node.outcome import (
    NO_FAULT,
    REQUEUE,
    Fault,
    failed_with,
    node_loss,
    ranks_outcome,
    stop_outcome,
    write_error,
)
from batchai_magics.backends.node.ranks.leftovers import LEFTOVER_S
from batchai_magics.backends.node.ranks.pmi import manager_of
from batchai_magics.backends.node.ranks.signal_pipe import SignalPipe
from batchai_magics.backends.node.restarts import RESIZED, EndWarning
from batchai_magics.backends.node.watch_process import WATCH, WatchProgram
from batchai_magics.backends.ray.node import cluster
from batchai_magics.backends.ray.node.actor_target import text_of
from batchai_magics.backends.ray.node.node_actor import NodeFacts
from batchai_magics.backends.ray.node.run_copies import RunCopies
from batchai_magics.backends.ray.node.run_files import SupervisedFiles
from batchai_magics.backends.ray.node.run_node import NodeTask
from batchai_magics.launch.outcome import Outcome
from batchai_magics.launch.plan import LaunchMode, Plan, ProcessExit

NODE_COMMAND = "batchai_magics.backends.ray.node.node_command"
# Variables of Ray that decide how a process connects to the cluster.
_OF_CONNECTIONS = ("RAY_AUTH", "RAY_TLS_", "RAY_USE_TLS", "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER")
NEWS_S = 5.0  # how long an actor waits for news
NODE_LOSS_S = 60.0  # how long Ray may take to notice that a node is lost


class WakePipe(SignalPipe):
    """Becomes readable on `wake`; signals do not reach it, as actors run in threads."""

    def __init__(self) -> None:
        self._reader, self._writer = os.pipe()
        os.set_blocking(self._reader, False)

    def wake(self) -> None:
        """Wakes the reader, which then reads requests."""
        os.write(self._writer, bytes([signal.SIGTERM]))


class RunNode(NamedTuple):
    """A node of a run: its name, its actor, and its facts."""

    name: str
    actor: Any
    facts: NodeFacts
    sees_home: bool


class RayLauncher(Launcher):
    """Starts processes through the actors on the nodes of an attempt."""

    def __init__(
        self,
        nodes: Sequence[RunNode],
        env: Mapping[str, str],
        *,
        files: SupervisedFiles,
        pipe: SignalPipe,
        copies: RunCopies,
    ) -> None:
        environ = os.environ.items()
        for_ray = {name: value for name, value in environ if name.startswith(_OF_CONNECTIONS)}
        self.files, self.env, self.signal_pipe = files, {**for_ray, **env}, pipe
        self._watch_only = for_ray.keys() - env.keys()  # for the watch program, not for the job
        self._nodes, self._copies = nodes, copies

    def processes(
        self, plan: Plan, env: Mapping[str, str], *, are_independent: bool = False
    ) -> PlanProcesses:
        """The processes of a plan, not started yet."""
        env = {name: value for name, value in env.items() if name not in self._watch_only}
        self._copies.begin()
        return RayProcesses(
            plan, self._nodes, env, files=self.files, pipe=self.signal_pipe, are_independent=are_independent
        )

    def kill_marked(self, mark: str) -> None:
        """Does nothing: jobs mount nothing here."""

    def close(self) -> None:
        """Brings files home from the nodes, whose programs have ended all processes."""
        self.left_behind = self._copies.finish()


class _NodeProgram:
    """The program on a node that runs a part of a plan; a node without ranks is only checked for its loss."""

    def __init__(self, node: RunNode, ranks: Collection[int]) -> None:
        self.node, self.ranks = node, {*ranks}
        self.is_over = True  # until `listen`
        self.has_vanished = False  # whether it has ended without reporting the ends of its ranks
        self.news: Any = None

    def start(self, python: str, order: NodeTask) -> Any:
        """Starts the program; returns the reference of that call, after which `listen` is possible."""
        return cluster.call(self.node.actor, "start", python, json.dumps(order._asdict()))

    def listen(self) -> None:
        """Requests news, or without ranks a sign of life; `news` is the reference of the answer."""
        self.is_over = False
        has_news = self.ranks and not self.has_vanished
        self.news = cluster.call(self.node.actor, "news" if has_news else "idle", NEWS_S)

    def send(self, **order: object) -> None:
        """Sends an order to the program, unless it has ended."""
        if self.ranks and not self.is_over:
            cluster.call(self.node.actor, "send", json.dumps(order))


class RayProcesses:
    """The processes of a plan, children of a program on each of its nodes.

    A failed process ends the others, unless they are independent.
    """

    def __init__(
        self,
        plan: Plan,
        nodes: Sequence[RunNode],
        env: Mapping[str, str],
        *,
        files: SupervisedFiles,
        pipe: SignalPipe,
        are_independent: bool,
    ) -> None:
        self._plan, self._files, self._pipe = plan, files, pipe
        self._are_independent = are_independent
        self._env = {**env, **_transport(plan, nodes, env)}
        self._programs = {
            number: _NodeProgram(node, [process.rank for process in plan.processes if process.node == number])
            for number, node in enumerate(nodes)
        }
        self._manager = manager_of(plan) if plan.launcher is LaunchMode.MPI else None
        self._ends: dict[int, ProcessExit] = {}
        self._ended_on_their_own: set[int] | None = None
        self._fault = NO_FAULT
        self._write_errnos: set[int] = set()
        self._lost: dict[str, str] = {}
        self._printed: list[int] = []
        self._launch_problem = ""  # the last error that the program on a node has printed

    @property
    def is_running(self) -> bool:
        """Whether any process is still running."""
        programs = (program for program in self._programs.values() if not program.is_over)
        return any(not program.ranks <= self._ends.keys() for program in programs)

    @property
    def is_over(self) -> bool:
        """Whether the others must end: one has failed, a node is lost, or only parameter servers run."""
        has_failed = not self._are_independent and any(end.exit_code for end in self.ends)
        has_vanished = any(program.has_vanished for program in self._programs.values())
        is_faulty = bool(self._lost) or has_vanished or self.fault != NO_FAULT
        return has_failed or is_faulty or self._plan.are_workers_done(self._ends)

    @property
    def ends(self) -> Collection[ProcessExit]:
        """The exits of the processes that have ended."""
        return self._ends.values()

    @property
    def fault(self) -> Fault:
        """Why the processes must end although none of them failed."""
        manager = self._manager
        missed = manager.missed(self._ends.keys()) if manager and self.is_running else ()
        return Fault(
            manager.abort if manager else None, tuple(sorted(missed)), write_error(self._write_errnos)
        )

    def start(self) -> None:
        """Starts a program on each node that has ranks, which starts them."""
        import ray

        plan = self._plan._replace(preparation=None).to_json()
        started = [
            program.start(self._plan.python, NodeTask(plan, number, self._env))
            for number, program in self._programs.items()
            if program.ranks
        ]
        ray.get(started)
        for program in self._programs.values():
            program.listen()

    def poll(self, timeout_s: float, /) -> set[int]:
        """Waits up to `timeout_s` for news; returns the signals received."""
        self._take_news(timeout_s)
        return self._pipe.read()

    def warn(self, warning: EndWarning, reason: str) -> None:
        """Warns the processes of the end."""
        warning.give(reason, ())
        self._send(warn=reason)

    def end(self, *, patience_s: float, grace_s: float, is_hurried: Callable[[], bool]) -> None:
        """Ends all running processes."""
        if self._ended_on_their_own is None:
            self._ended_on_their_own, self._fault = set(self._ends), self.fault
        self._send(end=[patience_s, grace_s])
        has_been_hurried = False
        while not all(program.is_over for program in self._programs.values() if program.ranks):
            if not has_been_hurried and is_hurried():
                has_been_hurried = True
                self._send(kill=True)
            self._take_news(POLL_S)

    def outcome(self) -> Outcome:
        """The outcome that follows from the exits of the processes."""
        if self._lost:
            return node_loss(self._lost).with_ranks(self.ends, self._plan)
        plan, ended = self._plan, self._ended_on_their_own
        ended = set(self._ends) if ended is None else ended
        outcome = ranks_outcome(self.ends, plan, ended, self._fault)
        if not ended and self._fault == NO_FAULT and self._launch_problem:
            return failed_with("JobLaunchFailed", self._launch_problem)._replace(ranks=outcome.ranks)
        is_alone = mpi_launchers.has_no_mpi(self._manager, plan, self._printed)
        return outcome.without_mpi(len(plan.processes)) if is_alone else outcome

    def close(self) -> None:
        """Ends all running processes, and the programs on the nodes."""
        self.end(patience_s=0.0, grace_s=LEFTOVER_S, is_hurried=lambda: False)

    def _send(self, **order: object) -> None:
        for program in self._programs.values():
            program.send(**order)

    def _take_news(self, timeout_s: float) -> None:
        """Waits for news of a node, and handles it."""
        import ray

        waiting = {program.news: program for program in self._programs.values() if not program.is_over}
        ready, _ = ray.wait([*waiting], num_returns=1, timeout=timeout_s) if waiting else ([], [])
        for reference in ready:
            program = waiting[reference]
            try:
                lines, is_over = ray.get(reference)
            except ray.exceptions.RayError as error:
                program.is_over = True
                self._lost[program.node.name] = loss_of(program.node, error)
                continue
            for line in lines:
                self._handle(json.loads(line))
            # On a lost node, Ray kills an actor's children before the actor: `listen` continues until the
            # program has ended, and for another call after it has vanished.
            if is_over and not program.ranks <= self._ends.keys():
                program.has_vanished = True
                program.listen()
            elif is_over or program.has_vanished:
                program.is_over = True
            else:
                program.listen()

    def _handle(self, event: Mapping[str, Any]) -> None:
        """Handles an event of the program on a node."""
        if "exit" in event:
            end = ProcessExit(**event["exit"])
            self._ends[end.rank] = end
        elif "pmi" in event:
            rank, text = event["pmi"]
            assert self._manager
            for reply in self._manager.receive(rank, text.encode("latin-1")):
                number = self._plan.processes[reply.rank].node
                self._programs[number].send(pmi=[[reply.rank, reply.data.decode("latin-1")]])
        elif "unwritable" in event:
            self._write_errnos.add(event["unwritable"])
        elif "error" in event:
            self._launch_problem = event["error"].strip() or self._launch_problem
            with contextlib.suppress(OSError):  # a full disk: the last line is known
                private_files.append(self._files.supervisor_log, event["error"])
        else:
            self._printed += event.get("printed", ())


def _transport(plan: Plan, nodes: Sequence[RunNode], env: Mapping[str, str]) -> Mapping[str, str]:
    """The variables that select how MPI's ranks communicate: TCP between nodes, unless others are set."""
    if len(plan.nodes) == 1:
        return mpi_launchers.transport(plan)
    variables = {"MPIR_CVAR_CH4_NETMOD": "ofi", "FI_PROVIDER": "tcp"}
    if all(node.facts.address.startswith("127.") for node in nodes):
        variables["FI_TCP_IFACE"] = "lo"
    return {name: value for name, value in variables.items() if name not in env}


def loss_of(node: RunNode, error: Exception) -> str:
    """Why the actor of a node does not answer: waits until Ray reports the loss of the node, if it does."""
    deadline = time.monotonic() + NODE_LOSS_S
    while node.facts.id in {alive.id for alive in cluster.nodes()} and time.monotonic() < deadline:
        time.sleep(1.0)
    return str(error).strip().splitlines()[0]


class RayReport(Report):
    """Reads requests to stop, which are files of the run, and records when its processes are asked to end."""

    engine = "Ray"

    def __init__(self, files: SupervisedFiles, plan: Plan, nodes: Sequence[RunNode]) -> None:
        self._files, self._nodes = files, nodes
        self._python, self.deadline = plan.python, Deadline(plan.limits)

    def stop_request(self, *, is_signalled: bool) -> Outcome | None:
        """The outcome if the attempt has to end."""
        return stop_request(self._files)

    def is_hurried(self) -> bool:
        """Whether the processes are to be killed at once."""
        return self._files.kill.exists()

    def warn(self, text: str) -> None:
        """Records that the run is no longer watched."""
        with contextlib.suppress(OSError):  # the end of the run has it too
            self._files.note_unwatched(text)

    def note_stop(self, reason: str) -> None:
        """Records that the watch program of the run requested its end."""
        with contextlib.suppress(OSError):  # it ends without the record, too
            private_files.write_new(self._files.stop, reason)

    def watch_program(self) -> WatchProgram:
        """The program that watches the run; it reads the stacks of each node through an actor there."""
        import ray

        home, address = str(Path(programs_folder()).parent), ray.get_runtime_context().gcs_address
        # with packages: the user's expressions need RE2, some notifications apprise, the other one Ray
        start, on_node = (
            start_words(python, module, programs_folder(), section="ray", has_packages=True)
            for python, module in ((self._python, WATCH), (sys.executable, NODE_COMMAND))
        )
        dump = [self._python, stack_dumps.__file__, self._files.root.name]
        commands = [
            [*on_node, address, self._python, node.facts.id, home, shlex.join([*dump, node.name])]
            for node in self._nodes
        ]
        return WatchProgram(start, self._files.supervisor_log, self._files.attempts, commands)

    def note_ending(self) -> None:
        """Records that the processes were asked to end."""
        with private_files.left_for_later_if_full():
            self._files.ending.touch(mode=private_files.FILE)


def stop_request(files: SupervisedFiles) -> Outcome | None:
    """The outcome of a run that was asked to stop, or to begin again."""
    if reason := text_of(files.stop):
        return stop_outcome(reason)
    return stop_outcome(REQUEUE, RESIZED) if files.requeue.exists() else None
