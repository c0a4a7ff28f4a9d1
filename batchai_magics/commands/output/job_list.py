"""The jobs of an experiment; the table includes the progress of running and failed ones."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from batchai_magics.models.resources import JobResource
from batchai_magics.models.states import ExecutionState

if TYPE_CHECKING:
    from batchai_magics.backends.base import Backend
    from batchai_magics.commands.output.text_table import Table

JOBS_PER_CHUNK = 500  # jobs rendered per chunk
MAX_RUNNING_READ, MAX_FAILED_READ = (
    20,
    5,
)  # of the newest running and failed jobs, whose logs are read for progress


MAX_PARAMETERS = 6  # columns of parameters
MAX_NOTE = 40  # characters of a note


class JobList(list[JobResource]):
    """Jobs, oldest first. Logs are read only for the table."""

    def __init__(self, jobs: Iterable[JobResource], backend: Backend) -> None:
        super().__init__(jobs)
        self._backend = backend

    def to_data(self) -> Any:
        """The jobs in the JSON of `az`."""
        from batchai_magics.commands.output.resource_json import as_json

        return as_json(list(self))

    def json_pieces(self) -> Iterator[str]:
        """Yields the JSON text of `to_data` in chunks of some hundred jobs."""
        from batchai_magics.commands.output.job_list_json import JobListJson
        from batchai_magics.commands.output.result_formats import escaped_json

        texts, opening = JobListJson(), "["
        for start in range(0, len(self), JOBS_PER_CHUNK):
            yield opening + escaped_json(",".join(map(texts.item_of, self[start : start + JOBS_PER_CHUNK])))
            opening = ","
        yield "\n]" if self else "[]"

    def to_table(self) -> Table:
        """The columns of `az`, those of tags and parameters, and progress if any job reports it."""
        from batchai_magics.commands.output.table_columns import columns_of, table_of
        from batchai_magics.commands.output.text_table import Table

        table = table_of(self, columns_of(self[0])) if self else Table((), ())
        for title, texts in (*self._labels(), ("Progress", self._progress())):
            if texts:
                cells = [(*row, texts.get(job.id.key, "")) for row, job in zip(table.rows, self, strict=True)]
                table = Table((*table.titles, title), tuple(cells))
        return table

    def _labels(self) -> Iterator[tuple[str, Mapping[str, Any]]]:
        """The columns of labels: a title, and key of a job → cell."""
        records = self._backend.records
        labels = records.labels([job.id for job in self]) if records and self else {}
        if not labels:
            return
        from batchai_magics.jobs.run_selection import varying_parameters

        for name in varying_parameters(labels, MAX_PARAMETERS):
            yield name, {key: each.parameters.get(name, "") for key, each in labels.items()}
        yield "Tags", {key: ", ".join(each.tags) for key, each in labels.items() if each.tags}
        yield "Note", {key: _first_line(each.note) for key, each in labels.items() if each.note}

    def _with_progress(self) -> list[JobResource]:
        """The newest running and failed jobs, whose logs are read for progress."""
        running = [job for job in self if job.is_running]
        failed = [job for job in self if job.state is ExecutionState.FAILED]
        return running[-MAX_RUNNING_READ:] + failed[-MAX_FAILED_READ:]

    def _progress(self) -> dict[str, str]:
        telling = self._with_progress()
        if not telling:
            return {}
        from batchai_magics.jobs.job_logs import progress_of, progress_text  # imports the log readers

        seen = [(job, progress_of(self._backend, job)) for job in telling]
        now = time.time()
        return {job.id.key: progress_text(job, progress, now) for job, progress in seen if progress}


def _first_line(note: str) -> str:
    line = (note.strip().splitlines() or [""])[0]
    return line if len(line) <= MAX_NOTE else f"{line[: MAX_NOTE - 1]}…"
