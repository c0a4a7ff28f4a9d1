"""The registry of backends: built-in ones, and ones from other packages.

Another package registers a backend as an entry point of the group `batchai_magics.backends`: the entry's name
is the backend's, its value a module with the attributes of `Opening`. Nothing is imported before a backend is
needed; entry points are read only when an unknown name, or all names, are asked for.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import os
import sys
from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, cast

from batchai_magics.config import Settings, environment_variable, load, save
from batchai_magics.errors import BatchAIError, CapabilityError, UsageError, did_you_mean
from batchai_magics.models.backend_options import BackendOption, declared_by

if TYPE_CHECKING:
    from batchai_magics.backends.base.protocol import Backend
    from batchai_magics.models.job_spec import JobSpec


GROUP = "batchai_magics.backends"
_BUILTIN = {
    "local": "batchai_magics.backends.local.opening",
    "arm": "batchai_magics.backends.arm.opening",
    "slurm": "batchai_magics.backends.slurm.opening",
    "azureml": "batchai_magics.backends.azureml.opening",
    "ray": "batchai_magics.backends.ray.opening",
}


class Opening(Protocol):
    """The attributes of a backend's module."""

    IMPLEMENTED_IN: str  # the module that `open_backend` imports
    # The type of the backend's section of the settings: a frozen dataclass with a default for each field;
    # None if it has none
    OWN_SETTINGS: type[Any] | None

    def open_backend(self, settings: Settings) -> Backend:
        """Opens the backend that the settings describe."""


class Registry:
    """The names of all backends, matched case-insensitively, and their modules."""

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and (name.lower() in _BUILTIN or name.lower() in _external())

    def __iter__(self) -> Iterator[str]:
        yield from _BUILTIN
        yield from (name for name in _external() if name not in _BUILTIN)

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __bool__(self) -> bool:
        return True  # without searching other packages

    @property
    def builtin(self) -> Collection[str]:
        """The backends of this package."""
        return _BUILTIN

    def settings_type(self, name: str) -> type[Any] | None:
        """The type of a backend's own settings; None if it has none.

        Raises:
            UsageError: There is no backend of that name.
            CapabilityError: Its module cannot be imported.
        """
        return self.opening(name).OWN_SETTINGS

    def opening(self, name: str) -> Opening:
        """The module of a backend.

        Raises:
            UsageError: There is no backend of that name; the hint lists them.
            CapabilityError: The module cannot be imported, for lack of a dependency.
        """
        if name not in self:
            guess = did_you_mean(name, self) or f"Available: {', '.join(self)}."
            raise UsageError(f"unknown backend {name!r}", hint=guess)
        module = _BUILTIN.get(name.lower()) or _external()[name.lower()]
        try:
            return cast("Opening", importlib.import_module(module))
        except ImportError as error:
            text = f"the {name} backend cannot be loaded: {error}"
            hint = f"Install what {module} needs."
            raise CapabilityError(text, code="NotSupported", hint=hint) from error


BACKENDS = Registry()


def open_backend(settings: Settings) -> Backend:
    """Opens the backend that the settings name.

    Raises:
        UsageError: There is no backend of that name, or its settings are invalid.
        CapabilityError: Its module cannot be imported.
    """
    return BACKENDS.opening(settings.backend).open_backend(settings)


def check_choice(settings: Settings) -> str:
    """Checks that a chosen backend can run jobs; returns a note about it, or nothing.

    A backend's module may have a function `check_choice` that checks more than `open_backend` does.

    Raises:
        BatchAIError: The backend cannot run jobs there.
    """
    check = getattr(BACKENDS.opening(settings.backend), "check_choice", None)
    return str(check(settings)) if check else ""


def load_settings(env: Mapping[str, str] | None = None, *, path: Path | None = None) -> Settings:
    """The settings of this process, including the sections of its backends.

    Args:
        env: Environment variables; those of the process by default.
        path: The settings file; by default the one of the user.

    Raises:
        UsageError: A setting is unknown or invalid.
    """
    return completed_settings(load(env, path=path, backends=BACKENDS))


def completed_settings(settings: Settings) -> Settings:
    """The settings, completed with the values that their backend detects.

    A backend's module may have a function `complete_settings` for that; it makes no request.

    Raises:
        UsageError: A detected value is invalid.
    """
    complete = getattr(BACKENDS.opening(settings.backend), "complete_settings", None)
    return cast("Settings", complete(settings)) if complete else settings


_selected: list[Settings] = []  # of `%batchai use`, at most one


def select_settings(settings: Settings | None) -> None:
    """Makes these the settings of this process, as `%batchai use` does; None forgets the choice."""
    _selected[:] = [settings] if settings else []


def current_settings() -> Settings:
    """The settings that `%batchai use` has chosen, else those of the file and environment variables."""
    return _selected[0] if _selected else load_settings()


def choose(settings: Settings, backend: str) -> Settings:
    """The settings with another backend, and with the section that this process has for it.

    Raises:
        UsageError: There is no backend of that name.
    """
    loaded = load_settings({**os.environ, environment_variable("backend"): backend})
    chosen = replace(settings, backend=loaded.backend, sections={**loaded.sections, **settings.sections})
    return completed_settings(chosen)


def endpoint_of(settings: Settings) -> str | None:
    """The URL of the backend's server; None for a backend without one."""
    return backend_setting(settings, "endpoint")


def backend_setting(settings: Settings, name: str) -> str | None:
    """A setting of the backend's section as text; None if the backend has no such setting."""
    value: str | None = getattr(settings.sections.get(settings.backend), name, None)
    return value


def with_backend_settings(settings: Settings, **values: str) -> Settings:
    """The settings with other values in the backend's section.

    Raises:
        UsageError: The backend has no setting of that name.
    """
    section = settings.sections.get(settings.backend)
    for name in values:
        if not hasattr(section, name):
            hint = "Choose another one with --backend."
            raise UsageError(f"the {settings.backend} backend has no {name}", hint=hint)
    changed = replace(cast("Any", section), **values)
    return replace(settings, sections={**settings.sections, settings.backend: changed})


def backend_options(settings: Settings | None = None) -> tuple[BackendOption, ...]:
    """The native options of jobs: of the built-in backends and of backends with settings in this process."""
    sections: list[object] = [BACKENDS.settings_type(name) for name in BACKENDS.builtin]
    with contextlib.suppress(BatchAIError):  # reported where the settings are used
        sections += map(type, (settings or load_settings()).sections.values())
    return declared_by(sections)


def is_paid(settings: Settings) -> bool:
    """Whether the nodes of the backend cost money: the attribute `IS_PAID` of its module."""
    return bool(getattr(BACKENDS.opening(settings.backend), "IS_PAID", False))


def default_vm_size(settings: Settings) -> str:
    """The VM size of the default cluster.

    A backend's module may have this function, if its nodes have the GPUs of this machine.
    """
    function = getattr(BACKENDS.opening(settings.backend), "default_vm_size", None)
    return str(function(settings)) if function else settings.cluster_vm_size


def knows_gpus(settings: Settings) -> bool:
    """Whether the default VM size tells how many GPUs a node has, even if that is 0."""
    return hasattr(BACKENDS.opening(settings.backend), "default_vm_size")


def shares_folders(settings: Settings) -> bool:
    """Whether nodes have the folders of this machine; False unless the module has this function."""
    function = getattr(BACKENDS.opening(settings.backend), "shares_folders", None)
    return bool(function and function(settings))


def host_note(settings: Settings, job: JobSpec) -> str:
    """The note that `Backend.host_note` returns for a job, without opening a backend; writes nothing.

    A backend's module may have this function, if it does not run every image.

    Raises:
        CapabilityError: The user named the image, and nothing runs it.
    """
    function = getattr(BACKENDS.opening(settings.backend), "host_note", None)
    return str(function(settings, job)) if function and job.container_settings else ""


def import_backend() -> None:
    """Imports the modules of this process's backend ahead of their first use."""
    importlib.import_module(BACKENDS.opening(load_settings().backend).IMPLEMENTED_IN)


def save_settings(values: Mapping[str, Any], env: Mapping[str, str] | None = None) -> Path:
    """Writes general settings to the file that `load_settings` reads; returns its path.

    Raises:
        UsageError: A setting is unknown or invalid.
    """
    return save(values, env, backends=BACKENDS)


def _external() -> Mapping[str, str]:
    return _installed(tuple(sys.path))


@functools.lru_cache(maxsize=1)
def _installed(path: tuple[str, ...]) -> Mapping[str, str]:
    """The backends of other packages: name → module. Takes some milliseconds."""
    from importlib.metadata import entry_points

    return {point.name.lower(): point.module for point in entry_points(group=GROUP)}
