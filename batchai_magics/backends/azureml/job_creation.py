"""Creates jobs: checks them, stores their code and environment in the workspace, and creates them last."""

from __future__ import annotations

import hashlib
import io
import re
import zipfile
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import cache
from pathlib import Path, PurePosixPath
from urllib.parse import quote, urlsplit

from batchai_magics.backends.azure.arm_protocol import ArmRequest
from batchai_magics.backends.azureml import job_requests
from batchai_magics.backends.azureml.clusters import is_serverless
from batchai_magics.backends.azureml.connection import Connection
from batchai_magics.backends.azureml.job_names import SEGMENTS
from batchai_magics.backends.azureml.job_requests import DIGEST, JobAssets, is_address, run_plan
from batchai_magics.backends.azureml.jobs import AzureJob, Jobs
from batchai_magics.backends.azureml.quota import Quota, is_low_priority
from batchai_magics.backends.azureml.settings import SIZE, SPOT, AzureMLSettings
from batchai_magics.backends.base.capabilities import is_given
from batchai_magics.backends.node.node_programs import PACKAGE, program_files
from batchai_magics.config import Settings
from batchai_magics.errors import (
    CapabilityError,
    ConflictError,
    NotFoundError,
    ServiceError,
    UnreachableError,
    UsageError,
)
from batchai_magics.launch.job_bounds import JobBounds
from batchai_magics.models.job_spec import JobPriority, JobSpec
from batchai_magics.models.mount_volumes import AzureBlobFileSystem, AzureFileShare, EnvironmentVariable
from batchai_magics.models.resource_ids import ResourceId
from batchai_magics.models.resources import JobResource
from batchai_magics.models.secret_masking import is_secret_name, is_secret_text

_ENVIRONMENT = "CliV2AnonymousEnvironment"  # as the service's own client calls those without a name
_USER_SCOPE = "https://ml.azure.com/.default"
_MOUNTED = re.compile(r"\$\{?AZ_BATCHAI_(?:JOB_)?MOUNT_ROOT\}?/([^\s\"';]+)")
_FOLDER = "code"  # in the container of a snapshot
_NODE = "backends/azureml/node"
_TIME = (1980, 1, 1, 0, 0, 0)  # of files in an archive: the same contents make the same archive
_PARALLEL = 8  # uploads at the same time
_TEMPORARY = {"pendingUploadType": "TemporaryBlobReference"}
_OWN_MODES = "leave it out: the service mounts with modes of its own"
# Field below `properties` → what to do instead.
ALWAYS: Mapping[str, str] = {
    "containerSettings.imageSourceRegistry.credentials": (
        "attach the registry to the workspace, which then pulls the image with its own identity"
    ),
    "mountVolumes.azureFileShares[].fileMode": _OWN_MODES,
    "mountVolumes.azureFileShares[].directoryMode": _OWN_MODES,
    "mountVolumes.azureBlobFileSystems[].mountOptions": (
        "leave it out: the service mounts with options of its own"
    ),
}
ON_CLUSTERS: Mapping[str, str] = {
    "schedulingPriority": "leave it out, or the cluster: only jobs without a cluster have a priority",
    "batchaiSpot": "leave out --spot, or the cluster: a cluster's nodes are dedicated or not",
    "batchaiSize": "leave out --size, or the cluster: a cluster's nodes have its size",
}
SECRETS: Mapping[str, str] = {
    "secrets": (
        "everybody in the workspace can read variables: set azureml.visible_secrets to yes to accept that, "
        "or read a key vault in the job with its managed identity (azureml.identity)"
    ),
    "environmentVariables[].value": (
        "what looks like a secret could be read by everybody in the workspace: set azureml.visible_secrets "
        "to yes to accept that, or read a key vault in the job with its managed identity (azureml.identity)"
    ),
}
REQUIRED: Mapping[str, str] = {
    "mountVolumes.azureFileShares[].credentials.accountKey": (
        "give it: the service mounts file shares with the account's key alone, and blob containers without"
    ),
}


class JobCreation:
    """Creates jobs in a workspace."""

    def __init__(self, connection: Connection, jobs: Jobs, quota: Quota, settings: Settings) -> None:
        self._connection, self._jobs, self._quota = connection, jobs, quota
        self._azureml_settings: AzureMLSettings = connection.settings
        self._share_mount, self._bounds = settings.share_mount, JobBounds.of(settings)
        self._snapshots = CodeSnapshots(connection)
        self._uploads: dict[str, Mapping[str, bytes]] = {}  # folder on the default share → its files
        self._environments: set[str] = set()

    def keep(self, files: Mapping[str, bytes]) -> None:
        """Keeps files for the job that refers to their folder, with which they are sent as its code."""
        if files:
            # by the deepest folder that contains all of these files
            parents = [PurePosixPath(name).parent.parts for name in files]
            common = [parts[0] for parts in zip(*parents, strict=False) if len(set(parts)) == 1]
            self._uploads["/".join(common)] = files

    def check(self, spec: JobSpec) -> None:
        """Checks a job as far as possible without a request.

        Raises:
            CapabilityError: The service does not support a field; the message names the first one.
            SpecError: A variable or time limit is too long, or the processes do not spread evenly.
        """
        cluster = ResourceId.parse(spec.cluster.id)
        has_consent = self._azureml_settings.visible_secrets == "yes"
        refused = _refused(spec, is_serverless=is_serverless(cluster), has_consent=has_consent)
        for field, instead in refused:
            requirement = "is required" if field in REQUIRED else "is not supported"
            text = f"properties.{field} {requirement} by the azureml backend"
            hint = f"{instead[0].upper()}{instead[1:]}. Nothing was sent."
            raise CapabilityError(text, code="NotSupported", hint=hint)
        job_requests.check_variables(spec)
        job_requests.check_lifetime(spec, is_spot=job_requests.is_spot(spec))
        self._bounds.check(spec, gpus_per_node=1)
        job_requests.distribution(spec, run_plan(cluster, spec, gpus_per_node=1, segment="none"))

    def create(self, id: ResourceId, spec: JobSpec, records: Mapping[str, str]) -> JobResource:
        """Creates a job, or returns an identical one; until all is checked, requests only read.

        Raises:
            CapabilityError: The service does not support a field.
            ConflictError: A different job has this name, or its nodes exceed the quota.
            NotFoundError: Its cluster or VM size does not exist.
            SpecError: A value is impossible here.
        """
        self.check(spec)
        generation, existing = self._jobs.existing(id)
        if existing:
            return self._identical(id, spec, existing)
        cluster, size = self._quota.nodes_for(spec)
        self._bounds.check(spec, gpus_per_node=size.gpus)
        plan = run_plan(id, spec, gpus_per_node=size.gpus)
        compute = f"{self._connection.address.path}/computes/{cluster.id.name}"
        assets = JobAssets(
            code=self._snapshots.id_of(self._files(spec)),
            environment=self._environment(spec),
            compute="" if is_serverless(cluster.id) else compute,
            size=cluster.spec.vm_size,
            is_spot=is_low_priority(cluster),
            datastores={_path_of(mount): job_requests.datastore_name(mount) for mount in _mounts(spec)},
            share=self._share_mount,
        )
        body = job_requests.job_body(id, spec, plan, assets, self._azureml_settings, records)
        is_user = self._azureml_settings.identity.lower() == "user"
        headers = {"x-azureml-token": self._connection.token(_USER_SCOPE)} if is_user else {}
        self._store(spec, assets)
        request = self._connection.request("PUT", f"jobs/{self._jobs.new_run(id, generation)}", body)
        return self._identical(id, spec, self._put(id, replace(request, headers=headers)))

    def _store(self, spec: JobSpec, assets: JobAssets) -> None:
        """Stores the job's code, environment and datastores, unless they are in the workspace."""
        self._snapshots.store(self._files(spec))
        if not is_address(assets.environment) and assets.environment not in self._environments:
            body = job_requests.environment_body(self._image(spec), _conda_file(spec))
            path = assets.environment.removeprefix(f"{self._connection.address.path}/")
            self._connection.send(self._connection.request("PUT", path, body))
            self._environments.add(assets.environment)
        for mount in _mounts(spec):
            path = f"datastores/{assets.datastores[_path_of(mount)]}"
            body, query = job_requests.datastore_body(mount), {"skipValidation": "true"}
            self._connection.send(self._connection.request("PUT", path, body, query))

    def _put(self, id: ResourceId, request: ArmRequest) -> AzureJob:
        """Creates the job; if that is refused, returns the existing one.

        The response to an earlier attempt may have been lost, or another process may have been faster.
        """
        try:
            return self._jobs.parsed(id.workspace_id, self._connection.request_json(request))
        except ServiceError as error:
            existing = None if isinstance(error, UnreachableError) else self._jobs.existing(id)[1]
            if existing is None:
                raise
            return existing

    def _identical(self, id: ResourceId, spec: JobSpec, existing: AzureJob) -> JobResource:
        """The job if it was created with this description; else raises a ConflictError."""
        if existing.own_properties.get(DIGEST) != job_requests.digest(spec):
            text = f"a different job called {id.name} exists in the experiment {id.experiment}"
            raise ConflictError(text, code="JobAlreadyExists", hint="Choose another name.")
        return existing

    def _image(self, spec: JobSpec) -> str:
        """The image or environment of a job; by default, the settings name it."""
        container = spec.container_settings
        source = container.image_source_registry if container else None
        image = source.image if source else self._azureml_settings.image
        if source and source.server_url and not is_address(image):
            return f"{source.server_url.rstrip('/')}/{image}"
        return image

    def _environment(self, spec: JobSpec) -> str:
        """The id of the environment of a job's image, or the name of a curated one."""
        image = self._image(spec)
        if is_address(image):
            return image
        version = job_requests.environment_version(image, _conda_file(spec))
        return f"{self._connection.address.path}/environments/{_ENVIRONMENT}/versions/{version}"

    def _files(self, spec: JobSpec) -> Mapping[str, bytes]:
        """The uploaded files that a job refers to below its mount root."""
        for path in _MOUNTED.findall(str(spec.to_wire())):
            _, _, path_on_share = path.partition("/")
            folders = (str(path_on_share), *map(str, PurePosixPath(path_on_share).parents))
            uploaded = next((self._uploads[folder] for folder in folders if folder in self._uploads), None)
            if uploaded:
                return uploaded
        return {}


def _mounts(spec: JobSpec) -> list[AzureFileShare | AzureBlobFileSystem]:
    volumes = spec.mount_volumes
    if volumes is None:
        return []
    return [*(volumes.azure_file_shares or ()), *(volumes.azure_blob_file_systems or ())]


def _path_of(mount: AzureFileShare | AzureBlobFileSystem) -> str:
    """The path of a mount below the mount root."""
    return mount.relative_mount_path.strip("/")


def _conda_file(spec: JobSpec) -> str:
    """The contents of a job's conda file; empty without one."""
    path = spec.backend_options.get("conda")
    if not path:
        return ""
    try:
        return Path(path).expanduser().read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        raise UsageError(f"--conda {path} cannot be read: {error}") from None


class CodeSnapshots:
    """The code versions of a workspace, named by their contents. Thread-safe."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._stored: set[str] = set()  # paths of versions that are known to exist

    def id_of(self, files: Mapping[str, bytes]) -> str:
        """The id of the code with the programs of nodes and these files; sends nothing."""
        return f"{self._connection.address.path}/{_path(_digest(_contents(files)))}"

    def store(self, files: Mapping[str, bytes]) -> None:
        """Uploads the code with the programs of nodes and these files, unless it exists."""
        contents = _contents(files)
        digest = _digest(contents)
        path = _path(digest)
        if path not in self._stored and not self._exists(path):
            # uploads files to a new container, and registers it last: until then, no version exists
            request = self._connection.request("POST", f"{path}/startPendingUpload", _TEMPORARY)
            upload = self._connection.request_json(request).get("blobReferenceForConsumption") or {}
            address = str((upload.get("credential") or {}).get("sasUri") or "")
            if not address.startswith("https://"):
                raise ServiceError("the service gives no address to upload code to", code="NoUploadAddress")
            with ThreadPoolExecutor(_PARALLEL) as pool:
                for _ in pool.map(lambda item: self._write(address, *item), contents.items()):
                    continue
            parts = urlsplit(address)
            uri = f"https://{parts.netloc}{parts.path.rstrip('/')}/{_FOLDER}"
            hashes = {"hash_sha256": digest, "hash_version": "202208"}
            body = {"properties": {"codeUri": uri, "isAnonymous": True, "properties": hashes}}
            self._connection.send(self._connection.request("PUT", path, body))
        self._stored.add(path)

    def _exists(self, path: str) -> bool:
        try:
            self._connection.send(self._connection.request("GET", path))
        except NotFoundError:
            return False
        return True

    def _write(self, address: str, name: str, data: bytes) -> None:
        parts = urlsplit(address)
        path = f"{parts.path.rstrip('/')}/{_FOLDER}/{quote(name)}"
        self._connection.write_blob(parts._replace(path=path).geturl(), data)


def _contents(files: Mapping[str, bytes]) -> Mapping[str, bytes]:
    return {**_programs(), **{f"{SEGMENTS}/files/{name}": data for name, data in files.items()}}


def _path(digest: str) -> str:
    return f"codes/{SEGMENTS}-{digest[:32]}/versions/1"


def _digest(contents: Mapping[str, bytes]) -> str:
    digest = hashlib.sha256()
    for name, data in sorted(contents.items()):
        digest.update(f"{name}\0{len(data)}\0".encode() + data)
    return digest.hexdigest()


@cache
def _programs() -> Mapping[str, bytes]:
    """The programs of nodes: the one that the service starts, and an archive of the others."""
    start = (PACKAGE / _NODE / "start.py").read_bytes()
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in program_files(_NODE):
            info = zipfile.ZipInfo(f"{PACKAGE.name}/{name}", _TIME)
            info.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(info, (PACKAGE / name).read_bytes())
        archive.writestr(zipfile.ZipInfo(f"{PACKAGE.name}/__init__.py", _TIME), b"")
    return {f"{SEGMENTS}/start.py": start, f"{SEGMENTS}/programs.zip": buffer.getvalue()}


def _refused(spec: JobSpec, *, is_serverless: bool, has_consent: bool) -> Iterator[tuple[str, str]]:
    """The fields of a job that are refused, with what to do instead."""
    properties = spec.to_wire(secrets=True)["properties"]
    yield from (item for item in ALWAYS.items() if is_given(properties, item[0]))
    has_secret = any(map(_looks_secret, spec.environment_variables or ()))
    present = {"secrets": spec.secrets, "environmentVariables[].value": has_secret}
    if not has_consent:
        yield from ((field, instead) for field, instead in SECRETS.items() if present[field])
    shares = (spec.mount_volumes and spec.mount_volumes.azure_file_shares) or ()
    if any(not share.credentials.account_key for share in shares):
        yield from REQUIRED.items()
    of_serverless = {
        "schedulingPriority": spec.scheduling_priority is not JobPriority.NORMAL,
        "batchaiSpot": SPOT.name in spec.backend_options,
        "batchaiSize": SIZE.name in spec.backend_options,
    }
    if not is_serverless:
        yield from ((field, instead) for field, instead in ON_CLUSTERS.items() if of_serverless[field])


def _looks_secret(variable: EnvironmentVariable) -> bool:
    """Whether a variable holds a secret, by its name or its form; a number is not a secret."""
    has_secret_name = is_secret_name(variable.name) and variable.value and not variable.value.isdecimal()
    return bool(has_secret_name) or is_secret_text(variable.value)
