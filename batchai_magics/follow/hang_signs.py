"""Signs that a running job hangs: it is silent and idle, or has printed a traceback. Stacks of its ranks."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from functools import partial

from batchai_magics.backends.base import Backend, Chunk, FileRef
from batchai_magics.errors import BatchAIError
from batchai_magics.follow.job_errors import last_output, paths_of, redacted_logs
from batchai_magics.follow.job_events import Standstill
from batchai_magics.follow.stack_collector import stacks_of
from batchai_magics.metrics.runs import resource_usage
from batchai_magics.models.job_execution import ERR, OUT
from batchai_magics.models.resources import JobResource
from batchai_magics.models.states import ExecutionState
from batchai_magics.records.job_error import elapsed_text, raised_in, traceback_sign
from batchai_magics.records.rank_stacks import SAMPLE_PAUSE_S, RankStacks, standstill_finding

MAX_NODES = 32  # in larger jobs, ranks are asked for their stacks only on request


def hang_signs(
    backend: Backend, job: JobResource, limit_s: float, *, now: float | None = None
) -> tuple[str, ...]:
    """Signs that a running job hangs, in sentences; empty for any other job.

    `limit_s` is how long it may print nothing (0: forever).
    """
    if not job.is_running or job.execution is None:
        return ()
    now = time.time() if now is None else now
    silent_s = now - _last_write(backend, job)
    signs = []
    if limit_s and silent_s >= limit_s and is_idle(backend, job, silent_s=silent_s, now=now):
        name = job.id.name
        ask = (
            f"`batchai stacks {name}` shows where each rank is, `batchai profile {name}` where its time goes"
        )
        signs.append(f"Nothing was printed for {elapsed_text(silent_s)}, and the processors are idle: {ask}.")
    if raised := raised_in(last_output(redacted_logs(backend, job.id), ERR).lines):
        signs.append(traceback_sign(raised, paths_of(job)))
    return tuple(signs)


def is_idle(backend: Backend, job: JobResource, *, silent_s: float, now: float) -> bool:
    """Whether the processors of a job that prints nothing are idle; False if that is not known."""
    telemetry = backend.telemetry
    if telemetry is None:
        return False
    try:
        return resource_usage.is_idle(
            lambda after: telemetry.read(job.id, after=after), silent_s=silent_s, now=now
        )
    except BatchAIError:  # it has ended and is deleted
        return False


def _last_write(backend: Backend, job: JobResource) -> float:
    """The time of the job's last output, or of its start."""
    assert job.execution is not None
    times = [job.execution.started.timestamp()]
    for name in (OUT, ERR):
        file = FileRef(job.id, name)
        size = backend.read(file, 0, 0).size
        chunk = backend.read(file, max(0, size - 1), 1)
        times += [written.time for written in chunk.times]
        if chunk.data and not chunk.times:  # the time is unknown: assume now, so that nothing is reported
            return time.time()
    return max(times)


class StandstillPoller:
    """Detects that a running job has printed nothing for a while, and collects the stacks of its ranks.

    A standstill is reported once, until the job prints again; a job that works is not reported. Stacks are
    collected in a thread, which takes seconds. `limit_s` is how long a job may print nothing (0: forever);
    `clock` returns seconds since 1970.
    """

    pause_s = SAMPLE_PAUSE_S

    def __init__(
        self,
        backend: Backend,
        limit_s: float,
        *,
        clock: Callable[[], float] = time.time,
        ask: Callable[[Backend, JobResource], RankStacks] = stacks_of,
    ) -> None:
        self._backend, self._limit_s, self._clock, self._ask = backend, limit_s, clock, ask
        self._printed_at, self._is_reported, self._checked_at = clock(), False, 0.0
        self._standstills: deque[Standstill] = deque()  # by the threads that ask the ranks

    def printed(self, chunk: Chunk) -> None:
        """Records the time of new output."""
        self._printed_at = chunk.times[-1].time if chunk.times else self._clock()
        self._is_reported = False

    def poll(self, job: JobResource) -> list[Standstill]:
        """The report of a standstill, once the stacks have been collected."""
        if not self._limit_s or job.state is not ExecutionState.RUNNING or job.execution is None:
            return []
        since = max(self._printed_at, job.execution.started.timestamp())
        if not self._is_reported and self._clock() - max(since, self._checked_at) >= self._limit_s:
            self._is_reported = True
            threading.Thread(target=self._collect, args=(job, since), daemon=True).start()
        reported = [self._standstills.popleft() for _ in range(len(self._standstills))]
        return [standstill for standstill in reported if standstill.since == since]

    def _collect(self, job: JobResource, since: float) -> None:
        now = self._clock()
        idle = is_idle(self._backend, job, silent_s=now - since, now=now)
        finding = standstill_finding(partial(self._sample, job), is_idle=idle, pause_s=self.pause_s)
        if finding is None:
            self._checked_at, self._is_reported = self._clock(), False
        else:
            self._standstills.append(Standstill(job.id, since, self._limit_s, finding))

    def _sample(self, job: JobResource) -> RankStacks:
        try:
            if job.spec.node_count <= MAX_NODES:
                return self._ask(self._backend, job)
        except BatchAIError:  # it has ended, or the backend runs no commands on nodes
            pass
        return RankStacks(job.id.name, ())
