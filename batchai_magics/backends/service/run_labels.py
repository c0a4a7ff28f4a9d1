"""The records of runs. Tags, notes and parameters are in those of resources: listing reads no further file.

The tag `baseline` belongs to at most one run of each owner in an experiment, whose record names them.
"""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING

from batchai_magics.backends.folders import private_files, rank_files, run_output
from batchai_magics.backends.service.repository import BASELINES, OWNER, Record
from batchai_magics.errors import NotFoundError, UsageError
from batchai_magics.models.resource_ids import Kind
from batchai_magics.models.runs.labels import BASELINE, LabelChange, Labels, check_tags
from batchai_magics.records.record_files import LABELS, PARAMETERS
from batchai_magics.untrusted_files import parse_json

if TYPE_CHECKING:
    from batchai_magics.backends.service.context import HomeContext
    from batchai_magics.models.resource_ids import ResourceId

STORED_LABELS = "labels"  # in `more` of a job


def initial(records: Mapping[str, str]) -> Labels:
    """The labels among the record files of a new job; UsageError if a tag is no word."""
    with contextlib.suppress(ValueError):  # no JSON: no labels
        labels = Labels.from_json(parse_json(records.get(LABELS, "{}")))
        return _checked(LabelChange(labels.tags), labels) if any(labels) else labels
    return Labels()


class RunRecords:
    """The record files in the folders of runs, and their labels."""

    def __init__(self, context: HomeContext) -> None:
        self._repository, self._layout = context.repository, context.layout

    def read(self, job: ResourceId, names: Collection[str]) -> Mapping[str, bytes]:
        """The record files with these names, and those in these folders."""
        record = self._repository.get(job)
        return run_output.read_records(self._layout.job(record.guid).records, names)

    def labels(self, jobs: Collection[ResourceId]) -> dict[str, Labels]:
        """The labels of those jobs that exist and have any, by key."""
        records = self._repository.find_all(jobs)
        one_of_each = {record.key.rpartition("/jobs/")[0]: record for record in records}
        parents = [record.resource_id.parent for record in one_of_each.values()]
        experiments = self._repository.find_all(parents)
        pinned = {guid for experiment in experiments for _, guid in _pinned(experiment).values()}
        files = {record.guid: self._layout.job(record.guid).records / PARAMETERS for record in records}
        with private_files.read_ahead(files=files.values()):
            logged = {guid: rank_files.logged_in(file) for guid, file in files.items()}
        labels_by_key: dict[str, Labels] = {}
        for record in records:
            labels = _stored(record).with_parameters(logged[record.guid])
            tags = tuple(tag for tag in labels.tags if tag != BASELINE)
            labels = labels._replace(tags=(BASELINE, *tags) if record.guid in pinned else tags)
            if any(labels):
                labels_by_key[record.key] = labels
        return labels_by_key

    def relabel(self, job: ResourceId, change: LabelChange) -> Labels:
        """Changes the labels of a job; concurrent changes are all made.

        Raises:
            UsageError: A tag is no word, or there are too many of them.
        """
        record = self._change_stored(job, change)
        if BASELINE in change.add:
            self.pin(job)
        elif BASELINE in change.remove:

            def without(experiment: Record) -> Record:
                others = {owner: run for owner, run in _pinned(experiment).items() if run[1] != record.guid}
                return experiment.changed({BASELINES: others})

            self._repository.change(record.resource_id.parent, without)
        return self.labels([job]).get(job.key, Labels())

    def baseline(self, experiment: ResourceId) -> str:
        """The name of the baseline that was tagged last in an experiment; empty without one."""
        pinned = _pinned(self._repository.get(experiment))
        for name, guid in reversed(list(pinned.values())):
            if self._find(experiment.child(Kind.JOB, name), guid):
                return name
        return ""

    def pin(self, job: ResourceId) -> None:
        """Makes a run its owner's baseline; the previous one loses the tag: files tell which run has it."""
        record = self._repository.get(job)
        guid, owner = record.guid, record.more.get(OWNER, "")
        previous: dict[str, str] = {}

        def pinned(experiment: Record) -> Record:
            others = dict(_pinned(experiment))
            previous.update([others.pop(owner, ("", ""))])
            return experiment.changed({BASELINES: {**others, owner: (job.name, guid)}})

        self._repository.change(job.parent, pinned)
        for name, old_guid in previous.items():
            old = job.parent.child(Kind.JOB, name or job.name)
            if old_guid != guid and self._find(old, old_guid):
                with contextlib.suppress(NotFoundError):
                    self._change_stored(old, LabelChange(remove=(BASELINE,)))

    def _find(self, job: ResourceId, guid: str) -> Record | None:
        """A job, unless it is another one of the same name that came later."""
        record = self._repository.find(job)
        return record if record and record.guid == guid else None

    def _change_stored(self, job: ResourceId, change: LabelChange) -> Record:
        def changed(record: Record) -> Record:
            labels = _checked(change, _stored(record))
            with contextlib.suppress(OSError):  # they come from there if all records are lost
                private_files.write(self._layout.job(record.guid).records / LABELS, labels.to_text())
            return record.changed({STORED_LABELS: labels.to_json()})

        return self._repository.change(job, changed)


def _pinned(experiment: Record) -> Mapping[str, tuple[str, str]]:
    """The name and guid of each owner's baseline."""
    pinned: Mapping[str, tuple[str, str]] = experiment.more.get(BASELINES) or {}
    return pinned


def _checked(change: LabelChange, labels: Labels) -> Labels:
    try:
        check_tags((*change.add, *change.remove))
        return change.applied(labels)
    except ValueError as error:
        raise UsageError(str(error), hint="Nothing was changed.") from None


def _stored(record: Record) -> Labels:
    return Labels.from_json(record.more.get(STORED_LABELS))
