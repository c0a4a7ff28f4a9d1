"""Notifications about a run: what they say, and the channels that they are sent to.

Standard library only: the program that watches a run sends them.
"""

from __future__ import annotations

import enum
import json
import re
from collections.abc import Iterable, Mapping
from datetime import datetime, timezone
from typing import Any, NamedTuple

from batchai_magics.untrusted_files import parse_json

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://")
MLFLOW_SCHEME = "batchai+mlflow:"  # before the address of the server of a live export
MAX_CHARS = 2000  # of an address or a command
_TITLES = {
    "failure": "{job}: a process has failed",
    "stopping": "{job} is being stopped",
    "stalled": "{job} is not making progress",
    "traceback": "{job} has printed a traceback",
    "test": "batchai: a test notification",
}


class NotificationKind(enum.Enum):
    """What a notification is about."""

    ENDED = "ended"  # the run has ended: its state says how
    FAILURE = "failure"  # the first process has failed, of several
    STOPPING = "stopping"  # a condition of `--stop-if` is met
    STALLED = "stalled"  # a running job has printed nothing for a while
    TRACEBACK = "traceback"  # a running job has printed a traceback and goes on
    TEST = "test"  # somebody tests the channels


class Notification(NamedTuple):
    """A notification; its `id` is the same each time that it is delivered.

    `state` is succeeded, failed, cancelled, stopped (by `--stop-if`) or running. `headline` is the
    run's headline metric with `name`, `value` and `step`; `first_failure` the first process that failed with
    `rank`, `node` and `exit_code`, where known `place` and `exception`, and its last `lines` if requested.
    Without a metric or a failed process, they are empty.
    """

    id: str
    kind: NotificationKind
    job: str
    state: str
    time: float
    reason: str = ""
    exit_code: int | None = None
    headline: Mapping[str, Any] = {}
    first_failure: Mapping[str, Any] = {}
    link: str = ""
    experiment: str = ""
    run: str = ""  # the guid of the run

    @property
    def title(self) -> str:
        """The title: `resnet has failed`."""
        template = _TITLES.get(self.kind.value)
        return (
            template.format(job=self.job) if template else f"{self.job} {_ENDS.get(self.state, self.state)}"
        )

    @property
    def body(self) -> str:
        """The details, a line for each; never empty."""
        failure, headline = self.first_failure, self.headline
        lines = [self.reason and f"{self.reason[:1].upper()}{self.reason[1:]}."]
        if failure:
            where = f"rank {failure['rank']} on {failure['node']}"
            why = ": ".join(filter(None, (failure.get("place"), failure.get("exception"))))
            lines.append(
                f"First failure: {where}, exit code {failure['exit_code']}" + (f": {why}" if why else ".")
            )
            lines += failure.get("lines", ())
        if headline:
            step = "" if headline.get("step") is None else f" at step {headline['step']}"
            lines.append(f"{headline['name']}: {headline['value']:.6g}{step}")
        lines.append(self.link)
        return "\n".join(line.replace("..", ".") for line in lines if line) or f"{self.title}."

    def to_json(self) -> dict[str, Any]:
        """What a webhook receives; NaN is null."""
        fields = {**self._asdict(), "kind": self.kind.value, "title": self.title, "body": self.body}
        value = self.headline.get("value")
        if value is not None and not abs(value) < float("inf"):
            fields["headline"] = {**self.headline, "value": str(value)}
        return fields

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Notification:
        """Reads what `to_json` writes."""
        known = {name: data[name] for name in cls._fields if name in data}
        headline = dict(known.get("headline", {}))
        if "value" in headline:
            headline["value"] = float(headline["value"])
        return cls(**{**known, "kind": NotificationKind(data["kind"]), "headline": headline})


_ENDS = {
    "succeeded": "has succeeded",
    "failed": "has failed",
    "cancelled": "was cancelled",
    "stopped": "was stopped",
}


class DeliveryState(enum.Enum):
    """What became of a notification on one channel."""

    DELIVERED = "delivered"
    RETRYING = "retrying"  # it is tried again
    FAILED = "failed"  # given up


class Delivery(NamedTuple):
    """A notification on one channel, without the channel's address; `by` is the machine that tried last."""

    id: str
    kind: NotificationKind
    channel: str
    state: DeliveryState
    time: float
    by: str = ""
    problem: str = ""

    def to_text(self) -> str:
        """The text of its file."""
        return json.dumps({**self._asdict(), "kind": self.kind.value, "state": self.state.value})

    @classmethod
    def from_text(cls, text: bytes) -> Delivery:
        """Reads the text of its file; raises ValueError if it is malformed."""
        try:
            data = parse_json(text)
            state = data.get("state") or ("failed" if data.get("problem") else "delivered")
            known = {name: data[name] for name in cls._fields if name in data}
            kind = NotificationKind(data["kind"])
            return cls(**{**known, "kind": kind, "state": DeliveryState(state)})
        except (TypeError, KeyError, AttributeError) as error:
            raise ValueError(f"no delivery: {error}") from None

    def __str__(self) -> str:
        when = datetime.fromtimestamp(self.time, timezone.utc).astimezone()
        sender = f" from {self.by}" if self.by else ""
        reason = f": {self.problem}" if self.problem else ""
        outcome = f"{self.kind.value} by {self.channel}: {self.state.value}"
        return f"{outcome} {when:%Y-%m-%d %H:%M:%S}{sender}{reason}"


class ChannelKind(enum.Enum):
    """How a notification is sent."""

    WEBHOOK = "webhook"
    APPRISE = "apprise"
    COMMAND = "command"
    MLFLOW = "mlflow"  # a live export, whose run gets its final status


class Channel(NamedTuple):
    """Where notifications go; the address is a secret and never displayed."""

    kind: ChannelKind
    address: str

    @classmethod
    def parse(cls, text: str) -> Channel:
        """Parses `https://…`, another URL, or a command.

        Raises:
            ValueError: It is empty, too long or no text of one line.
        """
        text = text.strip()
        if not text or len(text) > MAX_CHARS or not text.isprintable():
            raise ValueError(f"expected a URL or a command, in one line of at most {MAX_CHARS} characters")
        if text.startswith(MLFLOW_SCHEME):
            return cls(ChannelKind.MLFLOW, text.removeprefix(MLFLOW_SCHEME))
        scheme = _SCHEME.match(text)
        if scheme is None:
            return cls(ChannelKind.COMMAND, text)
        is_http = scheme[1].lower() in ("http", "https")
        return cls(ChannelKind.WEBHOOK if is_http else ChannelKind.APPRISE, text)

    @property
    def label(self) -> str:
        """What is displayed: `webhook`, `command`, or apprise's scheme, such as `slack`."""
        if self.kind is ChannelKind.APPRISE:
            return self.address.partition("://")[0].lower()
        return str(self.kind.value)

    def __repr__(self) -> str:
        return f"Channel({self.label})"

    def __str__(self) -> str:
        return repr(self)


def channels(texts: Iterable[str]) -> tuple[Channel, ...]:
    """Parses channels, without duplicates; raises ValueError as `Channel.parse`."""
    return tuple(dict.fromkeys(map(Channel.parse, texts)))


def to_text(notification: Notification) -> str:
    """The JSON text of a notification, a line."""
    return json.dumps(notification.to_json(), ensure_ascii=False) + "\n"
