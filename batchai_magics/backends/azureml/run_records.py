"""The status, attempts, records and telemetry of runs, beside their jobs.

They are read once for ended jobs. Records are variables of the job (of its submission), files (machines) and
tags (labels).
"""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from math import inf
from typing import Any

from batchai_magics.backends.azure.arm_protocol import check_inside
from batchai_magics.backends.azureml.job_logs import JobLogs, WatchedLogs
from batchai_magics.backends.azureml.job_names import labels_of, tags_of
from batchai_magics.backends.azureml.jobs import AzureJob, Jobs
from batchai_magics.backends.azureml.run_details import RunDetails, attempt_count, rank_logs
from batchai_magics.backends.azureml.ttl_cache import TtlCache
from batchai_magics.backends.node.outcome import process_failed
from batchai_magics.backends.service.runner import RunStatus
from batchai_magics.errors import NotFoundError, UsageError
from batchai_magics.launch.outcome import Outcome, RunAttempt, error_detail
from batchai_magics.launch.plan import Plan, PlanError, ProcessExit
from batchai_magics.metrics.runs.stop_evaluation import unmet_everywhere
from batchai_magics.models.resource_ids import ResourceId
from batchai_magics.models.runs.labels import BASELINE, LabelChange, Labels, check_tags
from batchai_magics.models.states import CONDITION_MET, TERMINATED, ExecutionState
from batchai_magics.models.telemetry_records import Sample, TelemetryRecord
from batchai_magics.records.record_files import LABELS, MAX_BYTES, PART

_END = re.compile(r"logs/batchai/exits/\d+\.json")
_CANCELLED = "Canceled"
_NO_REASON = "The service reports that the job failed."
_RESTARTED = "the service started it again: its nodes were preempted or failed"
_MAX_END_BYTES = 1 << 18
_FOLDER = "logs/batchai/records/"


class RunStatuses:
    """The status of runs; an ended run's never changes and is read once.

    `waiting` returns why a queued job waits.
    """

    def __init__(self, logs: JobLogs, waiting: Callable[[AzureJob], str]) -> None:
        self._logs, self._waiting = logs, waiting
        self._ended = TtlCache[RunStatus](_life_s)

    def of(self, job: AzureJob) -> RunStatus:
        """The status of a job's run."""
        return self._ended.get(job.run, partial(self._read, job))

    def _read(self, job: AzureJob) -> RunStatus:
        created = job.provisioning.created.timestamp()
        if job.state is ExecutionState.QUEUED:  # the only status that does not depend on its run
            return RunStatus(job.state, created, waiting=self._waiting(job))
        watched = self._logs.watched(job.id)
        if job.state.is_final:  # else another reader may have set it
            watched.has_ended = True
        try:
            details = watched.details()
        except NotFoundError:  # run history has no record of it yet, or no more
            details = RunDetails("NotStarted")
        started = details.started.timestamp() if details.started else created
        attempts = tuple(_attempts(watched, details))
        if not job.state.is_final:
            warnings = (*details.errors, *details.warnings)
            return RunStatus(job.state, started, started, attempts=attempts, warnings=warnings)
        ended = details.ended.timestamp() if details.ended else started
        recorded = []  # outcomes recorded by our programs, one for each process that has ended
        for name in details.log_files:
            blob = watched.blob(name, _MAX_END_BYTES) if _END.fullmatch(name) else None
            if blob and (outcome := Outcome.from_json(blob.data)):  # else its node was lost meanwhile
                recorded.append(outcome)
        result = _outcome(job, details, recorded)._replace(ended=ended)
        return RunStatus(job.state, ended, started, attempts=attempts, result=result)


def _life_s(status: RunStatus) -> float:
    """The lifetime of a status: infinite once run history has the end of the run, else 0."""
    return inf if status.result and status.result.ended > (status.started or 0.0) else 0.0


def _outcome(job: AzureJob, details: RunDetails, recorded: Sequence[Outcome]) -> Outcome:
    """The outcome of a run, by the report of the service and the records of our programs."""
    ranks = _ranks(job, recorded, details)
    stopped = next((outcome for outcome in recorded if outcome.errors), None)
    is_stopped_by_condition = stopped is not None and stopped.errors[0]["code"] == CONDITION_MET
    warnings = (*(() if is_stopped_by_condition else _unchecked(job, recorded)), *details.warnings)
    if job.status == _CANCELLED:
        error = error_detail(TERMINATED, "The specified job has been terminated by the user")
        return Outcome(None, (error,), ranks, warnings=warnings)
    if stopped:  # the service only reports that our program has failed
        return Outcome(stopped.exit_code, stopped.errors, ranks, warnings=warnings)
    if job.state is ExecutionState.SUCCEEDED:
        return Outcome(0, details.errors, ranks, warnings=warnings)
    failed = process_failed(ranks[0]).errors if ranks and ranks[0].exit_code else ()
    errors = (*failed, *details.errors) or (error_detail("JobFailed", _NO_REASON),)
    codes = [rank.exit_code for rank in ranks if rank.exit_code is not None]
    return Outcome(codes[0] if codes else details.exit_code, errors, ranks, warnings=warnings)


def _ranks(job: AzureJob, recorded: Sequence[Outcome], details: RunDetails) -> tuple[ProcessExit, ...]:
    """The exits of all processes, first failure first; without exit codes for those that recorded none."""
    ends = {end.rank: end for outcome in recorded for end in outcome.ranks}
    ended = details.ended.timestamp() if details.ended else None
    for rank in range(_process_count(job)) if ends else ():
        ends.setdefault(rank, ProcessExit(rank, "", None, ended))
    order = sorted(ends.values(), key=lambda end: (end.exit_code is None, end.ended or 0.0, end.rank))
    return tuple(sorted(order, key=lambda end: not end.exit_code))


def _unchecked(job: AzureJob, recorded: Sequence[Outcome]) -> Iterator[dict[str, Any]]:
    """The warnings about conditions that no watch program could check.

    Each program checks the conditions on the output of its own process; a condition is unchecked if it had
    nothing to check in any process.
    """
    unmet = [[warning["message"] for warning in outcome.warnings] for outcome in recorded]
    count = _process_count(job)
    if count and len(recorded) >= count:
        for text in unmet_everywhere(unmet):
            yield error_detail("StopConditionNotChecked", text)


def _process_count(job: AzureJob) -> int:
    """The number of processes of a job; 0 if another program or version submitted it."""
    try:
        return len(Plan.from_json(job.bundle["plan"]).processes)
    except (KeyError, PlanError):
        return 0


def _attempts(watched: WatchedLogs, details: RunDetails) -> Iterator[RunAttempt]:
    """The attempts of a run that the service restarted; each ended when its last line was written."""
    count = attempt_count(details.log_files)
    if count == 1 or details.started is None:
        return
    started = details.started.timestamp()
    for number in range(1, count):
        logs = [log for log in rank_logs(details.log_files) if log.attempt == number - 1]
        blob = watched.blob(logs[0].name) if logs else None
        ended = blob.modified.timestamp() if blob and blob.modified else started
        yield RunAttempt((), started, ended, _RESTARTED)
        started = ended
    yield RunAttempt((), started, details.ended.timestamp() if details.ended else None)


class JobRecords:
    """The records of a workspace's runs."""

    def __init__(self, jobs: Jobs, logs: JobLogs) -> None:
        self._jobs, self._logs = jobs, logs

    def read(self, job: ResourceId, names: Collection[str]) -> Mapping[str, bytes]:
        """The record files with these names, and those in these folders (`machines/`), if they exist."""
        for name in names:
            check_inside(name)
        service_job = self._jobs.find(job)
        submitted = {
            **(service_job.bundle.get("records") or {}),
            LABELS: labels_of(service_job.tags).to_text(),
        }
        records = {name: submitted[name].encode() for name in names if name in submitted}
        for name, data in self._node_records(job, [name for name in names if name not in records]):
            records[name] = data
        return records

    def labels(self, jobs: Collection[ResourceId]) -> Mapping[str, Labels]:
        """The tags, notes and parameters of those jobs that exist and have any: key → labels."""
        keys = {job.key for job in jobs}
        workspaces = {job.workspace_id.key: job.workspace_id for job in jobs}
        listed = (job for workspace in workspaces.values() for job in self._jobs.all(workspace))
        labels_by_key = {job.id.key: labels_of(job.tags) for job in listed if job.id.key in keys}
        return {key: labels for key, labels in labels_by_key.items() if any(labels)}

    def relabel(self, job: ResourceId, change: LabelChange) -> Labels:
        """Changes the labels of a job, and returns them."""
        service_job = self._jobs.find(job)
        try:
            check_tags((*change.add, *change.remove))
            labels = change.applied(labels_of(service_job.tags))
        except ValueError as error:
            raise UsageError(str(error), hint="Nothing was changed.") from None
        self._jobs.update(service_job, tags=tags_of(labels))
        if BASELINE in change.add:
            for other in self._baselines(service_job.id.parent):
                if other.run != service_job.run and other.creator == service_job.creator:
                    tags = {name: text for name, text in other.tags.items() if name != BASELINE}
                    self._jobs.update(other, tags=tags)
        return labels

    def baseline(self, experiment: ResourceId) -> str:
        """The name of the run that others of the experiment are compared with; empty without one."""
        return next((job.id.name for job in self._baselines(experiment)), "")

    def _baselines(self, experiment: ResourceId) -> Iterator[AzureJob]:
        for job in self._jobs.all(experiment.workspace_id):
            if job.id.parent.key == experiment.key and BASELINE in labels_of(job.tags).tags:
                yield job

    def _node_records(self, job: ResourceId, names: Collection[str]) -> Iterator[tuple[str, bytes]]:
        """The records that nodes have written, by name."""
        if not names:
            return
        watched = self._logs.watched(job)
        try:
            files = watched.details().log_files
        except NotFoundError:  # run history has no record of it yet
            return
        for file in sorted(files):
            name = file.removeprefix(_FOLDER)
            folders = tuple(folder for folder in names if folder.endswith("/"))
            is_requested = name in names or name.startswith(folders)
            if not file.startswith(_FOLDER) or not is_requested:
                continue
            if name.endswith(PART):
                yield name, b""
            elif blob := watched.blob(file, MAX_BYTES):
                yield name, blob.data


_FILE = re.compile(r"logs/batchai/telemetry/(?P<rank>\d+)\.jsonl")
_EXIT_FILE = "logs/batchai/exits/{rank}.json"  # once there is one, the rank's samples are complete
_PIECE_BYTES = 4 << 20
_MAX_RUNS = 64  # whose samples are kept


class RunTelemetry:
    """The facet `telemetry`; it caches the samples of runs, so that each byte is read once."""

    def __init__(self, logs: JobLogs) -> None:
        self._logs = logs
        self._runs = TtlCache[_RunSamples](lambda _: inf, max_size=_MAX_RUNS)

    def read(self, job: ResourceId, *, after: float = 0.0) -> TelemetryRecord:
        """The samples taken after `after` (seconds since 1970), in order of time.

        The files of a running job are read round-robin, one every few seconds, and samples are returned up to
        the time to which all files are read; those of an ended job are read to their ends.

        Raises:
            NotFoundError: The job does not exist.
        """
        watched = self._logs.watched(job)
        run = self._runs.get(watched.run, _RunSamples)
        with run.lock:
            run.advance(watched, self._logs.clock(), self._logs.intervals.telemetry)
            return run.record(after)


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
        """Reads the next bytes; a file that became shorter belongs to another attempt."""
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
        has_exited = watched.has_ended or _EXIT_FILE.format(rank=rank) in watched.details().log_files
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

    def advance(self, watched: WatchedLogs, now_s: float, period_s: float) -> None:
        """Reads the file that was read longest ago, if that is due; once the job has ended, all files."""
        if not (watched.has_ended or (now_s >= self._due_at and watched.allows_request)):
            return
        self._due_at = now_s + period_s
        try:
            names = [name for name in watched.details().log_files if _FILE.fullmatch(name)]
        except NotFoundError:  # run history knows nothing of it yet
            return
        for name in names:
            self._files.setdefault(name, _RankSamples())
        while open_files := [name for name, file in self._files.items() if not file.is_complete]:
            name = open_files[0]
            file = self._files.pop(name)
            self._files[name] = file  # last: the first one is the least recently read
            match = _FILE.fullmatch(name)
            file.read_on(watched, name, int(match["rank"]) if match else 0)
            if not watched.has_ended:
                return

    def record(self, after: float) -> TelemetryRecord:
        """The cached samples later than `after`, up to the time to which all ranks are read."""
        files = {int(name.rpartition("/")[2].partition(".")[0]): file for name, file in self._files.items()}
        until = min((file.known_until for file in files.values()), default=0.0)
        samples = (
            sample for file in files.values() for sample in file.samples if after < sample.time <= until
        )
        return TelemetryRecord(
            {rank: file.node for rank, file in sorted(files.items()) if file.node},
            tuple(sorted(samples, key=lambda sample: sample.time)),
            tuple(dict.fromkeys(note for file in files.values() for note in file.notes)),
        )
