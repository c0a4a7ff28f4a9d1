"""The jobs of an experiment, whose table also tells how far those are, or came, that did not succeed."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from batchai_magics.models.resources import JobResource
from batchai_magics.models.states import ExecutionState

if TYPE_CHECKING:
    from batchai_magics.backends.base import Backend
    from batchai_magics.commands.output.table import Table

AT_ONCE = 500  # so many become text together
MOST_READ, MOST_ENDED_READ = 20, 5  # of the newest jobs that run, and that failed: their logs are looked at


class JobList(list[JobResource]):
    """Jobs, oldest first. Their logs are looked at for a table alone."""

    def __init__(self, jobs: Iterable[JobResource], backend: Backend) -> None:
        super().__init__(jobs)
        self._backend = backend

    def to_data(self) -> Any:
        """The jobs as the service would have said them."""
        from batchai_magics.commands.output.as_json import as_json

        return as_json(list(self))

    def json_pieces(self) -> Iterator[str]:
        """The text of `to_data` as JSON, some hundreds of jobs at a time."""
        from batchai_magics.commands.output.job_text import JobTexts
        from batchai_magics.commands.output.render import shown_json

        texts, opening = JobTexts(), "["
        for start in range(0, len(self), AT_ONCE):
            yield opening + shown_json(",".join(map(texts.of, self[start : start + AT_ONCE])))
            opening = ","
        yield "\n]" if self else "[]"

    def to_table(self) -> Table:
        """The columns of `az`, and one more where some job tells how far it is, or came."""
        from batchai_magics.commands.output.columns import columns_of, table_of
        from batchai_magics.commands.output.table import Table

        table = table_of(self, columns_of(self[0])) if self else Table((), ())
        told = self._progress()
        if not told:
            return table
        cells = [(*row, told.get(job.id.key, "")) for row, job in zip(table.rows, self, strict=True)]
        return Table((*table.titles, "Progress"), tuple(cells))

    def _telling(self) -> list[JobResource]:
        """The newest of the jobs whose logs tell how far they are, or came."""
        running = [job for job in self if job.is_running]
        failed = [job for job in self if job.state is ExecutionState.FAILED]
        return running[-MOST_READ:] + failed[-MOST_ENDED_READ:]

    def _progress(self) -> dict[str, str]:
        telling = self._telling()
        if not telling:
            return {}
        from batchai_magics.jobs.progress import progress_of, progress_words  # it loads what reads logs

        seen = [(job, progress_of(self._backend, job)) for job in telling]
        now = time.time()
        return {job.id.key: progress_words(job, progress, now) for job, progress in seen if progress}
