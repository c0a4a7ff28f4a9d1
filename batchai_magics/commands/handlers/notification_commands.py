"""`batchai notify test`: sends a test notification from this machine."""

from __future__ import annotations

import time
import uuid
from argparse import Namespace
from dataclasses import dataclass

from batchai_magics.backends.node.notification_delivery import DeliveryError, deliver
from batchai_magics.cell.cell_option_values import channels_of
from batchai_magics.commands.command_context import Context
from batchai_magics.commands.output.text_table import Table
from batchai_magics.errors import ServiceError, UsageError
from batchai_magics.jobs.watch_records import addresses_in
from batchai_magics.models.runs.notifications import Channel, Notification, NotificationKind, channels


@dataclass(frozen=True)
class DeliveryReport:
    """Which channels received the test notification; a problem is empty for those."""

    problems: tuple[tuple[str, str], ...]

    def to_data(self) -> list[dict[str, str]]:
        """One object per channel."""
        return [{"channel": label, "result": problem or "delivered"} for label, problem in self.problems]

    def to_table(self) -> Table:
        """One row per channel."""
        return Table(("Channel", "Result"), tuple(tuple(row.values()) for row in self.to_data()))


def test(context: Context, arguments: Namespace) -> DeliveryReport:
    """Sends it to the channels of `--notify`, else those of the settings, once each.

    Raises:
        UsageError: No channel is given, or one is invalid.
        ServiceError: A channel did not receive it.
    """
    addresses = channels_of(arguments.notify) or addresses_in(context.settings.notify)
    if not addresses:
        hint = "Give one: batchai notify test --notify URL, or set `notify` in the configuration file."
        raise UsageError("there is no channel to send a notification to", hint=hint)
    id = f"test-{uuid.uuid4()}"
    reason = "it was sent by batchai notify test"
    notification = Notification(id, NotificationKind.TEST, "test", "test", time.time(), reason)
    report = DeliveryReport(tuple(_delivered(channel, notification) for channel in channels(addresses)))
    failed = [f"{label}: {problem}" for label, problem in report.problems if problem]
    if failed:
        raise ServiceError("; ".join(failed))
    return report


def _delivered(channel: Channel, notification: Notification) -> tuple[str, str]:
    """The label of a channel, and why it did not receive the notification."""
    try:
        deliver(channel, notification)
    except DeliveryError as error:
        return channel.label, str(error)
    return channel.label, ""
