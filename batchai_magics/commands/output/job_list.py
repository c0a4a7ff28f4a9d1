"""The jobs of an experiment, whose table also tells how far those are that run."""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import Any

from batchai_magics.backends.base import Backend
from batchai_magics.commands.output.columns import columns_of, table_of
from batchai_magics.commands.output.table import Table
from batchai_magics.models.resources import JobResource, Resource

MOST_READ = 20  # of the newest jobs that run: the logs of these are looked at


class JobList(list[Resource]):
    """Jobs, oldest first. Their logs are looked at for a table alone."""

    def __init__(self, jobs: Iterable[Resource], backend: Backend) -> None:
        super().__init__(jobs)
        self._backend = backend

    def to_data(self) -> Any:
        """The jobs as the service would have said them."""
        from batchai_magics.commands.output.as_json import as_json

        return as_json(list(self))

    def to_table(self) -> Table:
        """The columns of `az`, and one more while some job tells how far it is."""
        table = table_of(self, columns_of(self[0])) if self else Table((), ())
        told = self._progress()
        if not told:
            return table
        cells = [(*row, told.get(job.id.key, "")) for row, job in zip(table.rows, self, strict=True)]
        return Table((*table.titles, "Progress"), tuple(cells))

    def _progress(self) -> dict[str, str]:
        running = [job for job in self if isinstance(job, JobResource) and job.is_running]
        if not running:
            return {}
        from batchai_magics.jobs.progress import progress_of  # it loads what reads logs

        seen = {job.id.key: progress_of(self._backend, job) for job in running[-MOST_READ:]}
        now = time.time()
        return {key: progress.sentence(now) for key, progress in seen.items() if progress}
