"""The files by which a run's submitter and its nodes tell each other where it stands.

Each is written once, by whoever links it first, and never changed: several hosts may read and write at once.
A run has attempts, each a job of Slurm; the latest is the one that has been submitted last.
"""

from __future__ import annotations

import json
import re
import uuid
from pathlib import Path
from typing import Literal, NamedTuple

from batchai_magics.backends.folders.layout import JobLayout
from batchai_magics.backends.folders.run_end import RunEnd
from batchai_magics.backends.node.outcome import REQUEUE
from batchai_magics.backends.service import private_files
from batchai_magics.backends.slurm.node.written_once import (
    link_once,
    overwrite,
    read_as,
    write_once,
    written_at,
)
from batchai_magics.errors import is_disk_full
from batchai_magics.launch.plan import Plan

Note = Literal["submission", "begun", "left", "stop", "over"]
ROOM, ROOM_OF_RANK = 1 << 13, 1 << 8  # bytes of how a run ends


class Submission(NamedTuple):
    """An attempt was submitted to Slurm; `slurm_job` is its Slurm job id."""

    slurm_job: str
    time: float
    is_held: bool = False


class AttemptStart(NamedTuple):
    """An attempt runs on these nodes; `restarts` counts how often Slurm has requeued it."""

    slurm_job: str
    nodes: tuple[str, ...]
    time: float
    restarts: int = 0


class AttemptEnd(NamedTuple):
    """An attempt is over and the run is not; `reason` is a sentence without its full stop."""

    reason: str
    time: float


class Stop(NamedTuple):
    """An attempt is to end: `requeue`, `terminate`, or a sentence."""

    reason: str
    time: float


class EngineReport(NamedTuple):
    """Slurm says that an attempt is over, in that state; somebody has heard it at that time."""

    state: str
    time: float


class RunFiles:
    """What the folder of a run tells of its attempts."""

    def __init__(self, root: Path) -> None:
        self.layout = JobLayout(root)
        self.root = root

    @property
    def bundle(self) -> Path:
        """What the nodes are to do, with references to what only they know."""
        return self.root / "order.json"

    @property
    def room(self) -> Path:
        """Room on the disk for how the run ends; only there until it has ended."""
        return self.root / "end-room"

    @property
    def script(self) -> Path:
        """The batch script."""
        return self.root / "batch.sh"

    @property
    def batch_log(self) -> Path:
        """What the batch script itself had to say; empty when all is well."""
        return self.root / "batch.log"

    @property
    def secrets(self) -> Path:
        """The values of the job's secrets, for its owner's eyes alone; gone when the job has ended."""
        return self.root / "secrets.json"

    @property
    def setup_exits(self) -> Path:
        """One small file for every node on which the run has had its cluster's setup task run."""
        return self.root / "setup-exits"

    @property
    def attempt(self) -> int:
        """The number of the latest attempt, from 1; 0 before the first submission."""
        number = 0
        while self._file("submission", number + 1).exists():
            number += 1
        return number

    def submission(self, attempt: int) -> Submission | None:
        """How an attempt was submitted."""
        return read_as(Submission, self._file("submission", attempt))

    def attempt_start(self, attempt: int) -> AttemptStart | None:
        """How an attempt began; None before."""
        found = read_as(AttemptStart, self._file("begun", attempt))
        return found._replace(nodes=tuple(found.nodes)) if found else None

    def stop(self, attempt: int) -> Stop | None:
        """Why an attempt has to end; None when it does not."""
        return read_as(Stop, self._file("stop", attempt))

    def note_submission(self, attempt: int, submission: Submission) -> bool:
        """Notes that an attempt was submitted; False when another process has done so."""
        return write_once(self._file("submission", attempt), submission._asdict())

    def note_attempt_start(self, attempt: int, begun: AttemptStart) -> None:
        """Notes that an attempt runs; a later beginning takes the place of the one before, which is kept."""
        write_once(self._file("begun", attempt, begun.restarts), begun._asdict())
        private_files.write(self._file("begun", attempt), json.dumps(begun._asdict()))

    def note_attempt_end(self, attempt: int, restarts: int, left: AttemptEnd) -> None:
        """Notes that a beginning is over though the run is not."""
        write_once(self._file("left", attempt, restarts), left._asdict())

    def attempt_end(self, attempt: int, restarts: int) -> AttemptEnd | None:
        """How a beginning was over; None while it is not, and for the one that the run ended with."""
        return read_as(AttemptEnd, self._file("left", attempt, restarts))

    def attempts(self) -> list[tuple[AttemptStart, AttemptEnd | None]]:
        """Every time that the run was begun, with how each was over, the first before the others."""
        found = []
        for attempt in range(1, self.attempt + 1):
            latest = self.attempt_start(attempt)
            for restarts in range(latest.restarts + 1 if latest else 0):
                begun = read_as(AttemptStart, self._file("begun", attempt, restarts))
                if begun:
                    found.append(
                        (begun._replace(nodes=tuple(begun.nodes)), self.attempt_end(attempt, restarts))
                    )
        return found

    def is_superseded(self, attempt: int, restarts: int) -> bool:
        """Whether the run has been begun once more since."""
        latest = self.attempt_start(attempt)
        return bool(latest and latest.restarts > restarts) or self._file("begun", attempt + 1).exists()

    def last_stop(self, attempt: int) -> Stop | None:
        """Why the latest attempt has to end; if it is to be begun again, what was said of that one since."""
        stop = self.stop(attempt)
        return self.stop(attempt + 1) or stop if stop and stop.reason == REQUEUE else stop

    def ask_to_stop(self, attempt: int, stop: Stop) -> int:
        """Asks an attempt to end; 0 when it was asked before, else the attempt that is to end.

        That is the next one, which may be on its way to Slurm, if this one was only to be begun again.
        """
        if write_once(self._file("stop", attempt), stop._asdict()):
            return attempt
        noted = self.stop(attempt)
        is_for_good = stop.reason != REQUEUE and noted is not None and noted.reason == REQUEUE
        is_first = is_for_good and write_once(self._file("stop", attempt + 1), stop._asdict())
        return attempt + 1 if is_first else 0

    def engine_report(self, attempt: int) -> EngineReport | None:
        """When Slurm said for the first time that an attempt is over; None while it has not."""
        return read_as(EngineReport, self._file("over", attempt))

    def note_engine_report(self, attempt: int, over: EngineReport) -> EngineReport:
        """Notes that Slurm says so; gives what was noted first."""
        write_once(self._file("over", attempt), over._asdict())
        return self.engine_report(attempt) or over

    def written_at(self, note: Note, attempt: int) -> float:
        """When a note of an attempt was written, by the clock of the file system; 0.0 where there is none."""
        return written_at(self._file(note, attempt))

    @property
    def end(self) -> RunEnd | None:
        """How the run has ended; None before."""
        return RunEnd.read(self.layout.end)

    def note_end(self, end: RunEnd) -> bool:
        """Notes the end of the run; False when it had one. Who sees it finds no secret of the run."""
        part = self.layout.end.with_name(f"end-{uuid.uuid4().hex}.json")
        try:
            self._write_end(end, part)
            is_first = link_once(part, self.layout.end)
        finally:
            part.unlink(missing_ok=True)
        self.room.unlink(missing_ok=True)
        return is_first

    def keep_room(self, process_count: int) -> None:
        """Takes room for how the run ends, so that it can be told also when the disk is full."""
        private_files.write(self.room, " " * (ROOM + ROOM_OF_RANK * process_count))

    def _write_end(self, end: RunEnd, part: Path) -> None:
        try:
            with private_files.at_once(self.root):
                self.secrets.unlink(missing_ok=True)
                end.write(part)
        except OSError as error:
            part.with_suffix(".part").unlink(missing_ok=True)
            if not is_disk_full(error):
                raise
            try:
                self.room.rename(part)  # it is nobody else's from now on
            except FileNotFoundError:
                raise error from None
            overwrite(part, end.to_json().encode())

    def _file(self, name: Note, attempt: int, restarts: int | None = None) -> Path:
        number = attempt if restarts is None else f"{attempt}.{restarts}"
        return self.root / f"{name}-{number}.json"


def cut_off_folder(plan: Plan) -> Path:
    """One empty file for each rank that was ended, and did not end by itself."""
    return Path(f"{plan.exits}.cut-off")


def unkept_folder(plan: Plan) -> Path:
    """One empty file for each reason, by its number, for which output of ranks could not be kept."""
    return Path(f"{plan.exits}.unkept")


def is_followed(plan: Plan) -> bool:
    """Whether the run has been begun once more since the plan was made: that has the next folder of exits."""
    match = re.fullmatch(r"(.*/exits)(?:-(\d+))?", plan.exits)
    return match is not None and Path(f"{match[1]}-{int(match[2] or 1) + 1}").exists()
