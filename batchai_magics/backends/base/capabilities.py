"""What a backend can do and how often it may be polled, and the check of specs and patches against that."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

from batchai_magics.errors import CapabilityError, Problem, SpecError, UsageError, did_you_mean

if TYPE_CHECKING:
    from batchai_magics.models.cluster_spec import ClusterPatch, ClusterSpec
    from batchai_magics.models.file_server import FileServerSpec
    from batchai_magics.models.job_spec import JobSpec
    from batchai_magics.models.resource_ids import ResourceId
    from batchai_magics.models.resources import ExperimentSpec, Resource, WorkspacePatch, WorkspaceSpec

# as strings: nothing that only lists resources imports these
Spec: TypeAlias = "WorkspaceSpec | ExperimentSpec | ClusterSpec | JobSpec | FileServerSpec"
Patch: TypeAlias = "ClusterPatch | WorkspacePatch"


@dataclass(frozen=True)
class Page:
    """A page of a list."""

    size: int | None = None  # the maximum number of resources; None for all
    after: str = ""  # where the page starts: opaque text from `Listing.next`; empty for the first page


class Listing(tuple["Resource", ...]):
    """Resources, oldest first; `next` is the page after these, None at the end."""

    next: Page | None

    def __new__(cls, resources: Iterable[Resource] = (), next: Page | None = None) -> Listing:
        """Creates the list of one page."""
        listing = super().__new__(cls, resources)
        listing.next = next
        return listing


@dataclass(frozen=True)
class StatusSnapshot:
    """The status of jobs and clusters at one time; missing ones are left out."""

    states: Mapping[str, Resource]  # `id.key` → resource
    # Opaque text that identifies the snapshot to a backend with long polling; else empty
    state: str = field(default="", compare=False)

    def of(self, id: ResourceId) -> Resource | None:
        """The resource of an id, or None if it did not exist."""
        return self.states.get(id.key)


@dataclass(frozen=True)
class NewJob:
    """A job to create: its id, its description, the record files that it starts with, and who creates it."""

    id: ResourceId
    spec: JobSpec
    records: Mapping[str, str] = field(default_factory=dict, repr=False)
    owner: str = ""


@dataclass(frozen=True)
class JobNeeds:
    """The prerequisites of a new job: resources, created unless they exist, and files on a share."""

    job: ResourceId  # the id that the job is to have
    # Ids and specs in the order of creation; an existing resource is left as it is
    resources: Sequence[tuple[ResourceId, Spec]] = ()
    share: str = ""  # the share that the cluster mounts at the path of the job's scripts; empty without files
    files: Mapping[str, bytes] = field(default_factory=dict, repr=False)  # path on the share → content
    spec: JobSpec | None = None  # the job, if it is to be checked before anything is created


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
    # A process of this package watches running jobs, sends notifications and exports their metrics
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
    from batchai_magics.models.file_server import FileServerSpec  # imported only where something is created
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


def unsupported(field: str, name: str, hint: str = "") -> CapabilityError:
    """The error of a field that the backend of that name does not support."""
    hint = hint or "Leave it out; nothing was written."
    return CapabilityError(f"{field} is not supported by the {name} backend", code="NotSupported", hint=hint)


def is_given(wire: Any, path: str) -> bool:
    """Whether wire JSON has a non-empty value at a path; `[]` stands for any item of a list."""
    name, _, rest = path.partition(".")
    value = wire.get(name.removesuffix("[]")) if isinstance(wire, Mapping) else None
    if not rest:
        return bool(value)
    items = value if isinstance(value, list) else [value]
    return any(is_given(item, rest) for item in items)
