"""What the processes of runs use of their nodes, by the samples that nodes write into the run's logs."""

from __future__ import annotations

import json
import re
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from batchai_magics.backends.azureml.job_logs import JobLogs, WatchedLogs
from batchai_magics.errors import NotFoundError
from batchai_magics.models.resource_ids import ResourceId
from batchai_magics.models.telemetry_records import Sample, TelemetryRecord

_FILE = re.compile(r"logs/batchai/telemetry/(?P<rank>\d+)\.jsonl")
_EXIT = "logs/batchai/exits/{rank}.json"  # once there is one, the rank's samples are complete
_PERIOD_S = 5.0  # between two reads for a running job: its logs come first
_PIECE_BYTES = 4 << 20
_MAX_RUNS = 64  # whose samples are kept


class RunTelemetry:
    """The facet `telemetry`: what is read of a run is kept, and each byte is read once."""

    def __init__(self, logs: JobLogs, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._logs, self._clock = logs, clock
        self._lock = threading.Lock()
        self._runs: dict[str, _RunSamples] = {}

    def read(self, job: ResourceId, *, after: float = 0.0) -> TelemetryRecord:
        """The samples taken after `after` (seconds since 1970), in order of time.

        A running job's files are read in turns, one in some seconds, and shown as far as all are known; those
        of an ended job are read to their ends.

        Raises:
            NotFoundError: The job does not exist.
        """
        watched, run = self._logs.watched(job), self._run(job)
        with run.lock:
            run.advance(watched, self._clock())
            return run.record(after)

    def _run(self, job: ResourceId) -> _RunSamples:
        """The samples of a run, kept in least-recently-used order."""
        with self._lock:
            run = self._runs.pop(job.key, None) or _RunSamples()
            self._runs[job.key] = run
            while len(self._runs) > _MAX_RUNS:
                self._runs.pop(next(iter(self._runs)))
            return run


@dataclass
class _RankSamples:
    """The samples of one rank, which its node appends to a file."""

    offset: int = 0
    rest: bytes = b""  # the beginning of an unfinished line
    machine: str = ""
    node: str = ""
    notes: tuple[str, ...] = ()
    samples: list[Sample] = field(default_factory=list)
    is_complete: bool = False

    @property
    def known_until(self) -> float:
        """The time until which there can be no other samples."""
        return float("inf") if self.is_complete else self.samples[-1].time if self.samples else float("-inf")

    def read_on(self, watched: WatchedLogs, name: str, rank: int) -> None:
        """Reads the next bytes; a file that became shorter is that of another attempt."""
        blob = watched.blob(name, _PIECE_BYTES, offset=self.offset)
        if blob is None or blob.size < self.offset:
            self.offset, self.rest, self.is_complete = 0, b"", blob is None and watched.has_ended
            return
        self.offset += len(blob.data)
        *lines, self.rest = (self.rest + blob.data).split(b"\n")
        for line in lines:
            if sample := Sample.of_line(line, self.machine):
                self.samples.append(sample)
            else:
                self._read_head(line, rank)
        has_exited = watched.has_ended or _EXIT.format(rank=rank) in watched.details().log_files
        self.is_complete = has_exited and self.offset >= blob.size

    def _read_head(self, line: bytes, rank: int) -> None:
        try:
            head = json.loads(line)
            self.machine, self.node = str(head["machine"]), str(head["nodes"][str(rank)])
            self.notes = tuple(map(str, head["notes"]))
        except (KeyError, TypeError, ValueError):  # a sample that was cut when its node was lost
            return


class _RunSamples:
    """The samples of all ranks of a run."""

    def __init__(self) -> None:
        self.lock = threading.Lock()  # of its readers: other runs do not wait for its files
        self._files: dict[str, _RankSamples] = {}
        self._due_at = float("-inf")

    def advance(self, watched: WatchedLogs, now_s: float) -> None:
        """Reads the file that was read longest ago, if that is due; once the job has ended, all files."""
        if not (watched.has_ended or (now_s >= self._due_at and watched.allows_request)):
            return
        self._due_at = now_s + _PERIOD_S
        try:
            names = [name for name in watched.details().log_files if _FILE.fullmatch(name)]
        except NotFoundError:  # run history knows nothing of it yet
            return
        for name in names:
            self._files.setdefault(name, _RankSamples())
        while open_files := [name for name, file in self._files.items() if not file.is_complete]:
            self._read_on(watched, open_files[0])
            if not watched.has_ended:
                return

    def record(self, after: float) -> TelemetryRecord:
        """What was read, without the samples until `after`, and as far as all ranks are known."""
        files = {int(name.rpartition("/")[2].partition(".")[0]): file for name, file in self._files.items()}
        until = min((file.known_until for file in files.values()), default=0.0)
        found = (sample for file in files.values() for sample in file.samples if after < sample.time <= until)
        return TelemetryRecord(
            {rank: file.node for rank, file in sorted(files.items()) if file.node},
            tuple(sorted(found, key=lambda sample: sample.time)),
            tuple(dict.fromkeys(note for file in files.values() for note in file.notes)),
        )

    def _read_on(self, watched: WatchedLogs, name: str) -> None:
        file = self._files.pop(name)
        self._files[name] = file  # last: the next one is that which was read longest ago
        match = _FILE.fullmatch(name)
        file.read_on(watched, name, int(match["rank"]) if match else 0)
