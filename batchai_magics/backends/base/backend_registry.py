"""The one list of backends: ours, and those that other packages bring.

A package brings a backend by an entry point of the group `batchai_magics.backends`: its name is that of the
backend, its value a module with what `Opening` says. Nothing is imported before the backend is needed, and
other packages are looked through only when a name is asked for that is not ours, or all are.
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
_OURS = {
    "local": "batchai_magics.backends.local.opening",
    "arm": "batchai_magics.backends.arm.opening",
    "slurm": "batchai_magics.backends.slurm.opening",
}


class Opening(Protocol):
    """What the module of a backend has."""

    IMPLEMENTED_IN: str  # the module that `open_backend` imports
    OWN_SETTINGS: type[Any] | None  # a frozen dataclass, every field with a default: see config.Backends

    def open_backend(self, settings: Settings) -> Backend:
        """The backend as the settings want it."""


class Registry:
    """The names of all backends, in any letter case, and what lies behind each."""

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and (name.lower() in _OURS or name.lower() in _brought())

    def __iter__(self) -> Iterator[str]:
        yield from _OURS
        yield from (name for name in _brought() if name not in _OURS)

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __bool__(self) -> bool:
        return True  # without looking through other packages

    @property
    def builtin(self) -> Collection[str]:
        """Those of this package."""
        return _OURS

    def settings_type(self, name: str) -> type[Any] | None:
        """The type of a backend's own settings."""
        return self.opening(name).OWN_SETTINGS

    def opening(self, name: str) -> Opening:
        """The module of a backend; UsageError for a name that no backend has."""
        if name not in self:
            guess = did_you_mean(name, self) or f"There is: {', '.join(self)}."
            raise UsageError(f"there is no backend {name!r}", hint=guess)
        module = _OURS.get(name.lower()) or _brought()[name.lower()]
        try:
            return cast("Opening", importlib.import_module(module))
        except ImportError as error:
            text = f"the {name} backend cannot be loaded: {error}"
            hint = f"Install what {module} needs."
            raise CapabilityError(text, code="NotSupported", hint=hint) from error


BACKENDS = Registry()


def open_backend(settings: Settings) -> Backend:
    """The backend that the settings name."""
    return BACKENDS.opening(settings.backend).open_backend(settings)


def check_choice(settings: Settings) -> str:
    """What a backend says when a person chooses it; an error for a place that cannot run jobs.

    A module of a backend may have a function of this name that looks at more than `open_backend` does.
    """
    check = getattr(BACKENDS.opening(settings.backend), "check_choice", None)
    return str(check(settings)) if check else ""


def load_settings(env: Mapping[str, str] | None = None, *, path: Path | None = None) -> Settings:
    """The settings of this process, those of its backends among them."""
    return load(env, path=path, backends=BACKENDS)


def choose(settings: Settings, backend: str) -> Settings:
    """The settings with another backend, and with that one's own as this process has them."""
    loaded = load_settings({**os.environ, environment_variable("backend"): backend})
    return replace(settings, backend=loaded.backend, sections={**loaded.sections, **settings.sections})


def endpoint_of(settings: Settings) -> str | None:
    """The address of the backend's server; None for a backend that has none."""
    return own_of(settings, "endpoint")


def own_of(settings: Settings, name: str) -> str | None:
    """One of the backend's own settings; None for a backend that has no such."""
    value: str | None = getattr(settings.sections.get(settings.backend), name, None)
    return value


def with_own(settings: Settings, **values: str) -> Settings:
    """The settings with others of the backend's own; UsageError for what that backend has not."""
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
    """Imports what the backend of this process's settings needs, before it is needed."""
    importlib.import_module(BACKENDS.opening(load_settings().backend).IMPLEMENTED_IN)


def save_settings(values: Mapping[str, Any], env: Mapping[str, str] | None = None) -> Path:
    """Writes general settings to the file that `load_settings` reads, and gives its path."""
    return save(values, env, backends=BACKENDS)


def _brought() -> Mapping[str, str]:
    return _installed(tuple(sys.path))


@functools.lru_cache(maxsize=1)
def _installed(path: tuple[str, ...]) -> Mapping[str, str]:
    """The backends of other packages: name → module. It takes some milliseconds to look."""
    from importlib.metadata import entry_points

    return {point.name.lower(): point.module for point in entry_points(group=GROUP)}
