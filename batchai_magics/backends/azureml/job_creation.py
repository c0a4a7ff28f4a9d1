"""Creates jobs: checks them, stores what they need in the workspace, and puts them there last."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path, PurePosixPath

from batchai_magics.backends.azure.arm_protocol import ArmRequest
from batchai_magics.backends.azureml import job_requests
from batchai_magics.backends.azureml.clusters import SERVERLESS
from batchai_magics.backends.azureml.code_snapshots import CodeSnapshots
from batchai_magics.backends.azureml.connection import Connection
from batchai_magics.backends.azureml.job_parsing import ServiceJob
from batchai_magics.backends.azureml.job_requests import DIGEST, JobAssets, is_address
from batchai_magics.backends.azureml.jobs import Jobs
from batchai_magics.backends.azureml.run_plan import run_plan
from batchai_magics.backends.azureml.settings import AzureMLSettings
from batchai_magics.backends.azureml.unsupported_fields import check_fields
from batchai_magics.backends.service import api_errors
from batchai_magics.config import Settings
from batchai_magics.errors import ConflictError, NotFoundError, ServiceError, UnreachableError, UsageError
from batchai_magics.launch.job_bounds import JobBounds
from batchai_magics.models import vm_sizes
from batchai_magics.models.job_spec import JobSpec
from batchai_magics.models.mount_volumes import AzureBlobFileSystem, AzureFileShare
from batchai_magics.models.resource_ids import ResourceId
from batchai_magics.models.resources import JobResource

_ENVIRONMENT = "CliV2AnonymousEnvironment"  # as the service's own client calls those without a name
_USER_SCOPE = "https://ml.azure.com/.default"
_MOUNTED = re.compile(r"\$\{?AZ_BATCHAI_(?:JOB_)?MOUNT_ROOT\}?/([^\s\"';]+)")


class JobCreation:
    """Creates jobs in a workspace."""

    def __init__(self, connection: Connection, jobs: Jobs, settings: Settings) -> None:
        self._connection, self._jobs = connection, jobs
        self._own: AzureMLSettings = connection.settings
        self._share_mount, self._bounds = settings.share_mount, JobBounds.of(settings)
        self._snapshots = CodeSnapshots(connection)
        self._uploads: dict[str, Mapping[str, bytes]] = {}  # folder on the default share → its files
        self._environments: set[str] = set()
        self._gpus: dict[str, int] = {}

    def keep(self, files: Mapping[str, bytes]) -> None:
        """Stores files as code, which the job that refers to their folder gets with it."""
        if files:
            self._snapshots.store(files)
            self._uploads[_common_folder(files)] = files

    def create(self, id: ResourceId, spec: JobSpec, records: Mapping[str, str]) -> JobResource:
        """Creates a job, or returns an identical one.

        Raises:
            CapabilityError: It asks for what the service cannot do; nothing was sent.
            ConflictError: A different job has this name.
            NotFoundError: Its cluster does not exist.
            SpecError: Its processes do not spread evenly over its nodes.
        """
        cluster_id = ResourceId.parse(spec.cluster.id)
        cluster = cluster_id.name
        is_serverless = cluster.lower() in SERVERLESS
        check_fields(spec, is_serverless=is_serverless, has_consent=self._own.visible_secrets == "yes")
        generation, existing = self._jobs.existing(id)
        if existing:
            return self._identical(id, spec, existing)
        size = self._size(spec) if is_serverless else self._size_of(cluster_id, spec.node_count)
        gpus = self._gpu_count(size)
        self._bounds.check(spec, gpus_per_node=gpus)
        run = run_plan(id, spec, gpus_per_node=gpus)
        run_name = self._jobs.new_run(id, generation)
        assets = JobAssets(
            code=self._snapshots.store(self._files(spec)),
            environment=self._environment(spec),
            compute="" if is_serverless else f"{self._connection.address.path}/computes/{cluster}",
            size=size,
            datastores=self._datastores(spec),
            share=self._share_mount,
        )
        body = job_requests.job_body(id, spec, run, assets, self._own, records)
        request = self._connection.request("PUT", f"jobs/{run_name}", body)
        return self._identical(id, spec, self._put(id, replace(request, headers=self._user_token())))

    def _put(self, id: ResourceId, request: ArmRequest) -> ServiceJob:
        """Creates the job, last of all; where that was refused, the one that is there.

        The response to an earlier try may have been lost, or another process may have been faster.
        """
        try:
            return ServiceJob(id.workspace_id, self._connection.request_json(request))
        except ServiceError as error:
            found = None if isinstance(error, UnreachableError) else self._jobs.existing(id)[1]
            if found is None:
                raise
            return found

    def _user_token(self) -> dict[str, str]:
        """The header by which a job gets the rights of its submitter."""
        is_user = self._own.identity.lower() == "user"
        return {"x-azureml-token": self._connection.token(_USER_SCOPE)} if is_user else {}

    def _identical(self, id: ResourceId, spec: JobSpec, found: ServiceJob) -> JobResource:
        """The job if it was created with this description; else raises a ConflictError."""
        if found.own_properties.get(DIGEST) != job_requests.digest(spec):
            text = f"a different job called {id.name} exists in the experiment {id.experiment}"
            raise ConflictError(text, code="JobAlreadyExists", hint="Choose another name.")
        return self._jobs.resource(found)

    def _size(self, spec: JobSpec) -> str:
        """The VM size of a job without a cluster: the last one that it names, else the setting."""
        return (spec.backend_options.get("size") or self._own.size).split()[-1]

    def _size_of(self, id: ResourceId, node_count: int) -> str:
        """The VM size of a cluster.

        Raises:
            NotFoundError: It does not exist.
            SpecError: It never has so many nodes.
        """
        try:
            data = self._connection.request_json(self._connection.request("GET", f"computes/{id.name}"))
        except NotFoundError:
            hint = "List them with `%batchai cluster list`, or leave the cluster out."
            raise NotFoundError(f"there is no cluster {id.name}", code="ClusterNotFound", hint=hint) from None
        compute = (data.get("properties") or {}).get("properties") or {}
        most = int((compute.get("scaleSettings") or {}).get("maxNodeCount") or 0)
        if most and node_count > most:
            raise api_errors.too_many_nodes(node_count, id, most)
        return str(compute.get("vmSize") or "")

    def _gpu_count(self, size: str) -> int:
        """The GPUs of a VM size: of Batch AI's, or of those that the service lists.

        Raises:
            NotFoundError: There is no such size in the workspace's location.
        """
        try:
            return vm_sizes.lookup(size).gpus
        except ServiceError:
            pass
        if not self._gpus:
            listed = self._connection.items(self._connection.location_request("vmSizes"))
            self._gpus = {str(item.get("name")).lower(): int(item.get("gpus") or 0) for item in listed}
        if size.lower() not in self._gpus:
            text = f"there is no VM size {size} in {self._connection.workspace.location}"
            raise NotFoundError(text, code="SizeNotFound", hint="Choose one with --size.")
        return self._gpus[size.lower()]

    def _environment(self, spec: JobSpec) -> str:
        """The id of the environment of a job's image, which is created; or the name of a curated one."""
        container = spec.container_settings
        source = container.image_source_registry if container else None
        image = source.image if source else self._own.image
        if source and source.server_url and not is_address(image):
            image = f"{source.server_url.rstrip('/')}/{image}"
        if image.startswith("azureml:"):
            return image
        conda = _conda_file(spec)
        path = f"environments/{_ENVIRONMENT}/versions/{job_requests.environment_version(image, conda)}"
        if path not in self._environments:
            body = job_requests.environment_body(image, conda)
            self._connection.send(self._connection.request("PUT", path, body))
            self._environments.add(path)
        return f"{self._connection.address.path}/{path}"

    def _datastores(self, spec: JobSpec) -> dict[str, str]:
        """The datastores of a job's mounts, which are created: path below the mount root → name."""
        volumes = spec.mount_volumes
        if volumes is None:
            return {}
        found = {}
        mounts: list[AzureFileShare | AzureBlobFileSystem] = [*(volumes.azure_file_shares or ())]
        for mount in (*mounts, *(volumes.azure_blob_file_systems or ())):
            name = job_requests.datastore_name(mount)
            body = job_requests.datastore_body(mount)
            query = {"skipValidation": "true"}
            self._connection.send(self._connection.request("PUT", f"datastores/{name}", body, query))
            found[mount.relative_mount_path.strip("/")] = name
        return found

    def _files(self, spec: JobSpec) -> Mapping[str, bytes]:
        """The uploaded files that a job refers to below its mount root."""
        for path in _MOUNTED.findall(str(spec.to_wire())):
            _, _, rest = path.partition("/")
            folders = (str(rest), *map(str, PurePosixPath(rest).parents))
            found = next((self._uploads[folder] for folder in folders if folder in self._uploads), None)
            if found:
                return found
        return {}


def _common_folder(files: Mapping[str, bytes]) -> str:
    """The deepest folder that has all of these files."""
    parents = [PurePosixPath(name).parent.parts for name in files]
    common = [parts[0] for parts in zip(*parents, strict=False) if len(set(parts)) == 1]
    return "/".join(common)


def _conda_file(spec: JobSpec) -> str:
    """The contents of a job's conda file; empty without one."""
    path = spec.backend_options.get("conda")
    if not path:
        return ""
    try:
        return Path(path).expanduser().read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        raise UsageError(f"--conda {path} cannot be read: {error}") from None
