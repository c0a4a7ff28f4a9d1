"""What the record of a run says: provenance, labels, artifacts."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from batchai_magics.backends.base import RECORDS, Backend, Records
from batchai_magics.errors import BatchAIError, NotFoundError
from batchai_magics.jobs import argument_checks
from batchai_magics.jobs.job_files import OUTPUTS, entries_below, one_level
from batchai_magics.launch.toolkits import process_count, requested_processes
from batchai_magics.models import vm_sizes
from batchai_magics.models.job_execution import WORKDIR, Attempt
from batchai_magics.models.resource_ids import ResourceId
from batchai_magics.models.resources import Cluster, JobResource
from batchai_magics.models.runs.labels import LabelChange, Labels
from batchai_magics.models.runs.notifications import Delivery
from batchai_magics.records.artifacts import FOLDER, Artifact, artifacts_in
from batchai_magics.records.preflight import PreflightReport
from batchai_magics.records.provenance import NAMES as PROVENANCE_FILES
from batchai_magics.records.provenance import Provenance
from batchai_magics.records.record_files import DELIVERIES, PREFLIGHT


def artifacts_of(backend: Backend, job: ResourceId) -> list[Artifact]:
    """What a run saved, in that order, then the files in `outputs` of its working directories."""
    return [*artifacts_in(RECORDS.of(backend).read(job, [FOLDER])), *_outputs(backend, job)]


def _outputs(backend: Backend, job: ResourceId) -> Iterator[Artifact]:
    with contextlib.suppress(NotFoundError):  # a job that has not started
        for node in one_level(backend, job, WORKDIR):
            if not node.is_directory:
                continue
            with contextlib.suppress(NotFoundError):
                folder = f"{node.path}/{OUTPUTS}"
                for file in entries_below(backend, job, WORKDIR, folder):
                    if file.is_file:
                        name = file.path.removeprefix(f"{folder}/")
                        yield Artifact(
                            name, file.path, file.size_bytes, saved=file.modified, directory_id=WORKDIR
                        )


class JobRecord:
    """The part of a job's handle that reads and changes the run's record.

    Attributes:
        backend: The backend.
        id: The ARM id.
    """

    def __init__(self, backend: Backend, id: ResourceId) -> None:
        self.backend = backend
        self.id = id

    @property
    def name(self) -> str:
        """The job's name."""
        return self.id.name

    def show(self) -> JobResource:
        """The current job resource."""
        job = self.backend.show(self.id)
        assert isinstance(job, JobResource)
        return job

    def process_count(self) -> int:
        """How many processes it has, or will have; 0 if that depends on an unknown cluster or VM size."""
        job = self.show()
        if count := len(job.ranks) or requested_processes(job.spec):
            return count
        try:
            cluster = self.backend.show(ResourceId.parse(job.spec.cluster.id))
            gpus = vm_sizes.lookup(cluster.spec.vm_size).gpus if isinstance(cluster, Cluster) else 0
        except BatchAIError:
            gpus = 0
        return process_count(job.spec, gpus)

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
        records: Records = RECORDS.of(self.backend)
        return records.labels([self.id]).get(self.id.key, Labels())

    def _recorded_patterns(self) -> dict[str, str] | None:
        """The regular expressions of its metrics (`--metric`); None if that is unknown for now."""
        try:
            return dict(self.labels().patterns) if self.backend.records else {}
        except BatchAIError:  # which reading the log will raise, too
            return None

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
        argument_checks.check_text("job.note", "text", text)
        return self._relabel(LabelChange(note=text))

    def _relabel(self, change: LabelChange) -> Labels:
        records: Records = RECORDS.of(self.backend)
        return records.relabel(self.id, change)

    def artifacts(self) -> list[Artifact]:
        """What the run saved with `batchai_magics.save`, then the files in its folders `outputs`.

        Raises:
            CapabilityError: The backend keeps no records.
        """
        return artifacts_of(self.backend, self.id)
