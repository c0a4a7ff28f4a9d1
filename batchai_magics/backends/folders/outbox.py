"""The outbox: notifications of runs, made from their records and not delivered yet, and their channels."""

from __future__ import annotations

import contextlib
import fcntl
import json
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import chain
from operator import attrgetter
from pathlib import Path
from typing import Any, NamedTuple

from batchai_magics.backends.folders import private_files
from batchai_magics.backends.folders.layout import Layout
from batchai_magics.backends.node import output_records
from batchai_magics.backends.node.job_layout import JobLayout
from batchai_magics.backends.node.notification_delivery import DeliveryError, UnavailableHereError, deliver
from batchai_magics.launch.outcome import Outcome
from batchai_magics.launch.plan import LogPaths, Plan, ProcessExit
from batchai_magics.log_lines import lines_at_end, visible_text
from batchai_magics.metrics.reading.line_splitter import strip_controls
from batchai_magics.models.runs.notifications import (
    Channel,
    ChannelKind,
    Delivery,
    DeliveryState,
    Notification,
    NotificationKind,
    to_text,
)
from batchai_magics.models.runs.watch_request import WatchRequest
from batchai_magics.models.states import CANCELLED, CONDITION_MET, STOPPED, TERMINATED
from batchai_magics.records import record_files
from batchai_magics.records.job_error import (
    FailedProcess,
    JobError,
    LastOutput,
    SourcePaths,
    error_of_process,
    raised_in,
    traceback_sign,
)
from batchai_magics.untrusted_files import open_file, read_json, read_text

RETRIES_S = (0.0, 1.0, 5.0, 25.0, 60.0)  # the pauses before the attempts of one sender
RETRY_LATER_S = 600.0  # after which another sender tries again
GIVE_UP_S = 3 * 86_400.0  # how long a notification is worth delivering
TAIL_BYTES = 1 << 18  # of a log, in which the last lines of a process are searched
MAX_LINES = 200


class PendingDelivery(NamedTuple):
    """A notification, and a channel that has not received it."""

    notification: Notification
    number: int
    channel: Channel

    @property
    def mark(self) -> str:
        """The file that marks it as delivered or given up."""
        return f"done-{self.notification.id}-{self.number}"


class Outbox:
    """The notifications of one run."""

    def __init__(self, home: Path, guid: str) -> None:
        layout = Layout(home)
        self._folder, self._job = layout.outboxes / guid, layout.job(guid)

    @classmethod
    def of_run(cls, job: JobLayout) -> Outbox:
        """The outbox of the run with this folder."""
        return cls(job.root.parents[1], job.root.name)

    @property
    def is_used(self) -> bool:
        """Whether the run has notifications that are not all delivered."""
        return self._channel_file.exists()

    def open(self, addresses: Sequence[str]) -> None:
        """Makes the outbox of a new run with these channels."""
        private_files.write(self._channel_file, json.dumps(list(addresses)))

    def put(self, notification: Notification) -> None:
        """Adds a notification, unless it is there; no effect for a run without channels.

        A notification that cannot be written does not fail the job.
        """
        with contextlib.suppress(OSError):
            if self.is_used:
                file = self._folder / f"queued-{notification.id}.json"
                private_files.write_new(file, to_text(notification), needs=self._channel_file)

    def pending(self) -> Iterator[PendingDelivery]:
        """What is yet to be delivered, in order."""
        try:
            addresses: list[str] = read_json(self._channel_file)
        except FileNotFoundError:
            return
        names = self._names()
        queued = (
            self._folder / name for name in names if name.startswith("queued-") and name.endswith(".json")
        )
        notifications = [Notification.from_json(read_json(file)) for file in queued]
        for notification in sorted(notifications, key=attrgetter("time")):
            for number, address in enumerate(addresses):
                delivery = PendingDelivery(notification, number, Channel.parse(address))
                if delivery.mark not in names:
                    yield delivery

    def note(
        self, delivery: PendingDelivery, state: DeliveryState, problem: str = "", *, by: str = ""
    ) -> None:
        """Adds what became of a delivery to the run's record, and marks it if it is not tried again."""
        if state is not DeliveryState.RETRYING:
            private_files.write_new(self._folder / delivery.mark, "")
        notification, channel = delivery.notification, delivery.channel.label
        entry = Delivery(notification.id, notification.kind, channel, state, time.time(), by, problem)
        if channel == ChannelKind.MLFLOW.value and state is DeliveryState.DELIVERED:
            return
        name = f"{delivery.notification.id}-{delivery.number}.json"
        with contextlib.suppress(OSError):
            private_files.write(self._job.records / record_files.DELIVERIES / name, entry.to_text())

    @contextlib.contextmanager
    def exclusive(self, delivery: PendingDelivery) -> Iterator[bool]:
        """Holds the lock of the channel on this machine; yields whether the delivery is still pending."""
        try:
            lock = (self._folder / f"lock-{delivery.number}").open("ab")
        except FileNotFoundError:  # all was delivered, and the outbox removed
            yield False
            return
        with lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield delivery.mark not in self._names()

    def release(self) -> None:
        """Ends the claim of a sender."""
        (self._folder / "sender").unlink(missing_ok=True)

    def remove(self) -> None:
        """Deletes the outbox of a run, and with it the addresses."""
        private_files.remove_folder(self._folder)

    def claim(self, sender: str, is_alive: Callable[[str], bool], *, lease_s: float = 0.0) -> bool:
        """Makes a process the sender; False if another sender is alive, or its lease has not expired.

        A lease is for senders of which other processes cannot tell whether they are alive.
        """
        file = self._folder / "sender"
        with contextlib.suppress(FileNotFoundError):
            current = read_json(file)
            if is_alive(current["sender"]) or time.time() < current["until"]:
                return False
            file.unlink()
        return private_files.write_new(
            file, json.dumps({"sender": sender, "until": time.time() + lease_s}), needs=self._channel_file
        )

    def hand_over(self, sender: str, *, until: float = 0.0) -> None:
        """Records the sending process, or the time until which no other one tries."""
        private_files.write(self._folder / "sender", json.dumps({"sender": sender, "until": until}))

    def _names(self) -> set[str]:
        try:
            return {path.name for path in self._folder.iterdir()}
        except FileNotFoundError:
            return set()

    @property
    def _channel_file(self) -> Path:
        return self._folder / "channels.json"


class Sender:
    """Delivers the notifications of a run, with retries."""

    def __init__(self, outbox: Outbox, by: str, over: threading.Event | None = None) -> None:
        self._outbox, self._by, self._over = outbox, by, over or threading.Event()

    def send(self, retries_s: Sequence[float] = RETRIES_S) -> bool:
        """Delivers what is pending, until it is `over`; True if nothing is left."""
        for delay_s in retries_s:
            if delay_s and self._over.wait(delay_s):
                return False
            problems = self._attempts()
            if all(isinstance(problem, UnavailableHereError) for problem in problems):
                return not problems
        return False

    def _attempts(self) -> list[DeliveryError]:
        """Attempts what is pending, the channels at the same time: a slow one delays no other."""
        of_channel: dict[int, list[PendingDelivery]] = defaultdict(list)
        for delivery in self._outbox.pending():
            of_channel[delivery.number].append(delivery)
        if not of_channel:
            return []
        with ThreadPoolExecutor(len(of_channel)) as threads:
            tried = threads.map(lambda deliveries: list(map(self._attempt, deliveries)), of_channel.values())
            return [problem for problem in chain.from_iterable(tried) if problem]

    def _attempt(self, delivery: PendingDelivery) -> DeliveryError | None:
        """Attempts a delivery; returns the problem unless it succeeded or will never."""
        with self._outbox.exclusive(delivery) as is_pending:
            if not is_pending:
                return None
            try:
                deliver(delivery.channel, delivery.notification)
            except DeliveryError as error:
                is_late = time.time() - delivery.notification.time > GIVE_UP_S
                is_failed = error.is_final or is_late
                state = DeliveryState.FAILED if is_failed else DeliveryState.RETRYING
                self._outbox.note(delivery, state, str(error), by=self._by)
                return None if is_failed else error
            self._outbox.note(delivery, DeliveryState.DELIVERED, by=self._by)
        return None


def watch_request(job: JobLayout) -> WatchRequest | None:
    """What the program that watches a run is to do; None without a request, or for one that is unreadable."""
    try:
        return WatchRequest.from_json(read_text(job.records / record_files.WATCH))
    except (OSError, ValueError):
        return None


def end_notifications(job: JobLayout, outcome: Outcome) -> list[Notification]:
    """The notifications of an ended run; those sent while it ran have the same ids, and count once."""
    last, errors = ended_notification(job, outcome), outcome.errors
    before, notifications = last.time - 1e-3, list[Notification]()
    failed = next((rank for rank in outcome.ranks if rank.exit_code), None)
    if last.state == "failed" and failed and len(outcome.ranks) > 1:
        notification = failure_notification(job, failed)
        notifications.append(notification._replace(time=min(failed.ended or before, before)))
    if last.state == "stopped":
        reason = "; ".join(str(error["message"]) for error in errors)
        notification = running_notification(job, NotificationKind.STOPPING, 1, reason)
        notifications.append(notification._replace(time=before))
    return [*notifications, last]


def failure_notification(job: JobLayout, rank: ProcessExit) -> Notification:
    """The notification that the first of several processes has failed."""
    notification = running_notification(job, NotificationKind.FAILURE, 1, "")
    return notification._replace(first_failure=_first_failure(job, [rank]))


def traceback_notification(job: JobLayout) -> Notification | None:
    """The notification that a run goes on although stderr has a traceback; None if it has none at its end."""
    request = watch_request(job) or WatchRequest(job.root.name, "")
    raised = raised_in(last_output(Plan.read(str(job.plan)).output.stderr).lines)
    reason = traceback_sign(raised, _paths_of(job, request)) if raised else ""
    return running_notification(job, NotificationKind.TRACEBACK, 1, reason) if reason else None


def ended_notification(job: JobLayout, outcome: Outcome) -> Notification:
    """The notification that a run has ended."""
    state, reason = "succeeded", ""
    if not outcome.is_success:
        codes = {error["code"] for error in outcome.errors}
        state = next((state for code, state in _STATES.items() if code in codes), "failed")
        reason = "; ".join(str(error["message"]).rstrip(".") for error in outcome.errors)
    id, kind = f"{job.root.name}-ended", NotificationKind.ENDED
    notification = Notification(id, kind, "", state, outcome.ended, reason, outcome.exit_code)
    # the processes of a run that was stopped have exit codes too, of the signal that ended them
    failed = outcome.ranks if state == "failed" else ()
    return _of_run(job, notification._replace(first_failure=_first_failure(job, failed)))


_STATES = {CONDITION_MET: STOPPED, TERMINATED: CANCELLED}


def _first_failure(job: JobLayout, ranks: Sequence[ProcessExit]) -> dict[str, Any]:
    """The first process that failed, with the exception and its place, and if asked for its last lines."""
    first = next((rank for rank in ranks if rank.exit_code), None)
    if first is None:
        return {}
    failure = {"rank": first.rank, "node": first.node, "exit_code": first.exit_code}
    request = watch_request(job)
    if request is None:
        return failure
    try:
        error = process_error(Plan.read(str(job.plan)), first, _paths_of(job, request))
    except (OSError, ValueError):  # its Plan is gone: the failure is reported all the same
        return failure
    lines = list(error.lines) if request.has_lines else []
    details: dict[str, Any] = {"place": error.place, "exception": error.exception, "lines": lines}
    return {**failure, **{name: value for name, value in details.items() if value}}


def _paths_of(job: JobLayout, request: WatchRequest) -> SourcePaths:
    return SourcePaths(request.source_folder, job.root.name, request.script)


def running_notification(job: JobLayout, kind: NotificationKind, number: int, reason: str) -> Notification:
    """The notification of an event of an open run; `number` counts notifications of its kind."""
    id = f"{job.root.name}-{kind.value}-{number}"
    return _of_run(job, Notification(id, kind, "", "running", time.time(), reason))


def _of_run(job: JobLayout, notification: Notification) -> Notification:
    request, headline = watch_request(job) or WatchRequest(job.root.name, ""), dict[str, Any]()
    with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
        stored = read_json(job.records / record_files.HEADLINE)
        headline = {"name": stored["name"], "value": float(stored["value"]), "step": stored["step"]}
    return notification._replace(
        job=request.name,
        experiment=request.experiment,
        run=job.root.name,
        headline=headline,
        link=request.link,
    )


def process_error(plan: Plan, process: ProcessExit, paths: SourcePaths) -> JobError:
    """Why a process failed, by its last output; secrets are asterisks."""
    failed = FailedProcess(process.rank, process.node, process.exit_code or 0)
    logs = (plan.output.stderr, plan.output.stdout)
    return error_of_process(failed, [last_output(log, process.rank) for log in logs], paths).bounded()


def last_output(log: LogPaths, rank: int | None = None) -> LastOutput:
    """The last lines of a log, or those of one rank; secrets are asterisks."""
    name = Path(log.path).name
    with contextlib.suppress(OSError):  # it is missing, or no regular file
        lines = lines_at_end(_tail_of(log, rank), MAX_LINES)
        texts = (line.decode("utf-8", errors="replace") for line in lines)
        return LastOutput(name, tuple(strip_controls(visible_text(text)) for text in texts))
    return LastOutput(name)


def _tail_of(log: LogPaths, rank: int | None) -> bytes:
    """What the rank, or any, wrote near the end of a log, without secrets."""
    with open_file(log.path) as file:
        end = file.seek(0, 2)
        start = file.seek(max(0, end - TAIL_BYTES))
        data = bytearray(file.read(end - start))
    end = start + len(data)
    for first, last in output_records.secrets(Path(log.hidden), start, end) if log.hidden else ():
        data[first - start : last - start] = b"*" * (last - first)
    if rank is None or not log.spans:
        return bytes(data)
    spans = output_records.writers(Path(log.spans), start, end)
    return b"".join(data[span.start - start : span.end - start] for span in spans if span.rank == rank)
