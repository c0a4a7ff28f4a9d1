"""The files through which a run's submitter and its nodes share its state.

Each is written once, by whichever process links it first, and never changed: several hosts may read and
write at the same time. A run has attempts, each a Slurm job; the latest one is the last that was submitted.
"""

from __future__ import annotations

import contextlib
import enum
import json
import re
import time
import uuid
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeVar

from batchai_magics.backends.folders import private_files
from batchai_magics.backends.folders.private_files import is_remote
from batchai_magics.backends.folders.run_end import read_end, write_end
from batchai_magics.backends.node.job_layout import JobLayout, RunEntry
from batchai_magics.backends.node.outcome import REQUEUE
from batchai_magics.errors import is_disk_full
from batchai_magics.launch.outcome import Outcome, RunAttempt
from batchai_magics.launch.plan import Plan
from batchai_magics.untrusted_files import MAX_PLAN_BYTES, NotRegularError, read_json

T = TypeVar("T")


def overwrite(file: Path, data: bytes) -> None:
    """Overwrites existing bytes, which needs no additional disk space."""
    if is_remote(file):
        return file.write_at(data, 0, cut=True)
    with file.open("r+b") as stream:
        stream.write(data)
        stream.truncate()


def read_as(kind: Callable[..., T], file: Path) -> T | None:
    """Reads a file as a value of that type; None if it does not exist, or the job has replaced it."""
    try:
        return kind(**read_json(file))
    except (FileNotFoundError, NotRegularError, ValueError, TypeError):
        return None


def write_once(file: Path, value: Any) -> bool:
    """Writes a new file atomically; False if it exists."""
    return private_files.write_new(file, json.dumps(value))


def link_once(part: Path, file: Path) -> bool:
    """Links a complete file to its name; False if that exists."""
    try:
        file.hardlink_to(part)
    except FileExistsError:
        return False
    return True


def written_at(file: Path) -> float:
    """The file's mtime, by its file system's clock; 0.0 if it does not exist."""
    try:
        return file.stat().st_mtime
    except FileNotFoundError:
        return 0.0


# Notes on an attempt: that it was submitted; that it runs; why it ended although its run has not (a sentence
# without period); why it is to end (`requeue`, `terminate` or a sentence); Slurm's first report of its end.
NoteKind = Literal["submission", "begun", "left", "stop", "over"]
NOT_REPORTED = "it exited without reporting a status: its node was lost, or its program was killed"
ROOM, ROOM_OF_RANK = 1 << 13, 1 << 8  # bytes reserved for the record of how a run ended


class SlurmSubmission(NamedTuple):
    """An attempt was submitted to Slurm; `slurm_job` is its Slurm job id."""

    slurm_job: str
    time: float


class ArrayTask(NamedTuple):
    """The array of which the first attempt of a run is a task, by its comment, and the number of the task."""

    array: str
    task: int


def dependency(slurm_jobs: Sequence[str]) -> str:
    """Slurm's condition that jobs have ended, with any result: whether they succeeded is in their files."""
    return f"afterany:{':'.join(slurm_jobs)}"


class AttemptStart(NamedTuple):
    """An attempt runs on these nodes; `restarts` counts how often Slurm has requeued it.

    `unwatched` is why its conditions are no longer watched, a sentence without its period. `ending` is when
    its processes were asked to end, and began to save; 0 before.
    """

    slurm_job: str
    nodes: tuple[str, ...]
    time: float
    restarts: int = 0
    unwatched: str = ""
    ending: float = 0.0


class AttemptNote(NamedTuple):
    """Why an attempt ended or is to end, or Slurm's state for its end, and when: see `NoteKind`."""

    reason: str
    time: float


class JobBundle(NamedTuple):
    """The plans that a run's first node executes: of the job, and of its cluster's setup task (empty: none).

    They are JSON with references to nodes, addresses and ports, which only that node can resolve.
    """

    plan: str
    mpi: str  # the value of `srun --mpi`
    programs: str  # the folder of the programs
    home: str = ""  # the folder that containers see
    setup: str = ""
    setups: str = ""  # the folder that records on which nodes the setup task has run
    setup_secrets: str = ""  # the file with its secrets, which may be missing
    scratch: str = ""  # the scratch folder on nodes' own disks; may contain variables of the nodes
    scratch_limit_bytes: int = 0  # how much of it is collected, per node
    lost_s: float = 30.0  # after which a predecessor that has ended without a status counts as lost

    def to_json(self) -> str:
        """The JSON that is written to the file."""
        return json.dumps(self._asdict())

    @classmethod
    def read(cls, file: Path) -> JobBundle:
        """Reads a job bundle."""
        return cls(**read_json(file, MAX_PLAN_BYTES))


class RunFiles(JobLayout):
    """The files of a run, among them those about its attempts."""

    bundle = RunEntry("order.json")  # the `JobBundle`
    room = RunEntry("end-room")  # disk space reserved for the end record; deleted when the run ends
    script = RunEntry("batch.sh")  # the batch script
    own_log = RunEntry("batch.log")  # the output of the batch script of an attempt that is submitted alone
    secrets = RunEntry("secrets.json")  # the job's secrets, only for its owner; deleted when the job ends
    setup_exits = RunEntry("setup-exits")  # an exit record for every node on which it ran the setup task
    # Exists once the run is to be killed, without the time to save that it has.
    kill_request = RunEntry("kill")

    @property
    def batch_log(self) -> Path:
        """The output of the batch script itself; empty if all is well."""
        task = self.array_task
        return array_logs(self.root, task.array) / str(task.task) if task else self.own_log

    @property
    def array_task(self) -> ArrayTask | None:
        """The task of an array that its first attempt is; None without one, and for later attempts."""
        is_first = not self._file("submission", 2).exists()
        return read_as(ArrayTask, self.root / "array.json") if is_first else None

    def note_array_task(self, task: ArrayTask) -> None:
        """Records, before the submission, which task of an array the run is."""
        private_files.write(self.root / "array.json", json.dumps(task._asdict()))

    def of_run(self, guid: str) -> RunFiles:
        """The files of another run of the home."""
        return RunFiles(self.root.with_name(guid))

    @property
    def comment(self) -> str:
        """The comment of its Slurm job: the guid of the run, or its array's."""
        task = self.array_task
        return task.array if task else self.root.name

    @property
    def attempt(self) -> int:
        """The number of the latest attempt, from 1; 0 before the first submission."""
        number = 0
        while self._file("submission", number + 1).exists():
            number += 1
        return number

    def submission(self, attempt: int) -> SlurmSubmission | None:
        """The submission of an attempt, if there was one."""
        return read_as(SlurmSubmission, self._file("submission", attempt))

    def attempt_start(self, attempt: int) -> AttemptStart | None:
        """The start of an attempt; None before it."""
        attempts = read_as(AttemptStart, self._file("begun", attempt))
        return attempts._replace(nodes=tuple(attempts.nodes)) if attempts else None

    def stop(self, attempt: int) -> AttemptNote | None:
        """The stop request for an attempt, if any."""
        return read_as(AttemptNote, self._file("stop", attempt))

    def note_submission(self, attempt: int, submission: SlurmSubmission) -> bool:
        """Records a submission; False if another process has done so."""
        return write_once(self._file("submission", attempt), submission._asdict())

    def note_attempt_start(self, attempt: int, start: AttemptStart) -> None:
        """Records that an attempt runs; a restart replaces the previous start, which is kept separately."""
        write_once(self._file("begun", attempt, start.restarts), start._asdict())
        private_files.write(self._file("begun", attempt), json.dumps(start._asdict()))

    def note_unwatched(self, attempt: int, reason: str) -> None:
        """Records that the latest start of an attempt is no longer watched."""
        self._change_start(attempt, unwatched=reason)

    def note_ending(self, attempt: int) -> None:
        """Records that the processes of an attempt were asked to end."""
        self._change_start(attempt, ending=time.time())

    def _change_start(self, attempt: int, **fields: object) -> None:
        if start := self.attempt_start(attempt):
            changed = {**start._asdict(), **fields}
            private_files.write(self._file("begun", attempt), json.dumps(changed))

    def note_attempt_end(self, attempt: int, restarts: int, end: AttemptNote) -> None:
        """Records that an attempt ended although the run has not."""
        write_once(self._file("left", attempt, restarts), end._asdict())

    def attempt_end(self, attempt: int, restarts: int) -> AttemptNote | None:
        """Why an attempt ended; None while it runs, and for the run's last attempt."""
        return read_as(AttemptNote, self._file("left", attempt, restarts))

    def attempts(self) -> list[RunAttempt]:
        """All attempts of the run, in order; one that reported no end ended when the next one started."""
        attempts = list[RunAttempt]()
        for attempt in range(1, self.attempt + 1):
            latest = self.attempt_start(attempt)
            for restarts in range(latest.restarts + 1 if latest else 0):
                start = read_as(AttemptStart, self._file("begun", attempt, restarts))
                if not start:
                    continue
                if attempts and attempts[-1].ended is None:
                    attempts[-1] = attempts[-1]._replace(ended=start.time, reason=NOT_REPORTED)
                end = self.attempt_end(attempt, restarts)
                ended, reason = (end.time, end.reason) if end else (None, "")
                attempts.append(RunAttempt(tuple(start.nodes), start.time, ended, reason))
        return attempts

    @property
    def is_requeued(self) -> bool:
        """Whether an attempt has ended or is ending, and another one follows."""
        attempt = self.attempt
        start, stop = self.attempt_start(attempt), self.stop(attempt)
        is_left = start is not None and self.attempt_end(attempt, start.restarts) is not None
        is_stopped = stop is not None and stop.reason == REQUEUE
        return self.outcome is None and (is_left or is_stopped or (attempt > 1 and start is None))

    def is_superseded(self, attempt: int, restarts: int) -> bool:
        """Whether a later attempt has started."""
        latest = self.attempt_start(attempt)
        return bool(latest and latest.restarts > restarts) or self._file("begun", attempt + 1).exists()

    def last_stop(self, attempt: int) -> AttemptNote | None:
        """The stop request for the latest attempt; after a requeue, preferably that for the next one."""
        stop = self.stop(attempt)
        return self.stop(attempt + 1) or stop if stop and stop.reason == REQUEUE else stop

    def ask_to_stop(self, attempt: int, stop: AttemptNote) -> int:
        """Asks an attempt to stop; returns the number of the attempt that will stop, 0 if asked before.

        If this attempt is being requeued, the next one will stop, which may not be submitted yet.
        """
        if write_once(self._file("stop", attempt), stop._asdict()):
            return attempt
        earlier = self.stop(attempt)
        ends_run = stop.reason != REQUEUE and earlier is not None and earlier.reason == REQUEUE
        is_first = ends_run and write_once(self._file("stop", attempt + 1), stop._asdict())
        return attempt + 1 if is_first else 0

    def engine_report(self, attempt: int) -> AttemptNote | None:
        """Slurm's first report that an attempt is over; None before it."""
        return read_as(AttemptNote, self._file("over", attempt))

    def note_engine_report(self, attempt: int, report: AttemptNote) -> None:
        """Records Slurm's report, unless there is one."""
        write_once(self._file("over", attempt), report._asdict())

    def written_at(self, note: NoteKind, attempt: int) -> float:
        """The mtime of an attempt's note, by the file system's clock; 0.0 if it is missing."""
        return written_at(self._file(note, attempt))

    @property
    def outcome(self) -> Outcome | None:
        """How the run ended; None before."""
        return read_end(self.end)

    def note_end(self, outcome: Outcome) -> bool:
        """Records the end of the run; False if it had ended.

        The secrets are deleted before it becomes visible.
        """
        part = self.end.with_name(f"end-{uuid.uuid4().hex}.json")
        try:
            try:
                with private_files.pipelined(self.root):
                    self.secrets.unlink(missing_ok=True)
                    write_end(part, outcome)
            except OSError as error:
                part.with_suffix(".part").unlink(missing_ok=True)
                if not is_disk_full(error):
                    raise
                try:
                    self.room.rename(part)  # the file now belongs to this process alone
                except FileNotFoundError:
                    raise error from None
                overwrite(part, outcome.to_json().encode())
            is_first = link_once(part, self.end)
        finally:
            part.unlink(missing_ok=True)
        self.room.unlink(missing_ok=True)
        return is_first

    def reserve_room(self, process_count: int) -> None:
        """Reserves disk space, so that the end can be recorded even when the disk is full."""
        private_files.write(self.room, " " * (ROOM + ROOM_OF_RANK * process_count))

    def _file(self, name: NoteKind, attempt: int, restarts: int | None = None) -> Path:
        number = attempt if restarts is None else f"{attempt}.{restarts}"
        return self.root / f"{name}-{number}.json"


def read_secrets(file: Path) -> dict[str, str]:
    """The variables in a file of secrets; empty if there is no such file."""
    try:
        values: dict[str, str] = read_json(file)
    except FileNotFoundError:
        return {}
    return values


def array_logs(root: Path, array: str) -> Path:
    """The folder with the output of the batch scripts of an array that the run in `root` is a task of."""
    return root.parents[1] / "arrays" / array


class RankMark(enum.Enum):
    """An observation by the program of a rank: an empty file for the rank, in a folder of the attempt."""

    STARTED = "started"  # it has started
    CUT_OFF = "cut-off"  # the rank was ended rather than ending on its own
    ORPHAN = "orphans"  # it ended the rank, because slurmstepd, its parent, had died
    OUT_OF_MEMORY = "out-of-memory"  # the rank was killed when its node was out of memory
    UNWRITTEN = "unkept"  # output of ranks could not be written; a file for each errno instead

    def folder(self, plan: Plan) -> Path:
        """The folder of these files."""
        return Path(f"{plan.exits}.{self.value}")

    def add(self, plan: Plan, number: int) -> None:
        """Marks a rank."""
        with contextlib.suppress(OSError):  # a full disk, which its outcome will report
            (self.folder(plan) / str(number)).touch(mode=0o600)

    def numbers(self, plan: Plan) -> list[int]:
        """The marked ranks."""
        folder = self.folder(plan)
        return sorted(int(file.name) for file in folder.iterdir()) if folder.exists() else []


def ending_mark(plan: Plan) -> Path:
    """The file that exists once the ranks of an attempt are to end, within the job's grace period."""
    return Path(f"{plan.exits}.ending")


def has_next_attempt(plan: Plan) -> bool:
    """Whether a later attempt has started since the plan was made: it has the next folder for exits."""
    match = re.fullmatch(r"(.*/exits)(?:-(\d+))?", plan.exits)
    return match is not None and Path(f"{match[1]}-{int(match[2] or 1) + 1}").exists()
