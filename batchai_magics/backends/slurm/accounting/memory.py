"""What accounting is asked: once for all jobs that are missed at a time, and never where there is none."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Collection, Iterator, Sequence

from batchai_magics.backends.service.runner import Run
from batchai_magics.backends.slurm.accounting import past
from batchai_magics.backends.slurm.accounting.past import Kept, PastJob
from batchai_magics.backends.slurm.node.run_files import Submission
from batchai_magics.backends.slurm.talk import Slurm
from batchai_magics.errors import BatchAIError

KEPT_S = 60.0  # how long an answer is good


class Beside(threading.local):
    """The runs that this thread looks at together."""

    def __init__(self) -> None:
        self.runs: Collection[Run] = ()

    @contextlib.contextmanager
    def of(self, runs: Collection[Run]) -> Iterator[None]:
        """Within it, these are, unless they are looked at together with others already."""
        before = self.runs
        self.runs = before or runs
        try:
            yield
        finally:
            self.runs = before


class Memory:
    """The accounting of a Slurm, if it has any. Threads may ask at once."""

    def __init__(self, slurm: Slurm) -> None:
        self._slurm = slurm
        self._lock = threading.Lock()
        self._is_there: bool | None = None
        self._asked: dict[str, float] = {}  # when, by number
        self._known: Sequence[PastJob] = ()

    def of(self, run: Run, submission: Submission, beside: Callable[[], Collection[str]]) -> Kept | None:
        """How an attempt of a run ended; the numbers `beside` its own are asked for at the same time.

        None where nobody knows: there is no accounting, it does not answer, or it has not heard of that end.
        """
        number = submission.slurm_job
        with self._lock:
            if time.monotonic() - self._asked.get(number, -KEPT_S) >= KEPT_S and self._is_kept():
                self._ask({number, *beside()})
            known = self._known
        return past.kept(known, number, guid=run.guid, name=run.name, submitted=submission.time)

    def _ask(self, numbers: Collection[str]) -> None:
        try:
            found = past.answered(self._slurm.past(past.question(sorted(numbers)), past.TIMES))
        except BatchAIError:  # it has no program for it here, or its database is down
            found = []
        self._asked, self._known = dict.fromkeys(numbers, time.monotonic()), found

    def _is_kept(self) -> bool:
        """Whether there is any; asked once."""
        if self._is_there is None:
            try:
                self._is_there = past.is_kept(self._slurm.configuration())
            except BatchAIError:
                return False
        return self._is_there
