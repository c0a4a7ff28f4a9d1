"""The records of runs: what was submitted, from the job's variables; machines, from its files; labels."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from batchai_magics.backends.azure.arm_protocol import check_inside
from batchai_magics.backends.azureml.job_logs import JobLogs
from batchai_magics.backends.azureml.job_names import labels_of, tags_of
from batchai_magics.backends.azureml.job_parsing import ServiceJob
from batchai_magics.backends.azureml.jobs import Jobs
from batchai_magics.errors import NotFoundError, UsageError
from batchai_magics.models.resource_ids import ResourceId
from batchai_magics.models.runs.labels import BASELINE, LabelChange, Labels, check_tags
from batchai_magics.records.record_files import LABELS, MAX_BYTES, PART

_FOLDER = "logs/batchai/records/"


class JobRecords:
    """The records of a workspace's runs."""

    def __init__(self, jobs: Jobs, logs: JobLogs) -> None:
        self._jobs, self._logs = jobs, logs

    def read(self, job: ResourceId, names: Collection[str]) -> Mapping[str, bytes]:
        """The record files with these names, and those in these folders (`machines/`), if they exist."""
        for name in names:
            check_inside(name)
        found = self._jobs.find(job)
        submitted = {**_submitted(found), LABELS: labels_of(found.tags).to_text()}
        records = {name: submitted[name].encode() for name in names if name in submitted}
        for name, data in self._written(job, [name for name in names if name not in records]):
            records[name] = data
        return records

    def labels(self, jobs: Collection[ResourceId]) -> Mapping[str, Labels]:
        """The tags, notes and parameters of those jobs that exist and have any: key → labels."""
        wanted = {job.key for job in jobs}
        workspaces = {job.workspace_id.key: job.workspace_id for job in jobs}
        listed = (job for workspace in workspaces.values() for job in self._jobs.all(workspace))
        found = {job.id.key: labels_of(job.tags) for job in listed if job.id.key in wanted}
        return {key: labels for key, labels in found.items() if any(labels)}

    def relabel(self, job: ResourceId, change: LabelChange) -> Labels:
        """Changes the labels of a job, and returns them."""
        found = self._jobs.find(job)
        try:
            check_tags((*change.add, *change.remove))
            labels = change.applied(labels_of(found.tags))
        except ValueError as error:
            raise UsageError(str(error), hint="Nothing was changed.") from None
        self._jobs.update(found, tags=tags_of(labels))
        if BASELINE in change.add:
            self._remove_baselines(found)
        return labels

    def baseline(self, experiment: ResourceId) -> str:
        """The name of the run that others of the experiment are compared with; empty without one."""
        return next((job.id.name for job in self._baselines(experiment)), "")

    def _remove_baselines(self, new: ServiceJob) -> None:
        """Takes the tag from all other runs of an experiment that the same user has created."""
        for job in self._baselines(new.id.parent):
            if job.run != new.run and job.creator == new.creator:
                tags = {name: text for name, text in job.tags.items() if name != BASELINE}
                self._jobs.update(job, tags=tags)

    def _baselines(self, experiment: ResourceId) -> Iterator[ServiceJob]:
        for job in self._jobs.all(experiment.workspace_id):
            if job.id.parent.key == experiment.key and BASELINE in labels_of(job.tags).tags:
                yield job

    def _written(self, job: ResourceId, names: Collection[str]) -> Iterator[tuple[str, bytes]]:
        """The records that nodes have written, by name."""
        if not names:
            return
        watched = self._logs.watched(job)
        try:
            files = watched.details().log_files
        except NotFoundError:  # run history knows nothing of it yet
            return
        for file in sorted(files):
            name = file.removeprefix(_FOLDER)
            is_asked = name in names or any(each.endswith("/") and name.startswith(each) for each in names)
            if not file.startswith(_FOLDER) or not is_asked:
                continue
            if name.endswith(PART):
                yield name, b""
            elif blob := watched.blob(file, MAX_BYTES):
                yield name, blob.data


def _submitted(job: ServiceJob) -> Mapping[str, str]:
    """The record files that came with a job of ours."""
    return job.bundle.get("records") or {}
