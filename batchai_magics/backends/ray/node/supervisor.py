"""The supervising actor of a run: gets nodes from Ray for each attempt, runs it, and records the end."""

from __future__ import annotations

import contextlib
import json
import select
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from batchai_magics.backends.folders import notification_sending, private_files
from batchai_magics.backends.folders.layout import Layout
from batchai_magics.backends.folders.run_end import make_attempt_files
from batchai_magics.backends.node import restarts
from batchai_magics.backends.node.attempt import AttemptRunner
from batchai_magics.backends.node.launcher import LOOPBACK
from batchai_magics.backends.node.outcome import LOST, NODE_LOST, failed_with, supervisor_failure
from batchai_magics.backends.ray.node import cluster, queue
from batchai_magics.backends.ray.node.actor_target import SEEN
from batchai_magics.backends.ray.node.ray_launcher import (
    RayLauncher,
    RayReport,
    RunNode,
    WakePipe,
    stop_request,
)
from batchai_magics.backends.ray.node.run_copies import CopyError, RunCopies
from batchai_magics.backends.ray.node.run_files import NodeRequest, SupervisedFiles
from batchai_magics.launch.outcome import Outcome, RunAttempt
from batchai_magics.launch.plan import Plan
from batchai_magics.launch.references import Bindings
from batchai_magics.untrusted_files import MAX_PLAN_BYTES, read_json, read_text

POLL_S = 1.0  # how often it is checked whether nodes are free
COPIED = ".copied-"  # prefix of the mark that uploads are in a working directory: see `copied_once`
HAND_OVER_S = 60.0  # how long the next runs may take to start


class RunSupervisor:
    """Runs a run from its first attempt to its end. Its methods are called in several threads."""

    def __init__(self, programs: str, home: str, guid: str) -> None:
        self._programs, self._layout = programs, Layout(Path(home))
        self._files = SupervisedFiles(self._layout.job(guid).root)
        self._request = NodeRequest(**read_json(self._files.request))
        self._plan = Plan.from_json(read_text(self._files.submitted, MAX_PLAN_BYTES))
        self._pipe, self._env = WakePipe(), dict[str, str]()
        self._lock, self._has_begun = threading.Lock(), False

    def begin(self, environment: str) -> None:
        """Starts the run with these variables (JSON, with secrets); repeated calls have no effect."""
        with self._lock:
            if self._has_begun:
                return
            self._has_begun = True
        self._env = json.loads(environment)
        text, root = " ".join(cluster.session()), self._files.root
        is_new = private_files.write_new(self._files.supervised, text, needs=root)  # it may have been deleted
        self._files.environment.unlink(missing_ok=True)
        task = self._run if is_new else self._collect
        threading.Thread(target=self._supervise, args=(task,), name="batchai-run").start()

    def retire(self) -> None:
        """Ends this actor, unless the run has begun."""
        with self._lock:
            has_begun, self._has_begun = self._has_begun, True
        if not has_begun:
            cluster.end(self._files.name)

    def wake(self) -> None:
        """Makes the actor read requests now."""
        self._pipe.wake()

    def _supervise(self, task: Callable[[], Outcome]) -> None:
        """Runs the task, records the end, starts the next runs, sends notifications, and ends this actor."""
        try:
            end = self._files.outcome or task()
        except Exception as error:  # noqa: BLE001 whatever it was, the job must not stay "running"
            end = supervisor_failure(error)
        while self._files.root.exists():
            try:
                queue.record_end(self._files, end)
                break
            except OSError:  # a full disk: until there is room
                time.sleep(POLL_S)
        try:
            started = queue.reconcile(str(self._layout.home), self._programs, cluster.current_node())
            queue.unsettled(started, HAND_OVER_S)
            python, log = self._plan.python, self._files.supervisor_log
            notification_sending.send(self._files, python, log=log, secrets=self._env, section="ray")
        finally:
            cluster.end(self._files.name)

    def _collect(self) -> Outcome:
        """Brings home the files that a killed supervising actor has left on nodes."""
        copies = RunCopies.left_behind(self._layout, self._programs, self._files)
        return self._files.lost_end().warned("FilesLeftBehind", *copies.finish())

    def _run(self) -> Outcome:
        """Runs attempts until one of them is the last."""
        import ray

        while True:
            number = len(self._files.attempts) + 1
            try:
                with self._nodes() as (nodes, outcome):
                    outcome = outcome or self._attempt(nodes, number)
            except ray.exceptions.RayTaskError:
                raise  # an error that an actor reports, not the loss of its node
            except ray.exceptions.RayError as error:  # a node was lost before it ran anything
                problem = failed_with(LOST, f"{NODE_LOST}: {str(error).strip().splitlines()[0]}")
                outcome = restarts.with_restart(problem, self._plan, number)
                if len(self._files.attempts) < number:
                    self._files.note_attempts([*self._files.attempts, RunAttempt((), time.time())])
            if not outcome.is_requeued:
                return outcome
            self._files.note_attempt_end(outcome.reason)

    @contextlib.contextmanager
    def _nodes(self) -> Iterator[tuple[list[RunNode], Outcome | None]]:
        """The nodes of an attempt, returned to Ray on exit; or the outcome if it gets none."""
        import ray

        if outcome := self._wait_for_place():
            yield [], outcome
            return
        bundle = self._bundle()
        group = ray.util.placement_group(
            [bundle] * self._request.node_count, strategy="STRICT_SPREAD", name=self._files.name
        )
        try:
            while not group.wait(POLL_S):
                if outcome := self._stop_request():
                    yield [], outcome
                    return
                resources = " and ".join(f"{count:g} free {kind}s" for kind, count in bundle.items())
                total, count = len(cluster.nodes()), self._request.node_count
                text = f"Ray has {total} nodes, and none or too few with {resources}: it asks for {count}"
                with private_files.left_for_later_if_full():
                    private_files.write(self._files.waiting, text)
            self._files.waiting.unlink(missing_ok=True)
            yield self._started(group, bundle)
        finally:
            ray.util.remove_placement_group(group)

    def _wait_for_place(self) -> Outcome | None:
        """Waits until the cluster has room again, after it was resized; the outcome if it was stopped."""
        self._files.requeue.unlink(missing_ok=True)
        queue_folder = queue.queue_of(self._layout, self._request.cluster)
        while not queue.fits(queue_folder, self._layout, self._files.root.name):
            if outcome := self._stop_request():
                return outcome
            select.select([self._pipe], [], [], POLL_S)
            self._pipe.read()
        return None

    def _stop_request(self) -> Outcome | None:
        """The outcome of a run that is stopped while it has no nodes."""
        outcome = stop_request(self._files)
        return None if outcome and outcome.is_requeued else outcome

    def _bundle(self) -> dict[str, float]:
        """The CPUs and GPUs to reserve on each node: all that each of the largest nodes has, or a part."""
        count, cpus, gpus = self._request.node_count, self._request.cpus, self._request.gpus
        largest = cluster.largest(cluster.nodes(), count)
        all_cpus = min((node.cpus for node in largest), default=1)
        all_gpus = min((node.gpus for node in largest), default=0)
        share = max(1, all_cpus * gpus // all_gpus) if gpus and all_gpus else all_cpus
        bundle = {"CPU": float(max(1, cpus or share))}
        return {**bundle, "GPU": float(gpus or all_gpus)} if gpus or all_gpus else bundle

    def _started(self, group: Any, bundle: dict[str, float]) -> tuple[list[RunNode], Outcome | None]:
        """The nodes with a running actor on each; the outcome if they cannot be used."""
        import ray
        from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

        programs, guid = self._programs, self._files.root.name
        actors = [
            cluster.node_actor(programs, guid, bundle, PlacementGroupSchedulingStrategy(group, index))
            for index in range(self._request.node_count)
        ]
        replies = [cluster.query_home(actor, programs) for actor in actors]
        while len(ray.wait(replies, num_returns=len(replies), timeout=POLL_S)[0]) < len(replies):
            if outcome := self._stop_request():
                return [], outcome
        homes = ray.get(replies)
        for actor, home in zip(actors, homes, strict=True):
            if problem := cluster.install(actor, programs, home):
                return [], queue.not_shared(problem)
        names = {node.id: node.name for node in cluster.nodes()}
        facts = ray.get([cluster.call(actor, "facts") for actor in actors])
        return [
            RunNode(names.get(fact.id, fact.address), actor, fact, home == SEEN)
            for actor, home, fact in zip(actors, homes, facts, strict=True)
        ], None

    def _attempt(self, nodes: list[RunNode], number: int) -> Outcome:
        """Runs an attempt on its nodes."""
        plan, attempts = self._bound(nodes, number), self._files.attempts
        names = tuple(node.name for node in nodes)
        before = next((attempt.nodes for attempt in reversed(attempts) if attempt.nodes), ())
        self._files.ending.unlink(missing_ok=True)
        self._move_workdirs(before, names)
        make_attempt_files(self._files, plan)
        plan.write(str(self._files.plan))
        self._files.note_attempts([*attempts, RunAttempt(names, time.time())])
        blind = {index: (node.facts.id, node.actor) for index, node in enumerate(nodes) if not node.sees_home}
        copies = RunCopies(self._layout, plan, blind)
        try:
            outcome = copies.send(self._stop_request)
        except CopyError as error:
            outcome = queue.not_shared(str(error))
        if outcome:
            return outcome.warned("FilesLeftBehind", *copies.finish())
        launcher = RayLauncher(nodes, self._env, files=self._files, pipe=self._pipe, copies=copies)
        launcher.number, launcher.previous_end = number, attempts[-1].reason if attempts else ""
        return AttemptRunner(plan, launcher, RayReport(self._files, plan, nodes)).run()

    def _move_workdirs(self, before: Sequence[str], now: Sequence[str]) -> None:
        """Moves the working directories of the attempt before to the nodes of this one."""
        job = self._files
        moves = [  # over temporary names, since nodes may swap
            (folder / f"{prefix}{old}", folder / f".moving-{index}", folder / f"{prefix}{new}")
            for folder, prefix in ((job.workdir, ""), (job.shared_temp, COPIED))
            for index, (old, new) in enumerate(zip(before, now, strict=False))
            if (folder / f"{prefix}{old}").exists()
        ]
        for old, temporary, _ in moves:
            old.rename(temporary)
        for _, temporary, new in moves:
            if not new.exists():
                temporary.rename(new)

    def _bound(self, nodes: list[RunNode], number: int) -> Plan:
        """The plan on these nodes, with the ports and variables of this attempt."""
        import ray

        plan, first = self._plan, nodes[0]
        addresses = [node.facts.address for node in nodes] if len(nodes) > 1 else [LOOPBACK]
        ports = ray.get(cluster.call(first.actor, "free_ports", plan.port_count, addresses[0]))
        threads = max(1, int(first.facts.cpus) // max(1, plan.processes_per_node))
        devices = [",".join(node.facts.gpus) for node in nodes]
        bindings = Bindings([node.name for node in nodes], addresses, ports, devices=devices, threads=threads)
        return restarts.with_attempt_exits(plan.resolved(bindings), number, self._files.root)
