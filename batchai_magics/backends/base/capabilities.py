"""What a backend can do and how often it may be polled, and the check of specs and patches against that."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from batchai_magics.errors import CapabilityError, Problem, SpecError, UsageError, did_you_mean

if TYPE_CHECKING:
    from batchai_magics.backends.base.resource_requests import Patch, Spec


@dataclass(frozen=True)
class Pace:
    """How often a backend may be polled."""

    # Seconds between two `status` requests, and between two `tail` requests of one job; 0: no limit
    poll_interval_s: float = 0.0
    max_wait_s: float = 0.0  # seconds that either may block for news (long polling); 0: it returns at once


@dataclass(frozen=True)
class Capabilities:
    """What a backend can do; a spec that needs more is rejected with the name of the field."""

    name: str  # the name of the backend, as for `--backend`
    containers: bool = True  # jobs may run in a container image
    setup_tasks: bool = True  # clusters may have a setup task
    auto_scale: bool = True  # clusters may scale automatically
    file_servers: bool = True  # file servers may be created and mounted
    unmanaged_mounts: bool = True  # mount commands of users are run
    key_vault: bool = True  # secrets may be references to a key vault
    logins: bool = True  # people log in: to the subscription, and to nodes with a password or key
    stop_conditions: bool = False  # running jobs are stopped for what their logs say
    # Something of ours watches running jobs, sends notifications and exports their numbers
    notifications: bool = False
    # Jobs continue after losing their nodes or reaching their time limit, and are warned before
    restarts: bool = False
    shared_gpus: bool = False  # jobs may ask for some of the GPUs of a node
    chains: bool = False  # jobs may start after others
    preflight: bool = False  # nodes are checked before a job's first rank
    custom_processes: bool = False  # jobs of the custom toolkit may have several processes
    known_sizes: bool = False  # it has the VM sizes of `models.vm_sizes`, and no others
    backend_options: tuple[str, ...] = ()  # the names of the native options that jobs may have
    pace: Pace = Pace()  # how often it may be polled


# Capability → the fields below `properties` that require it.
_FIELDS: Mapping[str, tuple[str, ...]] = {
    "containers": ("containerSettings",),
    "setup_tasks": ("nodeSetup.setupTask",),
    "auto_scale": ("scaleSettings.autoScale",),
    "file_servers": ("mountVolumes.fileServers", "nodeSetup.mountVolumes.fileServers"),
    "unmanaged_mounts": (
        "mountVolumes.unmanagedFileSystems",
        "nodeSetup.mountVolumes.unmanagedFileSystems",
    ),
    "stop_conditions": ("batchaiStopIf",),
    "restarts": ("batchaiMaxRestarts", "batchaiSignalBefore"),
    "shared_gpus": ("batchaiGpus",),
    "chains": ("batchaiAfter", "batchaiAfterAny"),
    "preflight": ("batchaiPreflight",),
    "custom_processes": ("customToolkitSettings.batchaiProcessCount",),
    "key_vault": (
        "secrets[].valueSecretReference",
        "containerSettings.imageSourceRegistry.credentials.passwordSecretReference",
    ),
}


def check_supported(capabilities: Capabilities, spec: Spec | Patch) -> None:
    """Checks a spec or patch before it is sent.

    Raises:
        CapabilityError: The first field that the backend cannot honour, with code NotSupported.
        SpecError: A job has metric patterns that are invalid or cannot be searched for in linear time.
    """
    from batchai_magics.models.file_server import FileServerSpec  # who makes nothing needs no model
    from batchai_magics.models.job_spec import JobSpec
    from batchai_magics.models.resources import ExperimentSpec, WorkspacePatch, WorkspaceSpec

    if isinstance(spec, WorkspaceSpec | ExperimentSpec | WorkspacePatch):
        return
    if isinstance(spec, FileServerSpec) and not capabilities.file_servers:
        raise unsupported("a file server", capabilities.name)
    properties = spec.to_wire().get("properties") or {}
    for path in unsupported_fields(capabilities):
        if is_given(properties, path):
            raise unsupported(f"properties.{path}", capabilities.name)
    if isinstance(spec, JobSpec):
        from batchai_magics.models.backend_options import option_key

        for name in spec.backend_options:
            if name not in capabilities.backend_options:
                known = [*(field.alias or "" for field in type(spec).model_fields.values())]
                known += map(option_key, capabilities.backend_options)
                hint = did_you_mean(option_key(name), known)
                raise unsupported(f"properties.{option_key(name)}", capabilities.name, hint)
        from batchai_magics.options.regular_expressions import compile_number

        problems = []
        for name, pattern in (spec.batchai_patterns or {}).items():
            try:
                compile_number(pattern, option="the expression")
            except UsageError as error:
                problems.append(Problem(f"properties.batchaiPatterns.{name}", error.message, error.hint))
        if problems:
            raise SpecError(problems, what=spec.what)


def unsupported_fields(capabilities: Capabilities) -> Iterator[str]:
    """The fields that the backend does not support."""
    for capability, paths in _FIELDS.items():
        if not getattr(capabilities, capability):
            yield from paths


def unsupported(what: str, name: str, hint: str = "") -> CapabilityError:
    """The error of a field that the backend of that name does not support."""
    hint = hint or "Leave it out; nothing was written."
    return CapabilityError(f"{what} is not supported by the {name} backend", code="NotSupported", hint=hint)


def is_given(wire: Any, path: str) -> bool:
    """Whether wire JSON has a non-empty value at a path; `[]` stands for any item of a list."""
    name, _, rest = path.partition(".")
    value = wire.get(name.removesuffix("[]")) if isinstance(wire, Mapping) else None
    if not rest:
        return bool(value)
    items = value if isinstance(value, list) else [value]
    return any(is_given(item, rest) for item in items)
