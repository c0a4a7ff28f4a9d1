"""The handle of a job: state, logs, metrics, files and control for notebooks."""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
import webbrowser
from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from batchai_magics.backends.base import RECORDS, TELEMETRY, Backend, FileRef
from batchai_magics.errors import BatchAIError, NotFoundError, WaitInterrupted
from batchai_magics.follow import Event, endings, events
from batchai_magics.follow.job_errors import error_of
from batchai_magics.jobs import job_files
from batchai_magics.jobs.argument_checks import (
    COUNT,
    FLAG,
    NAME_OR_FILE,
    PATH,
    SECONDS,
    argument_error,
    check_argument,
)
from batchai_magics.jobs.job_costs import JobCosts
from batchai_magics.jobs.job_files import all_files, check_log_exists, one_level
from batchai_magics.jobs.job_logs import retry_if_changed, tail_of
from batchai_magics.jobs.job_model import log_metrics, progress_of
from batchai_magics.jobs.job_result import read_result
from batchai_magics.jobs.metric_settings import metric_preferences
from batchai_magics.launch.toolkits import process_count, requested_processes
from batchai_magics.metrics import LogMetrics, Record, Summary, figure_png, plot, summarize
from batchai_magics.metrics.reading.metric_suggestions import warn_of
from batchai_magics.metrics.reading.progress_reader import Progress
from batchai_magics.metrics.runs.resource_usage import frame as telemetry_frame
from batchai_magics.metrics.runs.resource_usage import mean_usage, reason_for
from batchai_magics.models import vm_sizes
from batchai_magics.models.job_execution import OUT, STDOUTERR, Attempt, OutputFile, RankExit
from batchai_magics.models.prices import Cost
from batchai_magics.models.resource_ids import ResourceId
from batchai_magics.models.resources import Cluster, JobResource
from batchai_magics.models.runs.labels import LabelChange, Labels
from batchai_magics.models.runs.notifications import Delivery
from batchai_magics.models.states import ExecutionState
from batchai_magics.records.artifacts import Artifact
from batchai_magics.records.job_error import JobError
from batchai_magics.records.preflight import PreflightReport
from batchai_magics.records.provenance import NAMES as PROVENANCE_FILES
from batchai_magics.records.provenance import Provenance
from batchai_magics.records.record_files import DELIVERIES, PREFLIGHT
from batchai_magics.user_ports import PAGES, ServedPage

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from pandas import DataFrame

    from batchai_magics.records.rank_profile import RunProfile
    from batchai_magics.records.rank_stacks import RankStacks

HTML_SUFFIXES = (".html", ".htm")


class Job:
    """A job on any backend: a backend and an id, so that a handle never goes stale.

    Every method asks the backend. It raises NotFoundError if the job was deleted and UnreachableError if the
    service does not respond. `await job` waits for the end without blocking the event loop.

    Attributes:
        backend: The backend.
        id: The ARM id.

    Raises:
        UsageError: `id` is not a ResourceId.
    """

    def __init__(
        self, backend: Backend, id: ResourceId, *, patterns: Mapping[str, str] | None = None
    ) -> None:
        if not isinstance(id, ResourceId):
            hint = "Find a job by its name: batchai_magics.find_job(name)."
            raise argument_error("Job", "id", id, "a ResourceId", hint=hint)
        self.backend = backend
        self.id = id
        self._patterns = None if patterns is None else dict(patterns)
        self._is_cancelled = False

    @property
    def patterns(self) -> Mapping[str, str]:
        """Metric name → regular expression (`--metric`); by default those that the job was submitted with."""
        if self._patterns is None:
            with contextlib.suppress(BatchAIError):  # which reading the log will raise, too
                self._patterns = dict(self.labels().patterns) if self.backend.records else {}
        return self._patterns or {}

    @patterns.setter
    def patterns(self, patterns: Mapping[str, str]) -> None:
        self._patterns = dict(patterns)

    @property
    def name(self) -> str:
        """The job's name."""
        return self.id.name

    def show(self) -> JobResource:
        """The current job resource."""
        job = self.backend.show(self.id)
        assert isinstance(job, JobResource)
        return job

    def show_with_cost(self) -> JobResource:
        """The current job resource with its cost, where the nodes have a price."""
        job = self.show()
        return job.with_cost(JobCosts(self.backend).of_job(job))

    @property
    def cost(self) -> Cost | None:
        """What the job has cost so far, with all its attempts; None if it has not started or has no price."""
        return self.show_with_cost().cost

    @property
    def state(self) -> ExecutionState:
        """The current state of the job."""
        return self.show().state

    @property
    def is_cancelled(self) -> bool:
        """Whether the job was cancelled; its `state` is then failed, as in the service."""
        return self.show().is_cancelled

    @property
    def is_done(self) -> bool:
        """Whether the job has ended, with success or not."""
        return self.state.is_final

    @property
    def exit_code(self) -> int | None:
        """The exit code of the job; None before it ends and for a terminated job."""
        execution = self.show().execution
        return execution.exit_code if execution else None

    @property
    def error(self) -> JobError | None:
        """Why the job failed: rank, place in the code, exception and last lines; None if it did not fail."""
        return error_of(self.backend, self.show())

    def ranks(self) -> tuple[RankExit, ...]:
        """The exit of each process, first failure first; empty before the job ends."""
        return self.show().ranks

    @property
    def result(self) -> Any:
        """The value of the global `result` of rank 0's script when the job succeeded.

        Numbers, strings, lists, dicts, tuples, sets, bytes, times, arrays and tables; reading it never runs
        code that the job wrote.

        Raises:
            NotFoundError: The job still runs, or has no result.
            JobFailedError: The job did not succeed.
            StorageError: The result cannot be read, or could not be saved.
        """
        return read_result(self.backend, self.show())

    def wait(self, timeout_s: float | None = None) -> Job:
        """Blocks until the job has ended; `state` then says how, and `error` why it failed.

        Args:
            timeout_s: Seconds to wait at most; by default forever. The job keeps running afterwards, as after
                Ctrl-C.

        Returns:
            This handle.

        Raises:
            TimeoutError: The job has not ended in time.
            KeyboardInterrupt: It was interrupted; the job runs on.
            UsageError: `timeout_s` is negative or no number.
        """
        check_argument("job.wait", "timeout_s", timeout_s, SECONDS)
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        try:
            for _ in endings(self.backend, [self.id], wait=time.sleep):
                if deadline is not None and time.monotonic() > deadline and not self.is_done:
                    raise TimeoutError(f"job {self.name} is still {self.state.value} after {timeout_s:g} s")
        except KeyboardInterrupt:
            raise WaitInterrupted(f"Stopped waiting for {self.name}, which keeps running.") from None
        self.show()  # raises NotFoundError for a deleted job
        return self

    def __await__(self) -> Generator[Any, None, Job]:
        return asyncio.to_thread(self.wait).__await__()

    def events(self, stop: threading.Event | None = None) -> Iterator[Event]:
        """Yields the events of the job until it has ended or `stop` is set; blocks between them.

        Raises:
            UsageError: `stop` is not a threading.Event.
        """
        if not (stop is None or hasattr(stop, "is_set")):
            raise argument_error("job.events", "stop", stop, "a threading.Event or None")
        return chain.from_iterable(events(self.backend, self.id, patterns=self.patterns, stop=stop))

    def log(self, tail: int | None = None, *, file: str = OUT) -> str:
        """The text of a log: all of it, or the last `tail` lines.

        Secrets are redacted, and invalid UTF-8 becomes replacement characters.

        Args:
            tail: The number of lines; None for all.
            file: Its path in the directory `stdouterr`: `stdout.txt`, `stderr.txt`, or one of a process.

        Raises:
            UsageError: An argument has the wrong type.
            NotFoundError: The job has no such file; the hint lists those that it has.
            FileChangedError: The file was replaced each time while it was read.
        """
        hint = f"For that file: job.log(file={tail!r})." if isinstance(tail, str) else ""
        check_argument("job.log", "tail", tail, COUNT, hint=hint)
        check_argument("job.log", "file", file)
        text = tail_of(self.backend, FileRef(self.id, file), tail)
        if not text:
            check_log_exists(self.backend, self.id, file)
        return text

    def records(self) -> list[Record]:
        """All records in the job's stdout and stderr so far, in the order of writing.

        Raises:
            FileChangedError: The file was replaced each time while it was read.
        """
        return list(self._log_metrics().records)

    def _log_metrics(self, *, is_over: bool = False) -> LogMetrics:
        return retry_if_changed(lambda: log_metrics(self.backend, self.id, self.patterns, is_over=is_over))

    def metrics(self, *, tidy: bool = False) -> DataFrame:
        """The numbers in the job's stdout and stderr so far.

        Args:
            tidy: One row per number instead of one per line.

        Returns:
            One row per line with numbers: step, rank and epoch, as far as any line has them, then the numbers
            by name.
            With `tidy`: step, rank, metric, value, unit, wall_time (UTC) and offset (bytes); that table has
            all numbers, including totals, evaluations and `--metric`'s.

        Warns:
            MetricsWarning: The log has numbers that were not read, or a `--metric` matched what is not a
                number.

        Raises:
            UsageError: `tidy` is not True or False.
        """
        check_argument("job.metrics", "tidy", tidy, FLAG)
        log = self._log_metrics(is_over=self.state.is_final)
        warn_of(log.notices)
        return log.frame(tidy=tidy)

    def summary(self) -> Summary:
        """A summary of the run so far: the last and best values of every metric, speed, stragglers, ….

        `summary.metrics` has the figures of all metrics, `summary.metric("val_loss")` of one.
        """
        job = self.show()
        summary = summarize(
            self._log_metrics().table,
            nodes={exit.rank: exit.node for exit in job.ranks},
            processes=processes_of(self.backend, job),
            is_running=not job.state.is_final,
            preferences=metric_preferences(),
        )
        if not summary.stragglers or self.backend.telemetry is None:
            return summary
        means = mean_usage(self.backend.telemetry.read(self.id))
        reasons = {rank: reason.text for rank in summary.stragglers if (reason := reason_for(means, rank))}
        return replace(summary, straggler_reasons=reasons)

    def export(self, kind: str, to: str | Path = "") -> str:
        """Exports the numbers in the job's stdout so far; exporting again replaces the earlier export.

        Args:
            kind: `tensorboard` (`to` is the folder that TensorBoard shows, by default `runs`), `mlflow` (`to`
                is the server's address, `http://…`), or a table: `csv`, `parquet`, `json` (`to` is the file,
                by default named after the job).
            to: The target.

        Returns:
            The target.

        Raises:
            UsageError: An argument is invalid.
            StorageError: The files cannot be written.
            UnreachableError: The MLflow server does not respond, or refuses the export.
        """
        from batchai_magics.jobs import job_export  # few users need it

        check_argument("job.export", "kind", kind)
        check_argument("job.export", "to", to, PATH)
        job_export.check_kind(kind)
        if kind in (job_export.TENSORBOARD, job_export.MLFLOW):
            labels = self.labels() if self.backend.records else Labels()
            job, records = self.show(), self.records()
            return job_export.export_points(job, labels, records, kind=kind, to=to or "runs")
        return job_export.export_table(self.name, self.metrics(tidy=True), kind, to or f"{self.name}.{kind}")

    def telemetry(self) -> DataFrame:
        """Resource usage of its processes, sampled about once a second, less often in long runs.

        Columns of ranks: `cpu_percent` (100 is one core), `memory_bytes`, `read_bytes_per_s` and
        `written_bytes_per_s` (files, pipes and sockets), `core_wait_percent` (of the time in which it was
        runnable without a core), `major_faults_per_s`, `processes`, `gpu_memory_bytes`. Of GPUs:
        `gpu_percent`, `gpu_memory_bytes`. Of machines: `load`, `available_bytes`, `received_bytes_per_s`
        and `sent_bytes_per_s` (network without loopback).

        Returns:
            One row per sample of a rank, GPU or machine: `time` (UTC), `node`, `rank`, `gpu` and these
            columns; other metrics' are NaN.

        Raises:
            CapabilityError: The backend samples nothing.
        """
        return telemetry_frame(TELEMETRY.of(self.backend).read(self.id))

    def plot(
        self,
        *,
        metrics: str | Sequence[str] = (),
        x: str = "",
        smooth: float = 0.0,
        ax: Axes | None = None,
    ) -> Axes:
        """Plots metrics: by default the headline, the speed and what tells most of the rest, four charts.

        Training and validation of one quantity are in one chart.

        Args:
            metrics: The metrics to draw, a name or several: `job.plot(metrics="val_loss")`.
            x: `step`, `epoch` or `time` (seconds since the first number).
            smooth: The weight of earlier values in an exponential moving average, from 0 (none) to less than
                1.
            ax: Axes to draw on; None for a new figure.

        Raises:
            UsageError: The job has no such metric, or an argument is invalid.
        """
        if not (ax is None or hasattr(ax, "plot")):
            raise argument_error("job.plot", "ax", ax, "matplotlib Axes or None")
        return plot(
            self._log_metrics().table,
            metrics=metrics,
            x=x,
            smooth=smooth,
            ax=ax,
            preferences=metric_preferences(patterns=self.patterns),
        )

    def png(self) -> bytes:
        """The plot as a PNG image."""
        return figure_png(self.plot())

    def progress(self) -> Progress | None:
        """The progress in its logs (a progress bar, `step i of n`, `epoch i/n`); None without any."""
        return progress_of(self.backend, self.show())

    def files(self, directory_id: str = "", path: str = "") -> Sequence[OutputFile]:
        """All files that the job wrote, or one level of a directory.

        Args:
            directory_id: `stdouterr` (the logs), `workdir` (the working directories of its processes, one per
                node) or the id of an output directory; empty with a `path` for `stdouterr`.
            path: A folder below that directory; empty with an empty `directory_id` for all files.

        Raises:
            NotFoundError: There is no such directory or folder.
            StorageError: The path leaves the directory.
            UsageError: An argument is not a string.
        """
        check_argument("job.files", "directory_id", directory_id)
        check_argument("job.files", "path", path)
        if not (directory_id or path):
            return all_files(self.backend, self.show())
        return one_level(self.backend, self.id, directory_id or STDOUTERR, path)

    def download(
        self,
        path: str | OutputFile | Artifact = "",
        to: str | Path = ".",
        *,
        directory_id: str = "",
        partial: bool = False,
    ) -> Path:
        """Downloads a file, the files of a folder, or all files; each copy is complete or does not exist.

            job.download()                                 # all, to ./NAME
            job.download(directory_id="artifacts")         # what it saved, to ./artifacts
            job.download("logs/run", to="copies")

        Args:
            path: The path of a file or folder in its directory, empty for the whole directory, or all;
                or an item of `files()` or `artifacts()`, which goes into a subfolder of its directory's name.
            to: The local folder.
            directory_id: The id of the directory, by default `stdouterr` for a path.
            partial: Whether to accept finished logs that are incomplete.

        Returns:
            The path of the local copy.

        Raises:
            NotFoundError: The job has no such file.
            StorageError: The path leaves `to`, a copy cannot be written, or a log is incomplete.
            UsageError: An argument has the wrong type.
        """
        check_argument("job.download", "to", to, PATH)
        check_argument("job.download", "directory_id", directory_id)
        check_argument("job.download", "partial", partial, FLAG)
        if isinstance(path, OutputFile | Artifact):
            directory_id, path = path.directory_id or directory_id, path.path
            to = Path(to, directory_id)
        check_argument("job.download", "path", path, NAME_OR_FILE)
        if not path and not directory_id:
            return job_files.download_all(self.backend, self.show(), Path(to), partial=partial)
        file = FileRef(self.id, path, directory_id or STDOUTERR)
        return job_files.download(self.backend, file, Path(to), partial=partial)

    def stacks(self) -> RankStacks:
        """The Python stack of every rank, and which rank is somewhere else than the others.

        The job goes on undisturbed. The stacks are kept in the run's record, too.

        Raises:
            ConflictError: The job does not run.
            CapabilityError: The backend runs no commands on nodes, or a node has no Python.
        """
        from batchai_magics.follow.stack_collector import stacks_of  # few users need it

        return stacks_of(self.backend, self.show())

    def profile(self, seconds: float = 10.0) -> RunProfile:
        """Where the time of every rank goes, and which rank differs; blocks for `seconds`.

        The job goes on undisturbed: the stacks of its ranks are sampled, by py-spy where the nodes have it.
        The samples are kept among the run's artifacts, as a flame graph and for speedscope.

        Args:
            seconds: How long to sample, from 1 to 600.

        Raises:
            UsageError: That is too short or too long.
            ConflictError: The job does not run.
            CapabilityError: The backend runs no commands on nodes, or no node could be sampled.
        """
        from batchai_magics.follow.stack_collector import profile_of  # few users need it

        check_argument("job.profile", "seconds", seconds, SECONDS)
        return profile_of(self.backend, self.show(), seconds)

    def open(self, *, browser: bool = True) -> ServedPage:
        """Opens the live view as a page of its own, served by this process on 127.0.0.1.

        Args:
            browser: Whether to open it in the default browser.

        Returns:
            The page: `url` is its address, `close()` ends it.

        Raises:
            NotFoundError: The job was deleted.
        """
        check_argument("job.open", "browser", browser, FLAG)
        page = PAGES.get().open_job(self)
        if browser:
            webbrowser.open(page.url)
        return page

    def record(self, to: str | Path = "") -> Path:
        """Records what the view shows, until the job has ended or an interrupt: states, log, metrics, usage.

        What looks like a secret is replaced by asterisks. A recording replays without the job, in
        `batchai open FILE` or, if `to` ends in `.html`, in any browser.

        Args:
            to: The file, by default `NAME.batchai`.

        Returns:
            The file, which is complete or does not exist.

        Raises:
            StorageError: The file cannot be written.
        """
        check_argument("job.record", "to", to, PATH)
        return record_job(self, Path(to or f"{self.id.name}.batchai"))

    def process_count(self) -> int:
        """How many processes it has, or will have; 0 if that depends on an unknown cluster or VM size."""
        return processes_of(self.backend, self.show())

    def attempts(self) -> tuple[Attempt, ...]:
        """Each attempt of the run, with its nodes, times and why it ended; empty before it starts."""
        job = self.show()
        if job.attempts or not job.execution:
            return job.attempts
        nodes = {rank.node for rank in job.ranks} or {node.id for node in self.backend.nodes(self.id)}
        return (Attempt(1, tuple(sorted(nodes)), job.execution.started, job.execution.ended),)

    def provenance(self) -> Provenance:
        """What ran: code, arguments, variables, git state, packages, hardware; printed, a summary.

        Machines appear once they have been recorded beside the running job.

        Raises:
            CapabilityError: The backend keeps no records.
        """
        return Provenance.of_files(self.id.name, RECORDS.of(self.backend).read(self.id, PROVENANCE_FILES))

    def preflight(self) -> PreflightReport | None:
        """What was measured on its nodes before its first rank; None if it was not, or not yet.

        Raises:
            CapabilityError: The backend keeps no records.
        """
        files = RECORDS.of(self.backend).read(self.id, (PREFLIGHT,))
        return PreflightReport.from_text(files[PREFLIGHT]) if PREFLIGHT in files else None

    def notifications(self) -> tuple[Delivery, ...]:
        """What became of each notification on each channel: delivered, retrying or failed, and why.

        Raises:
            CapabilityError: The backend keeps no records.
        """
        files = RECORDS.of(self.backend).read(self.id, (DELIVERIES,))
        return Provenance.of_files(self.id.name, files).deliveries

    def labels(self) -> Labels:
        """Its tags, note and parameters; at most one run of an experiment has the tag `baseline`."""
        return RECORDS.of(self.backend).labels([self.id]).get(self.id.key, Labels())

    def tag(self, *tags: str) -> Labels:
        """Adds tags, by which `job list --tag` finds the run, and returns the labels.

        The tag `baseline` makes it the run that others of its experiment are compared with.

        Raises:
            UsageError: A tag is not a word, or there are too many of them.
        """
        return self._relabel(LabelChange(add=tags))

    def untag(self, *tags: str) -> Labels:
        """Takes tags away, and returns the labels."""
        return self._relabel(LabelChange(remove=tags))

    def note(self, text: str) -> Labels:
        """Replaces its note by a text, and returns the labels.

        Raises:
            UsageError: `text` is not a string, or too long.
        """
        check_argument("job.note", "text", text)
        return self._relabel(LabelChange(note=text))

    def _relabel(self, change: LabelChange) -> Labels:
        return RECORDS.of(self.backend).relabel(self.id, change)

    def artifacts(self) -> list[Artifact]:
        """What the run saved with `batchai_magics.save`, then the files in its folders `outputs`.

        Raises:
            CapabilityError: The backend keeps no records.
        """
        return job_files.artifacts_of(self.backend, self.id)

    def cancel(self) -> None:
        """Requests the end of the job, without waiting for it; no effect on a job that has ended.

        Its processes may take their grace (`--grace`) to save. A second call kills them at once.
        """
        self.backend.terminate(self.id, now=self._is_cancelled)
        self._is_cancelled = True

    def delete(self) -> None:
        """Deletes the job, terminating it first; files on shares remain."""
        self.backend.delete(self.id)

    def __repr__(self) -> str:
        try:
            job = self.show()
            error = error_of(self.backend, job)
            return f"<Job {error.sentence if error else f'{self.name}: {job.word}'}>"
        except NotFoundError:
            return f"<Job {self.name}: deleted>"


def processes_of(backend: Backend, job: JobResource) -> int:
    """How many processes a job has, or will have; 0 if that depends on an unknown cluster or VM size."""
    if count := len(job.ranks) or requested_processes(job.spec):
        return count
    gpus = job.spec.batchai_gpus or 0
    with contextlib.suppress(BatchAIError):
        if not gpus and isinstance(cluster := backend.show(ResourceId.parse(job.spec.cluster.id)), Cluster):
            gpus = vm_sizes.lookup(cluster.spec.vm_size).gpus
    return process_count(job.spec, gpus)


def record_job(job: Job, target: Path, *, is_report: bool = False) -> Path:
    """Records a job to a file; a report has versions and settings in its header."""
    views = PAGES.get()
    extra = views.settings_report() if is_report else {}
    if target.suffix not in HTML_SUFFIXES:
        return views.record(job, target, extra=extra)
    with TemporaryDirectory() as folder:
        return views.export_html(views.record(job, Path(folder) / "recording", extra=extra), target)
