"""The `job` table: one row per run, the queues of clusters, and every statement that reads or changes them.

All functions take an open connection or transaction; decisions are the caller's. Runs that start after
others are in the queue when those have ended, or end with them.
"""

from __future__ import annotations

import json
import sqlite3
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any, NamedTuple

from batchai_magics.backends.folders.run_end import Predecessor
from batchai_magics.backends.node.outcome import dependency_failed
from batchai_magics.launch.outcome import Outcome, RunAttempt
from batchai_magics.launch.plan import ProcessExit
from batchai_magics.models.states import ExecutionState, NodeState

Attempts = tuple[RunAttempt, ...]
QUEUED_AGAIN = "it was queued again"  # default reason
OPEN = tuple(state for state in ExecutionState if not state.is_final)
IS_OPEN = f"state IN ({', '.join(repr(state.value) for state in OPEN)})"


class JobRow(NamedTuple):
    """One run of a job; a named tuple, since lists make thousands."""

    key: str  # of the job's resource
    guid: str  # the name of its folders
    cluster: str  # the guid of the cluster
    node_count: int
    priority: int  # higher first
    python: str  # the interpreter that submitted it
    needs_secrets: bool
    changed: float  # when it entered its state
    spawner: str = ""  # the process that is about to start its supervisor
    supervisor: str = ""
    state: ExecutionState = ExecutionState.QUEUED
    is_assigned: bool = False  # whether it has its nodes
    stop: str = ""  # why it has to stop
    started: float | None = None
    ended: float | None = None
    exit_code: int | None = None
    errors: tuple[dict[str, Any], ...] = ()  # JSON of the service's error details, and of warnings
    ranks: tuple[ProcessExit, ...] = ()  # how each process ended, first failure first
    again: str = ""  # why it is to be queued again
    attempts: Attempts = ()  # each time that it was begun
    owner: str = ""  # the user who created it; empty for this machine's own
    gpu_count: int = 0  # how many GPUs of each node it shares with others; 0: it has whole nodes
    max_running: int = 0  # how many jobs of its owner may run at a time; 0: any number
    job_group: str = ""  # the jobs that share a limit
    group_limit: int = 0  # how many of them may have nodes at once; 0: any number
    after: tuple[Predecessor, ...] = ()  # what has to end before it is in the queue, and has not

    @property
    def is_open(self) -> bool:
        """Whether it has not ended."""
        return not self.state.is_final

    @property
    def needs_process(self) -> bool:
        """Whether a process has to live for it while it is open, as in NEEDS_PROCESS."""
        return bool(self.supervisor or self.is_assigned or self.needs_secrets)

    @property
    def outcome(self) -> Outcome | None:
        """How it ended, with its warnings among the errors; None while it is open."""
        if self.ended is None:
            return None
        return Outcome(self.exit_code, self.errors, self.ranks, ended=self.ended)

    @classmethod
    def of(cls, row: Sequence[Any]) -> JobRow:
        """The row as a value; its columns are `COLUMNS`."""
        values = [*row]
        for index, read in _READERS:
            values[index] = read(values[index])
        return cls._make(values)


COLUMNS = ", ".join(f"job.{name}" for name in JobRow._fields)


def json_items(text: str) -> tuple[Any, ...]:
    """The items of a column that has a JSON list."""
    return () if text == "[]" else tuple(json.loads(text))


def awaited(text: str) -> tuple[Predecessor, ...]:
    """The runs in a column `after`."""
    return tuple(Predecessor(*item) for item in json_items(text))


def _attempts(text: str) -> Attempts:
    """The attempts in a column."""
    return tuple(
        RunAttempt(tuple(item["nodes"]), item["started"], item.get("ended"), item.get("reason", ""))
        for item in json_items(text)
    )


_READERS: Sequence[tuple[int, Callable[[Any], Any]]] = [
    (JobRow._fields.index(name), read)
    for name, read in (
        ("state", ExecutionState),
        ("needs_secrets", bool),
        ("is_assigned", bool),
        ("errors", json_items),
        ("ranks", lambda text: tuple(ProcessExit(**item) for item in json_items(text))),
        ("attempts", _attempts),
        ("after", awaited),
    )
]


def insert(db: sqlite3.Connection, job: JobRow) -> None:
    """Inserts a new run."""
    values = job._asdict() | {"state": job.state.value}
    for name in ("errors", "after"):
        values[name] = json.dumps(values[name])
    for name in ("ranks", "attempts"):
        values[name] = _json(values[name])
    db.execute(f"INSERT INTO job ({', '.join(values)}) VALUES (:{', :'.join(values)})", values)


def find(db: sqlite3.Connection, guid: str) -> JobRow | None:
    """The run with that guid, or None."""
    return next(iter(_all(db, f"SELECT {COLUMNS} FROM job WHERE guid = ?", guid)), None)


def find_all(db: sqlite3.Connection, guids: Sequence[str]) -> list[JobRow]:
    """Those of these runs that exist."""
    return _all(db, f"SELECT {COLUMNS} FROM job WHERE {OF_RUNS}", json.dumps(guids))


def find_open(db: sqlite3.Connection, guid: str) -> JobRow | None:
    """The run with that guid, unless it has ended."""
    run = find(db, guid)
    return run if run and run.is_open else None


OF_RUNS = "guid IN (SELECT value FROM json_each(?))"  # for a JSON list of guids
NEEDS_PROCESS = "(supervisor != '' OR is_assigned = 1 OR needs_secrets = 1)"  # as its index says


def id_of(db: sqlite3.Connection, guid: str) -> str:
    """The id of the existing job whose run has that guid."""
    (id,) = db.execute("SELECT id FROM resource WHERE guid = ?", (guid,)).fetchone()
    return str(id)


def have_outlived(db: sqlite3.Connection, cluster: str) -> bool:
    """Whether a cluster was deleted while it had runs, which have ended since."""
    query = (
        "SELECT 1 WHERE NOT EXISTS (SELECT 1 FROM cluster WHERE guid = :guid)"
        " AND EXISTS (SELECT 1 FROM job WHERE cluster = :guid)"
        f" AND NOT EXISTS (SELECT 1 FROM job WHERE cluster = :guid AND {IS_OPEN})"
    )
    return db.execute(query, {"guid": cluster}).fetchone() is not None


def open_and_watched(db: sqlite3.Connection) -> list[JobRow]:
    """Open runs that need a process: a supervisor, a spawner, or a holder of secrets."""
    return _all(db, f"SELECT {COLUMNS} FROM job WHERE {IS_OPEN} AND {NEEDS_PROCESS}")


# -- its supervisor


def set_supervisor(db: sqlite3.Connection, guid: str, supervisor: str) -> None:
    """Sets the supervisor of a run that has none."""
    db.execute("UPDATE job SET supervisor = ? WHERE guid = ? AND supervisor = ''", (supervisor, guid))


def release(db: sqlite3.Connection, spawner: str, guid: str) -> None:
    """Clears a process as spawner of the runs to which it assigned nodes, and of `guid`."""
    db.execute(
        f"UPDATE job SET spawner = '' WHERE spawner = ? AND {IS_OPEN} AND (is_assigned = 1 OR guid = ?)",
        (spawner, guid),
    )


def claim(db: sqlite3.Connection, guid: str, supervisor: str) -> bool:
    """Makes a process the supervisor of an open run; False if it has another one."""
    statement = f"UPDATE job SET supervisor = ? WHERE guid = ? AND {IS_OPEN} AND supervisor IN ('', ?)"
    return _change(db, statement, supervisor, guid, supervisor)


# -- its states


def begin(db: sqlite3.Connection, guid: str, nodes: Sequence[str] = ()) -> bool:
    """Sets an open run to running on these nodes; False if it has to stop instead."""
    run, now = find(db, guid), time.time()
    begun = (*(run.attempts if run else ()), RunAttempt(tuple(nodes), now))
    return _change(
        db,
        "UPDATE job SET state = ?, changed = ?, started = ?, attempts = ?, errors = '[]'"
        f" WHERE guid = ? AND {IS_OPEN} AND stop = ''",
        *(ExecutionState.RUNNING.value, now, now, _json(begun), guid),
    )


def warn(db: sqlite3.Connection, guid: str, warnings: Sequence[Mapping[str, Any]]) -> None:
    """Sets the warnings of an open run, JSON of the service's error details; its next attempt has none."""
    db.execute(f"UPDATE job SET errors = ? WHERE guid = ? AND {IS_OPEN}", (json.dumps(warnings), guid))


def ask_to_stop(
    db: sqlite3.Connection, guid: str, reason: str, *, again: str = "", overrides: bool = False
) -> None:
    """Sets why a run has to stop, unless it has to already and this does not override that.

    `again` is the reason of a requeue.
    """
    statement = "UPDATE job SET stop = ?, again = ? WHERE guid = ? AND (stop = '' OR ?)"
    db.execute(statement, (reason, again, guid, overrides))


def set_terminating(db: sqlite3.Connection, guid: str) -> None:
    """Sets an open run with nodes to terminating."""
    states = (ExecutionState.RUNNING.value, ExecutionState.QUEUED.value)
    db.execute(
        "UPDATE job SET state = ?, changed = ? WHERE guid = ? AND state IN (?, ?)",
        (ExecutionState.TERMINATING.value, time.time(), guid, *states),
    )


def requeue(db: sqlite3.Connection, guid: str, reason: str = "") -> None:
    """Sets an open run to queued; a supervisor that holds its secrets stays with it."""
    run, now = find(db, guid), time.time()
    begun = run.attempts if run else ()
    if run and begun and begun[-1].ended is None:
        begun = (*begun[:-1], begun[-1]._replace(ended=now, reason=reason or run.again or QUEUED_AGAIN))
    db.execute(
        "UPDATE job SET state = ?, changed = ?, started = NULL, is_assigned = 0, spawner = '', stop = '',"
        " again = '', errors = '[]', attempts = ?,"
        " supervisor = CASE WHEN needs_secrets THEN supervisor ELSE '' END"
        f" WHERE guid = ? AND {IS_OPEN}",
        (ExecutionState.QUEUED.value, now, _json(begun), guid),
    )


def end(db: sqlite3.Connection, guid: str, outcome: Outcome) -> None:
    """Records the outcome of an open run, which has ended now unless it says when."""
    now = outcome.ended or time.time()
    messages = (*outcome.errors, *outcome.warnings)
    state = ExecutionState.SUCCEEDED if outcome.is_success else ExecutionState.FAILED
    values = (state.value, now, now, now, outcome.exit_code, json.dumps(messages), _json(outcome.ranks), guid)
    db.execute(
        "UPDATE job SET state = ?, changed = ?, started = coalesce(started, ?), ended = ?, exit_code = ?,"
        f" errors = ?, ranks = ?, is_assigned = 0, after = '[]' WHERE guid = ? AND {IS_OPEN}",
        values,
    )


WAITING_FOR = f"SELECT {COLUMNS} FROM dependent JOIN job ON guid = run WHERE predecessor = ? AND {IS_OPEN}"


def waiting_for(db: sqlite3.Connection, guid: str) -> list[JobRow]:
    """The open runs that wait for the end of a run."""
    return _all(db, WAITING_FOR, guid)


def lost_predecessors(db: sqlite3.Connection) -> list[str]:
    """The runs that others wait for and that do not exist any more."""
    query = "SELECT DISTINCT predecessor FROM dependent WHERE predecessor NOT IN (SELECT guid FROM job)"
    return [guid for (guid,) in db.execute(query)]


def delete(db: sqlite3.Connection, run: JobRow) -> None:
    """Deletes a run with the record of its job."""
    db.execute("DELETE FROM resource WHERE guid = ?", (run.guid,))


def _all(db: sqlite3.Connection, query: str, *values: object) -> list[JobRow]:
    return [JobRow.of(row) for row in db.execute(query, values).fetchall()]


def _json(values: Sequence[RunAttempt | ProcessExit]) -> str:
    return json.dumps([value._asdict() for value in values])


def _change(db: sqlite3.Connection, statement: str, *values: object) -> bool:
    """Whether the statement changed exactly one row."""
    return db.execute(statement, values).rowcount == 1


# Whether a queued job's group has fewer jobs with nodes than it may have.
_HAS_ROOM_IN_GROUP = (
    "(group_limit = 0 OR job_group NOT IN (SELECT job_group FROM job AS other"
    " WHERE group_limit > 0 AND is_assigned = 1 GROUP BY job_group HAVING count(*) >= min(group_limit)))"
)


def waiting_clusters(db: sqlite3.Connection) -> list[str]:
    """The clusters with idle or shared nodes, and queued jobs; cost is independent of queue length."""
    query = (
        "SELECT DISTINCT cluster FROM node WHERE (state = ? OR (state = ? AND node.job IS NULL)) AND EXISTS"
        " (SELECT 1 FROM job WHERE job.cluster = node.cluster AND job.state = ? AND is_assigned = 0"
        " AND after = '[]'"
        f" AND {_HAS_ROOM_IN_GROUP})"
    )
    values = (NodeState.IDLE.value, NodeState.RUNNING.value, ExecutionState.QUEUED.value)
    return [cluster for (cluster,) in db.execute(query, values)]


class NodeUsage(NamedTuple):
    """How many nodes a user's jobs hold, and how many jobs hold some."""

    node_count: int = 0
    job_count: int = 0


def usage_by_owner(db: sqlite3.Connection) -> dict[str, NodeUsage]:
    """The usage of each user whose jobs hold nodes of any cluster."""
    query = (
        "SELECT job.owner, count(*), count(DISTINCT held.job)"
        " FROM node_run AS held JOIN job ON job.guid = held.job GROUP BY job.owner"
    )
    return {owner: NodeUsage(nodes, jobs) for owner, nodes, jobs in db.execute(query)}


_QUEUED = "cluster = ? AND state = ? AND is_assigned = 0 AND after = '[]'"


def next_job(db: sqlite3.Connection, cluster: str) -> JobRow | None:
    """The next job of a queue: by priority, then of the user with the fewest nodes, then the oldest.

    Skips jobs of users who run as many as they may, and jobs whose secrets no process holds: they are being
    created, or the secrets are lost.
    """
    values = (cluster, ExecutionState.QUEUED.value)
    can_start = f"{_QUEUED} AND (needs_secrets = 0 OR supervisor != '') AND {_HAS_ROOM_IN_GROUP}"
    (owner_count,) = db.execute(f"SELECT count(DISTINCT owner) FROM job WHERE {_QUEUED}", values).fetchone()
    if owner_count > 1:
        query = f"SELECT {COLUMNS}, min(rowid) AS place FROM job WHERE {can_start} GROUP BY priority, owner"
    else:
        order = "ORDER BY priority DESC, rowid LIMIT 1"
        query = f"SELECT {COLUMNS}, rowid AS place FROM job WHERE {can_start} {order}"
    usage, heads = usage_by_owner(db), list[tuple[int, int, int, JobRow]]()
    for *row, row_number in db.execute(query, values).fetchall():
        job = JobRow.of(row)
        used = usage.get(job.owner, NodeUsage())
        if not job.max_running or used.job_count < job.max_running:
            heads.append((-job.priority, used.node_count, row_number, job))
    return min(heads)[3] if heads else None


def queue_of(db: sqlite3.Connection, cluster: str) -> list[str]:
    """The keys of a cluster's queued jobs in the order in which they start, if running ones go on.

    Users take turns: each job that starts adds to its user's nodes.
    """
    query = f"SELECT key, priority, owner, node_count FROM job WHERE {_QUEUED} ORDER BY priority DESC, rowid"
    rows = db.execute(query, (cluster, ExecutionState.QUEUED.value)).fetchall()
    node_counts = {owner: used.node_count for owner, used in usage_by_owner(db).items()}
    order: list[str] = []
    for _, of_priority in groupby(enumerate(rows), key=lambda item: item[1]["priority"]):
        order += _in_turns(list(of_priority), node_counts)
    return order


def _in_turns(rows: Sequence[tuple[int, sqlite3.Row]], node_counts: dict[str, int]) -> Iterator[str]:
    """The keys of jobs of one priority, by turns of their owners, whose counts of nodes grow."""
    import heapq  # few look at a queue

    waiting: dict[str, deque[tuple[int, sqlite3.Row]]] = {}
    for position, row in rows:
        waiting.setdefault(row["owner"], deque()).append((position, row))
    heap = [(node_counts.get(owner, 0), queue[0][0], owner) for owner, queue in waiting.items()]
    heapq.heapify(heap)
    while heap:
        _, _, owner = heapq.heappop(heap)
        _, row = waiting[owner].popleft()
        node_counts[owner] = node_counts.get(owner, 0) + row["node_count"]
        yield row["key"]
        if waiting[owner]:
            heapq.heappush(heap, (node_counts[owner], waiting[owner][0][0], owner))


def queued_count(db: sqlite3.Connection, owner: str) -> int:
    """How many jobs of a user are queued, on all clusters."""
    query = "SELECT count(*) FROM job WHERE state = ? AND is_assigned = 0 AND owner = ?"
    (count,) = db.execute(query, (ExecutionState.QUEUED.value, owner)).fetchone()
    return int(count)


def nodes_waited_for(db: sqlite3.Connection, cluster: str) -> int:
    """The number of nodes that all queued jobs of a cluster need."""
    query = f"SELECT coalesce(sum(node_count), 0) FROM job WHERE {_QUEUED}"
    (count,) = db.execute(query, (cluster, ExecutionState.QUEUED.value)).fetchone()
    return int(count)


def assign(db: sqlite3.Connection, job: JobRow, *, spawner: str) -> JobRow:
    """Marks a job as assigned, with the process that starts its supervisor; returns the new row."""
    assigned = job._replace(is_assigned=True, changed=time.time(), spawner=spawner)
    values = (assigned.changed, spawner, job.guid)
    db.execute("UPDATE job SET is_assigned = 1, changed = ?, spawner = ? WHERE guid = ?", values)
    return assigned


def release_dependents(db: sqlite3.Connection, guid: str, *, is_success: bool) -> None:
    """Queues the runs that waited only for an ended run, or ends them and, recursively, their dependents."""
    ended = [(guid, is_success)]
    while ended:
        guid, is_success = ended.pop()
        for run in waiting_for(db, guid):
            predecessor = next(other for other in run.after if other.guid == guid)
            if predecessor.must_succeed and not is_success:
                end(db, run.guid, dependency_failed(predecessor.name))
                ended.append((run.guid, False))
            else:
                remaining = [other for other in run.after if other != predecessor]
                db.execute("UPDATE job SET after = ? WHERE guid = ?", (json.dumps(remaining), run.guid))


def end_dependents_of_lost(db: sqlite3.Connection) -> None:
    """Releases the dependents of runs that do not exist any more, as if these had failed."""
    for guid in lost_predecessors(db):
        release_dependents(db, guid, is_success=False)


def release_from(db: sqlite3.Connection, predecessor: Predecessor) -> bool:
    """Releases the dependents of a run if it has ended; False if it does not exist."""
    run = find(db, predecessor.guid)
    if run and not run.is_open:
        release_dependents(db, run.guid, is_success=run.state is ExecutionState.SUCCEEDED)
    return run is not None


def release_all(db: sqlite3.Connection) -> None:
    """Releases the dependents of all ended runs; those of a run that does not exist end."""
    waiting = _all(db, f"SELECT {COLUMNS} FROM job INDEXED BY job_after WHERE after != '[]' AND {IS_OPEN}")
    for predecessor in {other for run in waiting for other in run.after}:
        release_from(db, predecessor)
    end_dependents_of_lost(db)
