"""What the record of a run says: provenance, labels, artifacts."""

from __future__ import annotations

from batchai_magics.backends.base import RECORDS, Backend, Records
from batchai_magics.jobs import argument_checks
from batchai_magics.jobs.job_artifacts import artifacts_of
from batchai_magics.models.resource_ids import ResourceId
from batchai_magics.records.artifacts import Artifact
from batchai_magics.records.labels import LabelChange, Labels
from batchai_magics.records.notifications import Delivery
from batchai_magics.records.provenance import NAMES as PROVENANCE_FILES
from batchai_magics.records.provenance import Provenance
from batchai_magics.records.record_files import DELIVERIES


class JobRecord:
    """The part of a job's handle that reads and changes the run's record.

    Attributes:
        backend: The backend.
        id: The ARM id.
    """

    def __init__(self, backend: Backend, id: ResourceId) -> None:
        self.backend = backend
        self.id = id

    def provenance(self) -> Provenance:
        """What ran: code, arguments, variables, git state, packages, hardware; printed, a summary.

        Machines appear once they have been recorded beside the running job.

        Raises:
            CapabilityError: The backend keeps no records.
        """
        return Provenance.of_files(self.id.name, RECORDS.of(self.backend).read(self.id, PROVENANCE_FILES))

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
