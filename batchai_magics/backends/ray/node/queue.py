"""The queue of each cluster, as files: the order of runs, and the ends of runs that no actor records.

The runs of a queue hold at most as many nodes as their cluster has. Runs start in the order of priority, then
of creation; those behind a run that does not fit wait too.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from batchai_magics.backends.folders import private_files
from batchai_magics.backends.folders.layout import Layout
from batchai_magics.backends.folders.run_end import read_predecessors, write_end
from batchai_magics.backends.node.outcome import dependency_failed, failed_with, launch_failure
from batchai_magics.backends.ray.node import cluster
from batchai_magics.backends.ray.node.run_files import SupervisedFiles
from batchai_magics.launch.outcome import Outcome
from batchai_magics.untrusted_files import read_json

SIZE, LOCK = "size", "lock"


class QueueEntry(NamedTuple):
    """A run in a queue; the names of files sort in its order. At most `limit` of `group` run at once."""

    file: Path
    guid: str
    node_count: int
    group: str = ""
    limit: int = 0

    def write(self) -> None:
        """Adds the run to its queue."""
        private_files.write(self.file, json.dumps(self._asdict() | {"file": ""}))


def queue_of(layout: Layout, cluster_guid: str) -> Path:
    """The folder of a cluster's queue."""
    return layout.cluster(cluster_guid) / "queue"


def entry_file(queue: Path, *, priority: int, created: float, guid: str) -> Path:
    """The file of a run in a queue."""
    return queue / f"{priority} {created:020.6f} {guid}"


def entries(queue: Path) -> list[QueueEntry]:
    """The runs in a queue, in order."""
    files = sorted(queue.glob("[0-9] [0-9]*"))
    queued = []
    for file in files:
        if not file.name.endswith(".part"):
            with contextlib.suppress(FileNotFoundError):  # it has just left the queue
                queued.append(QueueEntry(**read_json(file) | {"file": file}))
    return queued


def size_of(queue: Path) -> int:
    """How many nodes the runs of a queue may hold at once."""
    with contextlib.suppress(FileNotFoundError):
        return int((queue / SIZE).read_text(encoding="utf-8"))
    return 0


def record_end(files: SupervisedFiles, end: Outcome) -> None:
    """Records how a run ended, unless that is known; deletes its variables."""
    if not files.outcome:
        write_end(files.end, end._replace(ended=time.time()))
    files.environment.unlink(missing_ok=True)


def not_shared(problem: str) -> Outcome:
    """The outcome of a run one of whose nodes does not see the home, as `problem` explains."""
    return failed_with("HomeNotShared", f"{problem}: set ray.home to a folder that all nodes share")


class Start(NamedTuple):
    """A run whose supervising actor is about to begin; `begun` is the reference of its call `begin`."""

    files: SupervisedFiles
    begun: Any


def unsettled(starts: Sequence[Start], timeout_s: float = 0.0) -> list[Start]:
    """The runs that have not begun after `timeout_s`; records the ends of those that cannot begin."""
    if not starts:
        return []
    import ray

    references = [start.begun for start in starts]
    ready, _ = ray.wait(references, num_returns=len(references), timeout=timeout_s)
    return [start for start in starts if start.begun not in ready or not _is_settled(start)]


def _is_settled(start: Start) -> bool:
    """Whether a run has begun, or its end is recorded because it cannot."""
    import ray

    try:
        ray.get(start.begun)
    except ray.exceptions.RayError as error:
        cause = getattr(error, "cause", None) or error
        is_blind = isinstance(cause, NotADirectoryError)
        try:
            record_end(start.files, not_shared(str(cause)) if is_blind else launch_failure(cause))
        except OSError:  # a full disk, or the run was deleted
            return not start.files.root.exists()
        cluster.end(start.files.name)
    return True


def reconcile(home: str, programs: str, node: str) -> list[Start]:
    """Starts the runs that can start in all queues, and returns them; records the ends of lost runs.

    Supervising actors start on `node`, the id of a node that sees the home.
    """
    layout, started = Layout(Path(home)), list[Start]()
    for queue in layout.clusters.glob("*/queue"):
        with (
            contextlib.suppress(FileNotFoundError),  # the cluster is being deleted
            open(queue / LOCK, "ab", opener=private_files.opener) as lock,
        ):
            fcntl.flock(lock, fcntl.LOCK_EX)
            started += QueuePass(layout, queue, programs, node).run()
    return started


@dataclass
class QueuePass:
    """One pass over the queue of a cluster."""

    layout: Layout
    queue: Path
    programs: str
    node: str

    def run(self) -> list[Start]:
        """Records ends and starts runs, as far as they are due; returns the started runs."""
        runs = [(entry, SupervisedFiles(self.layout.job(entry.guid).root)) for entry in entries(self.queue)]
        waiting = [(entry, files) for entry, files in runs if not self._is_over(entry, files)]
        started = self._end_lost([files for _, files in waiting])
        held = [entry for entry, files in waiting if files.claim.exists()]
        room = size_of(self.queue) - sum(entry.node_count for entry in held)
        groups = Counter(entry.group for entry in held)
        for entry, files in waiting:
            with contextlib.suppress(FileNotFoundError):  # it is being deleted
                if entry in held or not self._is_due(files):
                    continue
                if entry.limit and groups[entry.group] >= entry.limit:
                    continue
                if entry.node_count > room:
                    room = 0  # for those behind it, whose predecessors may have failed all the same
                    continue
                room, groups[entry.group] = room - entry.node_count, groups[entry.group] + 1
                environment = files.environment.read_text(encoding="utf-8")
                if private_files.write_new(files.claim, ""):  # else it was stopped
                    started.append(self._supervised(files, environment))
        return started

    def _is_over(self, entry: QueueEntry, files: SupervisedFiles) -> bool:
        """Whether a run has ended or was deleted; it leaves the queue."""
        is_over = files.outcome is not None or not files.root.exists()
        if is_over:
            if not files.supervised.exists():
                cluster.retire(files.name)  # it was stopped before its actor was called
            files.environment.unlink(missing_ok=True)  # the process that recorded its end may have died
            entry.file.unlink(missing_ok=True)
        return is_over

    def _end_lost(self, runs: Sequence[SupervisedFiles]) -> list[Start]:
        """Records the end of runs whose actor is gone; those that never had one are queued again.

        Before, another actor brings home the files of a lost run on nodes.
        """
        for files in runs:
            if files.has_never_started() and files.environment.exists():
                files.claim.unlink(missing_ok=True)
        supervised, started = [files for files in runs if files.supervised.exists()], list[Start]()
        if not supervised:
            return started
        alive, session = cluster.living_actors(), cluster.session()
        for files in supervised:
            with contextlib.suppress(FileNotFoundError):  # it is being deleted
                if files.name in alive or files.outcome:
                    continue
                if files.is_elsewhere(session) and not files.has_ended_with_cluster():
                    continue
                if files.copies.exists():
                    started.append(self._supervised(files, "{}"))
                else:
                    record_end(files, files.lost_end())
        return started

    def _is_due(self, files: SupervisedFiles) -> bool:
        """Whether the predecessors of a run have ended; records its end if one had to succeed and failed."""
        for predecessor in read_predecessors(files):
            end = SupervisedFiles(self.layout.job(predecessor.guid).root).outcome
            if end is None:
                return False
            if predecessor.has_failed(end):
                if private_files.write_new(files.claim, ""):
                    record_end(files, dependency_failed(predecessor.name))
                return False
        return True

    def _supervised(self, files: SupervisedFiles, environment: str) -> Start:
        """Starts the supervising actor of a run, and calls it with the run's variables."""
        home, guid = str(self.layout.home), files.root.name
        actor = cluster.supervising_actor(files.name, self.programs, self.node, home, guid)
        return Start(files, cluster.call(actor, "begin", environment))


def fits(queue: Path, layout: Layout, guid: str) -> bool:
    """Whether the cluster still has room for a run that is about to start: it may have been resized."""
    room = size_of(queue)
    for entry in entries(queue):
        room -= entry.node_count * SupervisedFiles(layout.job(entry.guid).root).claim.exists()
        if entry.guid == guid:
            return room >= 0
    return True
