"""`batchai use` sets the session's default backend, workspace, …; `batchai clean` removes what one left."""

from __future__ import annotations

import re
import time
from argparse import Namespace
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from batchai_magics.backends.base import CLEANING, StoredItem
from batchai_magics.backends.base.backend_registry import (
    BACKENDS,
    backend_setting,
    check_choice,
    choose,
    endpoint_of,
    open_backend,
    with_backend_settings,
)
from batchai_magics.commands.output.command_result import TableResult, ValueWithNotes
from batchai_magics.commands.output.text_table import Table
from batchai_magics.config import environment_variable
from batchai_magics.errors import UsageError
from batchai_magics.models.resource_ids import Kind, check_name, cluster_id, workspace_id
from batchai_magics.records.preflight import size_text

if TYPE_CHECKING:
    from batchai_magics.commands.command_context import Context
    from batchai_magics.config import Settings


_AGE = re.compile(r"(\d{1,5})([hdw])")
_AGE_UNITS = {"h": 3600.0, "d": 86_400.0, "w": 604_800.0}
SETTING_NAMES = ("backend", "resource_group", "workspace", "experiment", "cluster")
BACKEND_OPTIONS = ("endpoint", "ssh")  # options of only some backends
DISPLAYED_SETTINGS = (*SETTING_NAMES, "location", "storage_account")


@dataclass(frozen=True)
class SettingsChoice:
    """The new settings of a session, which the caller applies."""

    settings: Settings

    def to_data(self) -> dict[str, str]:
        """The settings by name."""
        settings = {
            name: value
            for name in BACKEND_OPTIONS
            if (value := backend_setting(self.settings, name)) is not None
        }
        return {**{name: getattr(self.settings, name) for name in DISPLAYED_SETTINGS}, **settings}

    def to_table(self) -> Table:
        """The settings in one row."""
        data = self.to_data()
        titles = tuple(name.replace("_", " ").capitalize() for name in data)
        return Table(titles, (tuple(data.values()),))


def use(context: Context, arguments: Namespace) -> SettingsChoice | ValueWithNotes:
    """The settings changed by the options; without options, the current ones."""
    chosen = {name: getattr(arguments, name) for name in SETTING_NAMES}
    settings = replace(context.settings, **{name: value for name, value in chosen.items() if value})
    backend = arguments.backend or settings.backend
    has_subscription = arguments.subscription and backend in BACKENDS
    if has_subscription and hasattr(BACKENDS.opening(backend), "complete_settings"):  # it is in Azure
        settings = replace(settings, subscription=arguments.subscription)
    settings = _with_backend(settings, arguments)
    check_name(settings.experiment, Kind.EXPERIMENT)
    cluster_id(settings.cluster, workspace_id(settings))
    note = check_choice(settings) if arguments.backend or _backend_options(arguments) else ""
    return ValueWithNotes(SettingsChoice(settings), (note,)) if note else SettingsChoice(settings)


def _with_backend(settings: Settings, arguments: Namespace) -> Settings:
    backend_settings = _backend_options(arguments)
    if arguments.backend:
        settings = choose(settings, arguments.backend)
    if backend_settings:
        settings = with_backend_settings(settings, **backend_settings)
    is_changed = arguments.backend or backend_settings
    if is_changed and (endpoint_of(settings) is not None or backend_setting(settings, "ssh")):
        # Raises for a wrong endpoint (found offline) or login node (by connecting).
        open_backend(settings).close()
    return settings


def _backend_options(arguments: Namespace) -> dict[str, str]:
    return {name: value for name in BACKEND_OPTIONS if (value := getattr(arguments, name))}


def chosen_variables(context: Context, arguments: Namespace) -> list[str]:
    """What the line chooses, as the environment's variables: `BATCHAI_BACKEND=slurm`."""
    backend = arguments.backend or context.settings.backend
    variables = {name: environment_variable(name) for name in SETTING_NAMES}
    variables |= {name: environment_variable(name, backend) for name in BACKEND_OPTIONS}
    values = vars(arguments)
    return [f"{variable}={values[name]}" for name, variable in variables.items() if values[name]]


def preview(context: Context, arguments: Namespace) -> TableResult:
    """What `clean` would remove; without `--older-than`, raises ConflictError while a job runs."""
    cleaning, before = CLEANING.of(context.backend), _before(arguments)
    if before is not None:
        return _removed_items(cleaning.old_runs(before, keeps_tagged=arguments.keep_tagged))
    cleaning.check()
    return _removed_items(cleaning.stored_items())


def clean(context: Context, arguments: Namespace) -> TableResult:
    """Removes what the backend stores on this machine: everything, or the runs of `--older-than`."""
    cleaning, before = CLEANING.of(context.backend), _before(arguments)
    if before is not None:
        return _removed_items(cleaning.clean_runs(before, keeps_tagged=arguments.keep_tagged))
    items = preview(context, arguments)
    cleaning.clean()
    return items


def _removed_items(items: Sequence[StoredItem]) -> TableResult:
    """What was or would be removed, and the total."""
    rows = [(item.name, item.file_count, size_text(item.size_bytes), item.path) for item in items]
    file_count, size_bytes = sum(item.file_count for item in items), sum(item.size_bytes for item in items)
    total = ("all", file_count, size_text(size_bytes), "")
    data = [
        {"part": item.name, "files": item.file_count, "bytes": item.size_bytes, "path": item.path}
        for item in items
    ]
    return TableResult(data, Table(("Part", "Files", "Size", "Path"), (*rows, total)))


def _before(arguments: Namespace) -> float | None:
    """The time before which runs of `--older-than` ended; None without it."""
    text = arguments.older_than
    if text is None:
        if arguments.keep_tagged:
            raise UsageError("--keep-tagged goes with --older-than", hint="such as --older-than 30d")
        return None
    match = _AGE.fullmatch(text.strip().lower())
    if not match:
        raise UsageError(f"--older-than {text}: expected an age", hint="such as 12h, 30d or 8w")
    return time.time() - int(match[1]) * _AGE_UNITS[match[2]]
