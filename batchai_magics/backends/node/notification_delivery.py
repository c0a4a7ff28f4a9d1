"""Sends one notification over one channel: webhook, command, or a service of apprise.

Standard library only, except for apprise's channels. No message contains an address: it is a secret.
"""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import subprocess
import urllib.error
import warnings
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from batchai_magics.errors import did_you_mean
from batchai_magics.models.runs.notifications import (
    Channel,
    ChannelKind,
    Notification,
    NotificationKind,
    to_text,
)
from batchai_magics.models.runs.scalar_export import ExportedRun
from batchai_magics.records import http_client
from batchai_magics.records.mlflow_runs import MlflowError, MlflowLoginError, MlflowRun

TIMEOUT_S = 10.0  # of a webhook
COMMAND_TIMEOUT_S = 30.0


class DeliveryError(Exception):
    """A notification was not delivered; `is_final` if no later attempt can succeed."""

    def __init__(self, text: str, *, is_final: bool = False) -> None:
        super().__init__(text)
        self.is_final = is_final


class UnavailableHereError(DeliveryError):
    """This Python or machine cannot deliver the notification; another one may."""


def deliver(channel: Channel, notification: Notification) -> None:
    """Sends a notification.

    Raises:
        DeliveryError: It was not delivered, or that is unknown.
    """
    send = {
        ChannelKind.WEBHOOK: _post,
        ChannelKind.COMMAND: _run,
        ChannelKind.APPRISE: _send_with_apprise,
        ChannelKind.MLFLOW: _finish_mlflow_run,
    }
    send[channel.kind](channel.address, notification)


def _post(url: str, notification: Notification) -> None:
    """Posts the JSON; follows no redirects, which could lead to another host."""
    headers = {
        "Content-Type": "application/json",
        "User-Agent": "batchai",
        "Idempotency-Key": notification.id,
    }
    try:
        http_client.send(url, to_text(notification).encode(), headers, timeout_s=TIMEOUT_S)
    except urllib.error.HTTPError as error:
        # 408, 425 and 429 ask for another attempt
        is_final = 300 <= error.code < 500 and error.code not in (404, 408, 425, 429)
        raise DeliveryError(f"the webhook answered {error.code}", is_final=is_final) from None
    except OSError as error:
        reason = getattr(error, "reason", error)
        cause = reason if isinstance(reason, OSError) else error
        raise DeliveryError(f"the webhook did not respond: {type(cause).__name__}") from None
    except Exception as error:  # noqa: BLE001 the address is invalid, or the response no HTTP
        raise DeliveryError(f"the webhook failed: {type(error).__name__}", is_final=True) from None


def _run(command: str, notification: Notification) -> None:
    """Runs a shell command with the JSON as its input, and the main fields as variables."""
    fields = notification.to_json()
    names = ("id", "kind", "job", "state", "title", "body", "link")
    env = {f"BATCHAI_NOTIFY_{name.upper()}": str(fields[name]) for name in names}
    child = subprocess.Popen(
        command,
        shell=True,
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env={**os.environ, **env},
        start_new_session=True,
    )
    try:
        child.communicate(to_text(notification).encode(), timeout=COMMAND_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child.pid, signal.SIGKILL)
        child.communicate()
        raise DeliveryError(f"the command did not end within {COMMAND_TIMEOUT_S:g} s") from None
    if child.returncode:
        raise DeliveryError(f"the command ended with exit code {child.returncode}")


def _send_with_apprise(url: str, notification: Notification) -> None:
    if not _has_apprise():
        raise UnavailableHereError("apprise is not installed: pip install 'batchai-magics[notify]'")
    services = _apprise_services(url)
    if not services:
        raise DeliveryError("apprise does not know this address", is_final=True)
    if not services.notify(title=notification.title, body=notification.body):
        raise DeliveryError("the service did not accept it, or did not respond")


def address_problem(channel: Channel) -> str:
    """Why apprise will not send to a channel; empty if it will, or if that cannot be told without apprise."""
    if channel.kind is not ChannelKind.APPRISE or not _has_apprise() or _apprise_services(channel.address):
        return ""
    schemes: list[str] = import_module("apprise.manager_plugins").NotificationManager().schemas()
    if channel.label in schemes:
        return f"apprise cannot read this address of {channel.label}://"
    return " ".join(
        filter(None, (f"apprise has no {channel.label}://.", did_you_mean(channel.label, schemes)))
    )


def _has_apprise() -> bool:
    return find_spec("apprise") is not None


def _apprise_services(url: str) -> Any:
    """What sends to an address, or to several between commas; None if apprise does not know one of them."""
    logging.getLogger("apprise").setLevel(logging.CRITICAL + 1)  # its messages contain addresses
    services: Any = import_module("apprise").Apprise()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # the first address imports all its services
        return services if services.add(url) else None


def _finish_mlflow_run(uri: str, notification: Notification) -> None:
    """Sets the status of the run that was exported to an MLflow server."""
    if notification.kind is not NotificationKind.ENDED:
        return
    run = ExportedRun(notification.job, notification.run, notification.experiment, notification.time)
    try:
        MlflowRun(uri, run).finish(notification.state, notification.time)
    except MlflowLoginError as error:  # another client may have the credentials
        raise UnavailableHereError(str(error)) from None
    except MlflowError as error:
        raise DeliveryError(str(error), is_final=error.is_final) from None
