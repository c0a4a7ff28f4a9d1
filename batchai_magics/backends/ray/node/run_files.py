"""The files through which the submitter of a run, its supervising actor and its nodes share its state."""

from __future__ import annotations

import json
import socket
import time
from pathlib import Path
from typing import NamedTuple

from batchai_magics.backends.folders import private_files
from batchai_magics.backends.folders.run_end import read_end
from batchai_magics.backends.node.job_layout import JobLayout, RunEntry
from batchai_magics.backends.node.outcome import failed_with, stop_outcome
from batchai_magics.backends.ray.node.actor_target import text_of
from batchai_magics.launch.outcome import Outcome, RunAttempt
from batchai_magics.untrusted_files import read_json

START_S = 60.0  # how long a supervising actor may take to start
RESTART_S = 60.0  # how long Ray waits for a control store that ended to be started again
CONNECT_S = 1.0


class Session(NamedTuple):
    """A Ray cluster from its start to its end: its name, and its address as seen by a host."""

    name: str
    address: str
    host: str

    def is_same(self, other: Session) -> bool:
        """Whether it is the other cluster, or was started at its address."""
        return self.name == other.name or self.address == other.address

    def has_ended(self) -> bool:
        """Whether nothing listens at its address; on loopback, only its host knows."""
        host, _, port = self.address.rpartition(":")
        if host.startswith("127.") and self.host != socket.gethostname():
            return False
        try:
            socket.create_connection((host, int(port)), CONNECT_S).close()
        except ConnectionRefusedError:
            return True
        except (OSError, ValueError):
            return False
        return False


class NodeRequest(NamedTuple):
    """The nodes that a run asks for: the guid of their cluster, how many, CPUs and GPUs of each (0: all)."""

    cluster: str
    node_count: int
    cpus: int = 0
    gpus: int = 0


class SupervisedFiles(JobLayout):
    """The files of a run on Ray."""

    claim = RunEntry("claim")  # exists once the run is about to start, or will never start
    supervised = RunEntry("supervised")  # exists once its supervising actor runs: the `Session` where it does
    stop = RunEntry("stop")  # why it was asked to stop
    kill = RunEntry("kill")  # exists once its processes are to be killed
    requeue = RunEntry("requeue")  # exists while it is to begin again
    ending = RunEntry("ending")  # exists once its processes were asked to end
    waiting = RunEntry("waiting")  # what Ray lacks to give it nodes
    unwatched = RunEntry("unwatched")  # why its stop conditions are no longer evaluated
    request = RunEntry("request.json")  # the `NodeRequest` of the run
    attempt_times = RunEntry("attempts.json")  # its attempts so far
    # Which nodes have files of its attempt that are not here yet; see `run_copies`.
    copies = RunEntry("copies.json")
    # Exists while nothing listens at the address of the cluster that it runs on.
    unanswered = RunEntry("unanswered")

    @property
    def name(self) -> str:
        """The name of its supervising actor."""
        return f"run-{self.root.name}"

    @property
    def attempts(self) -> list[RunAttempt]:
        """Its attempts so far."""
        if not self.attempt_times.exists():
            return []
        return [RunAttempt(tuple(nodes), *rest) for nodes, *rest in read_json(self.attempt_times)]

    def note_attempts(self, attempts: list[RunAttempt]) -> None:
        """Records its attempts."""
        private_files.write(self.attempt_times, json.dumps(attempts))

    def note_attempt_end(self, reason: str) -> None:
        """Records that the latest attempt has ended, and why the run begins again."""
        *earlier, latest = self.attempts
        self.note_attempts([*earlier, latest._replace(ended=time.time(), reason=reason)])

    def note_unwatched(self, text: str) -> None:
        """Records that the run is no longer watched."""
        private_files.write(self.unwatched, text)

    @property
    def outcome(self) -> Outcome | None:
        """The outcome of the run; None if it has not ended."""
        return read_end(self.end)

    def lost_end(self) -> Outcome:
        """The outcome of a run whose supervising actor is gone."""
        reason = text_of(self.stop)
        if reason:
            return stop_outcome(reason)
        text = "The actor that supervised the job on Ray disappeared: it was killed, or its node was lost"
        return failed_with("JobSupervisorLost", text)

    def is_elsewhere(self, current: Session) -> bool:
        """Whether the run is on another cluster, so that it is unknown here whether its actor is gone.

        A run that does not obey a request to stop is considered gone.
        """
        own_session = self.session
        return not (own_session is None or own_session.is_same(current) or _age_s(self.stop) > START_S)

    @property
    def session(self) -> Session | None:
        """The cluster that the run is on; None before its start."""
        words = text_of(self.supervised).split()
        return Session(*words) if words else None

    def has_ended_with_cluster(self) -> bool:
        """Whether the run's cluster has ended: for `RESTART_S`, nothing was listening at its address."""
        if not (self.session and self.session.has_ended()):
            self.unanswered.unlink(missing_ok=True)
            return False
        private_files.write_new(self.unanswered, "")
        return _age_s(self.unanswered) > RESTART_S

    def has_never_started(self) -> bool:
        """Whether the process that claimed the run died before it started a supervising actor."""
        return _age_s(self.claim) > START_S and not self.supervised.exists()


def _age_s(file: Path) -> float:
    """How long ago a file was written; 0 if it was not."""
    try:
        return time.time() - file.stat().st_mtime
    except FileNotFoundError:
        return 0.0
