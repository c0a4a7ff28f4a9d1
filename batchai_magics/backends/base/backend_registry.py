"""The registry of backends: built-in ones, and those of other packages.

A package adds a backend by an entry point of the group `batchai_magics.backends`: its name is the backend's,
its value a module that implements `Opening`. Nothing is imported before the backend is used, and other
packages are searched only for names that are not built in, or to list all backends.
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


GROUP = "batchai_magics.backends"
_BUILTIN = {
    "local": "batchai_magics.backends.local.opening",
    "arm": "batchai_magics.backends.arm.opening",
    "slurm": "batchai_magics.backends.slurm.opening",
}


class Opening(Protocol):
    """The interface of a backend's module."""

    IMPLEMENTED_IN: str  # the module that `open_backend` imports
    OWN_SETTINGS: type[Any] | None  # a frozen dataclass with defaults for all fields: see config.Backends

    def open_backend(self, settings: Settings) -> Backend:
        """Opens the backend with these settings."""


class Registry:
    """All backends by name, matched case-insensitively."""

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
        """The built-in backends."""
        return _BUILTIN

    def settings_type(self, name: str) -> type[Any] | None:
        """The type of a backend's own settings."""
        return self.opening(name).OWN_SETTINGS

    def opening(self, name: str) -> Opening:
        """The module of a backend; UsageError for an unknown name."""
        if name not in self:
            guess = did_you_mean(name, self) or f"There is: {', '.join(self)}."
            raise UsageError(f"there is no backend {name!r}", hint=guess)
        module = _BUILTIN.get(name.lower()) or _external()[name.lower()]
        try:
            return cast("Opening", importlib.import_module(module))
        except ImportError as error:
            text = f"the {name} backend cannot be loaded: {error}"
            hint = f"Install what {module} needs."
            raise CapabilityError(text, code="NotSupported", hint=hint) from error


BACKENDS = Registry()


def open_backend(settings: Settings) -> Backend:
    """Opens the backend named by the settings."""
    return BACKENDS.opening(settings.backend).open_backend(settings)


def check_choice(settings: Settings) -> str:
    """Checks a backend when a user chooses it; returns its message, raises if it cannot run jobs.

    A backend's module may have a function of this name that checks more than `open_backend` does.
    """
    check = getattr(BACKENDS.opening(settings.backend), "check_choice", None)
    return str(check(settings)) if check else ""


def load_settings(env: Mapping[str, str] | None = None, *, path: Path | None = None) -> Settings:
    """The settings of this process, including those of its backends."""
    return load(env, path=path, backends=BACKENDS)


def choose(settings: Settings, backend: str) -> Settings:
    """The settings with another backend, and with its own settings from this process."""
    loaded = load_settings({**os.environ, environment_variable("backend"): backend})
    return replace(settings, backend=loaded.backend, sections={**loaded.sections, **settings.sections})


def endpoint_of(settings: Settings) -> str | None:
    """The address of the backend's server; None if it has none."""
    return backend_setting(settings, "endpoint")


def backend_setting(settings: Settings, name: str) -> str | None:
    """A setting of the backend's own; None if it does not have it."""
    value: str | None = getattr(settings.sections.get(settings.backend), name, None)
    return value


def with_backend_settings(settings: Settings, **values: str) -> Settings:
    """The settings with some of the backend's own replaced; UsageError for unknown ones."""
    section = settings.sections.get(settings.backend)
    for name in values:
        if not hasattr(section, name):
            hint = "Choose another one with --backend."
            raise UsageError(f"the {settings.backend} backend has no {name}", hint=hint)
    changed = replace(cast("Any", section), **values)
    return replace(settings, sections={**settings.sections, settings.backend: changed})


def backend_options(settings: Settings | None = None) -> tuple[BackendOption, ...]:
    """The native options of jobs that backends declare: ours, and those with settings in this process."""
    sections: list[object] = [BACKENDS.settings_type(name) for name in BACKENDS.builtin]
    with contextlib.suppress(BatchAIError):  # reported where the settings are used
        sections += map(type, (settings or load_settings()).sections.values())
    return declared_by(sections)


def import_backend() -> None:
    """Imports the modules of the backend that this process's settings name, ahead of its use."""
    importlib.import_module(BACKENDS.opening(load_settings().backend).IMPLEMENTED_IN)


def save_settings(values: Mapping[str, Any], env: Mapping[str, str] | None = None) -> Path:
    """Writes general settings to the file that `load_settings` reads; returns its path."""
    return save(values, env, backends=BACKENDS)


def _external() -> Mapping[str, str]:
    return _installed(tuple(sys.path))


@functools.lru_cache(maxsize=1)
def _installed(path: tuple[str, ...]) -> Mapping[str, str]:
    """The backends of other packages: name → module. Takes some milliseconds."""
    from importlib.metadata import entry_points

    return {point.name.lower(): point.module for point in entry_points(group=GROUP)}
