"""The records that configure the watch program of a run: live exports and notifications."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace

from batchai_magics.backends.base import Backend
from batchai_magics.backends.base.backend_registry import load_settings
from batchai_magics.cell import CellRequest
from batchai_magics.config import Settings
from batchai_magics.errors import CapabilityError, UsageError
from batchai_magics.follow.job_errors import source_paths
from batchai_magics.jobs.job_costs import JobCosts
from batchai_magics.models.runs.labels import Labels
from batchai_magics.models.runs.notifications import MLFLOW_SCHEME, channels
from batchai_magics.models.runs.scalar_export import ExportKind
from batchai_magics.models.runs.watch_request import WatchRequest
from batchai_magics.models.stop_conditions import metric_name, stop_condition
from batchai_magics.records.record_files import CHANNELS, LABELS, WATCH


def with_watch_settings(request: CellRequest, settings: Settings, backend: Backend) -> CellRequest:
    """The request with the channels of the settings, if it names none itself.

    Raises:
        CapabilityError: Nothing watches the runs of the backend.
        UsageError: A channel in the settings is invalid, or apprise does not know it; it is not repeated.
    """
    has_channels = backend.records is not None and backend.capabilities.notifications
    option = "--notify" if request.notify else "--export" if request.exports else ""
    if option and not has_channels:
        text = f"{option} is not supported by the {backend.capabilities.name} backend"
        raise CapabilityError(text, code="NotSupported", hint="Leave it out; nothing was written.")
    price = _price_for_conditions(request, settings, backend) if request.spec.batchai_stop_if else 0.0
    notify = (request.notify or addresses_in(settings.notify)) if has_channels else ()
    _check_addresses(notify, "--notify" if request.notify else "setting notify")
    if not (notify or request.exports or price):
        return replace(request, notify=(), watch=None)
    watch = WatchRequest(
        request.name,
        request.id.experiment,
        request.patterns,
        request.exports,
        link=settings.notify_link,
        stalled_s=stalled_s(settings) if notify else 0.0,
        node_price=price,
        headline=settings.headline_metric,
        has_lines=settings.notify_lines,
    )
    return replace(request, notify=notify, watch=watch)


def _price_for_conditions(request: CellRequest, settings: Settings, backend: Backend) -> float:
    """The price that the watch program needs for the stop conditions; 0 if it needs none."""
    printed = {metric_name(name) for name in request.spec.batchai_patterns or ()}  # those need no price
    conditions = request.spec.batchai_stop_if or ()
    measured = [text for text in conditions if stop_condition(text).metric not in printed]
    price = JobCosts(backend, settings).price_for_conditions(measured, request.spec)
    return 0.0 if backend.records is None else price


def stalled_s(settings: Settings | None = None) -> float:
    """How many seconds a job may print nothing before it is reported as stalled; 0: forever."""
    return 60.0 * (settings or load_settings()).notify_stalled


def addresses_in(text: str) -> tuple[str, ...]:
    """The addresses of a setting, one a line; raises UsageError, without them, for an invalid one."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    if not lines:
        return ()
    try:
        return tuple(channel.address for channel in channels(lines))
    except ValueError as error:
        raise UsageError(f"setting notify: {error}") from None


def _check_addresses(addresses: Sequence[str], source: str) -> None:
    """Raises UsageError for an address to which apprise will not send."""
    if not addresses:
        return
    from batchai_magics.backends.node.notification_delivery import address_problem  # few jobs need it

    for channel in channels(addresses):
        if problem := address_problem(channel):
            hint = "Nothing was submitted. Services and their addresses: https://github.com/caronc/apprise"
            raise UsageError(f"{source}: {problem}", hint=hint)


def watch_records(request: CellRequest, request_to_watch: WatchRequest, name: str) -> dict[str, str]:
    """The record files of a job of that name, for the program that watches it."""
    labels = request.records.get(LABELS)
    parameters = Labels.from_json(json.loads(labels)).parameters if labels else {}
    texts = {key: str(value) for key, value in parameters.items()}
    link = request_to_watch.link.replace("{name}", name).replace("{experiment}", request_to_watch.experiment)
    paths = source_paths(request.spec, name)
    watch = request_to_watch._replace(
        name=name,
        parameters=texts,
        tags=request.tags,
        link=link,
        source_folder=paths.folder,
        script=paths.script,
    )
    # channels that set the final status of exported runs
    finishers = [target for target in watch.targets if target.kind is ExportKind.MLFLOW]
    addresses = [*request.notify, *(f"{MLFLOW_SCHEME}{target.location}" for target in finishers)]
    files = {WATCH: watch.to_json()}
    return {**files, CHANNELS: json.dumps(addresses)} if addresses else files
