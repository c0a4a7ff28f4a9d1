"""A workspace as Azure Resource Manager shows it: datastores, codes and environments, quota and VM sizes."""

from __future__ import annotations

import datetime
import threading
from typing import Any

from tests.azureml import blobs
from tests.azureml.blobs import Blobs
from tests.azureml.http_messages import RefusedError, Request, Response, Routes, json_response

SUBSCRIPTION, GROUP, WORKSPACE, LOCATION = "00000000-0000-0000-0000-000000000001", "team", "space", "eastus"
PROVIDER = f"/subscriptions/{SUBSCRIPTION}/resourceGroups/{GROUP}/providers/Microsoft.MachineLearningServices"
ROOT = f"{PROVIDER}/workspaces/{WORKSPACE}"
LOCATIONS = f"/subscriptions/{SUBSCRIPTION}/providers/Microsoft.MachineLearningServices/locations"
PLACE = f"{LOCATIONS}/{LOCATION}"
API = f"https://{LOCATION}.api.azureml.ms"
ARTIFACTS = "azureml"  # the container of logs and outputs
DATASTORES = {"workspaceblobstore": "azureml-blobstore-standin", "workspaceartifactstore": ARTIFACTS}


def now() -> str:
    """The time as the service writes it."""
    return datetime.datetime.now(datetime.timezone.utc).isoformat()


def system_data(created: str, modified: str = "") -> dict[str, str]:
    """Who created and modified a resource, and when."""
    who = {"createdBy": "Ann", "createdByType": "User", "lastModifiedBy": "Ann", "lastModifiedByType": "User"}
    return {**who, "createdAt": created, "lastModifiedAt": modified or created}


CREATED = system_data(now())  # the workspace and what it came with

# What is offered today: name: family, vCPUs, GPUs, memory in GB, dollars per hour: dedicated, low priority
SIZES: dict[str, tuple[str, int, int, float, float, float]] = {
    "Standard_DS3_v2": ("standardDSv2Family", 4, 0, 14, 0.229, 0.046),
    "Standard_D2_v2": ("standardDv2Family", 2, 0, 7, 0.146, 0.029),
    "Standard_D1": ("standardDFamily", 1, 0, 3.5, 0.077, 0.015),
    "Standard_D3": ("standardDFamily", 4, 0, 14, 0.308, 0.062),
    "Standard_NC4as_T4_v3": ("Standard NCASv3_T4 Family", 4, 1, 28, 0.526, 0.105),
    "Standard_NC64as_T4_v3": ("Standard NCASv3_T4 Family", 64, 4, 440, 4.352, 0.87),
    "Standard_NC24ads_A100_v4": ("StandardNCADSA100v4Family", 24, 1, 220, 3.673, 0.735),
    "Standard_ND96isr_H100_v5": ("standardNDSH100v5Family", 96, 8, 1900, 98.32, 19.664),
}


LOW_PRIORITY = "lowPriority"  # the name of the one quota of all families' low-priority cores


class Workspace:
    """What there is besides clusters and jobs. `cores` is the quota by family."""

    def __init__(self, storage: Blobs) -> None:
        self.storage = storage
        self.is_identity_based = False
        self.cores = {**{family: 100 for family, *_ in SIZES.values()}, LOW_PRIORITY: 100}
        self.cores_in_use: dict[str, int] = {}
        self.codes: dict[tuple[str, str], dict[str, Any]] = {}
        self.environments: dict[tuple[str, str], dict[str, Any]] = {}
        self.datastores: dict[str, dict[str, Any]] = {}
        self._created: dict[tuple[str, ...], str] = {}  # kind and name of an asset → when
        self._lock = threading.RLock()
        self.routes = Routes()
        for method, path, handler in (
            ("GET", ROOT, self._show),
            ("GET", f"{LOCATIONS}/{{location}}/usages", self._usages),
            ("GET", f"{LOCATIONS}/{{location}}/vmSizes", self._sizes),
            ("GET", f"{ROOT}/datastores", self._datastores),
            ("GET", f"{ROOT}/datastores/{{name}}", self._datastore),
            ("PUT", f"{ROOT}/datastores/{{name}}", self._put_datastore),
            ("POST", f"{ROOT}/datastores/{{name}}/listSecrets", self._secrets),
            ("GET", f"{ROOT}/codes/{{name}}/versions", self._code_versions),
            ("POST", f"{ROOT}/codes/{{name}}/versions/{{version}}/startPendingUpload", self._start_upload),
            ("GET", f"{ROOT}/environments/{{name}}", self._environment_container),
        ):
            self.routes.add(method, path, handler)
        for kind, assets in (("codes", self.codes), ("environments", self.environments)):
            for method in ("GET", "PUT"):
                self.routes.add(
                    method, f"{ROOT}/{kind}/{{name}}/versions/{{version}}", self._asset(kind, assets)
                )
        discovery = Routes()
        discovery.add("GET", "/discovery", self._discover)
        self.discovery = discovery

    def code_folder(self, code_id: str) -> tuple[str, str]:
        """The container and prefix of a snapshot."""
        *_, name, _, version = code_id.split("/")
        with self._lock:
            uri = self.codes[name, version]["codeUri"]
        container, _, prefix = uri.partition(".net/")[2].partition("/")
        return container, prefix

    def container_of(self, datastore: str) -> str:
        """The container of a datastore; that of a file share stands for its files."""
        own = self.datastores.get(datastore, {})
        return DATASTORES.get(datastore) or str(own.get("containerName") or f"share-{own['fileShareName']}")

    def _show(self, request: Request) -> Response:
        return json_response(
            {
                "id": ROOT,
                "name": WORKSPACE,
                "type": "Microsoft.MachineLearningServices/workspaces",
                "location": LOCATION,
                "identity": {"type": "SystemAssigned", "principalId": "principal", "tenantId": "tenant"},
                "properties": {
                    "discoveryUrl": f"{API}/discovery",
                    "workspaceId": "99999999-0000-0000-0000-000000000001",
                    "storageAccount": _resource("Microsoft.Storage/storageAccounts", blobs.ACCOUNT),
                    "keyVault": _resource("Microsoft.KeyVault/vaults", "vault"),
                    "mlFlowTrackingUri": f"azureml://{LOCATION}.api.azureml.ms/mlflow/v1.0{ROOT}",
                    "provisioningState": "Succeeded",
                    "publicNetworkAccess": "Enabled",
                },
                "systemData": CREATED,
            }
        )

    def _discover(self, request: Request) -> Response:
        names = (
            "api",
            "experimentation",
            "history",
            "hyperdrive",
            "labeling",
            "modelmanagement",
            "pipelines",
        )
        return json_response({**dict.fromkeys(names, API), "studio": "https://ml.azure.com"})

    def check_cores(self, size: str, count: int, *, is_spot: bool) -> None:
        """Refuses nodes for which the quota is too small, whatever ends; the others wait."""
        quota, cores = quota_of(size, is_spot=is_spot)
        limit = self.cores[quota]
        if count * cores > limit:
            message = (
                f"{count} instances of {size} need {count * cores} cores of {quota}, more than the quota of "
                f"{limit}. Decrease the number of instances, request a quota increase for this VM family, or "
                "choose another VM size."
            )
            raise RefusedError(400, "UserError", message)

    def take_cores(self, size: str, count: int, *, is_spot: bool) -> bool:
        """Takes the cores of nodes from the quota, if so many are left."""
        quota, cores = quota_of(size, is_spot=is_spot)
        with self._lock:
            used = self.cores_in_use.get(quota, 0) + count * cores
            if used > self.cores[quota]:
                return False
            self.cores_in_use[quota] = used
        return True

    def return_cores(self, size: str, count: int, *, is_spot: bool) -> None:
        """Gives the cores of nodes back."""
        quota, cores = quota_of(size, is_spot=is_spot)
        with self._lock:
            self.cores_in_use[quota] -= count * cores

    def _usages(self, request: Request, location: str) -> Response:
        _check_location(location)
        items = [
            {
                "id": f"{PLACE}/usages/{family}",
                "type": f"Microsoft.MachineLearningServices/{_usage_kind(family)}/usages",
                "unit": "Count",
                "currentValue": self.cores_in_use.get(family, 0),
                "limit": limit,
                "name": {"value": family, "localizedValue": f"{family} Cluster Dedicated vCPUs"},
            }
            for family, limit in self.cores.items()
        ]
        return json_response({"value": items})

    def _sizes(self, request: Request, location: str) -> Response:
        _check_location(location)
        return json_response({"value": [_size(name) for name in SIZES]})

    # datastores

    def _datastores(self, request: Request) -> Response:
        return json_response({"value": [self._datastore_body(name) for name in DATASTORES]})

    def _datastore(self, request: Request, name: str) -> Response:
        return json_response(self._datastore_body(name))

    def _put_datastore(self, request: Request, name: str) -> Response:
        """Keeps a datastore, and shows its credentials no more."""
        properties = request.json()["properties"]
        kind = (properties.get("credentials") or {}).get("credentialsType")
        with self._lock:
            self.datastores[name] = {**properties, "credentials": {"credentialsType": kind}}
            self._created.setdefault(("datastores", name), now())
        return json_response(self._datastore_body(name), 201)

    def _datastore_body(self, name: str) -> dict[str, Any]:
        if own := self.datastores.get(name):
            made = system_data(self._created["datastores", name])
            return {"id": f"{ROOT}/datastores/{name}", "name": name, "properties": own, "systemData": made}
        if name not in DATASTORES:
            raise RefusedError(404, "UserError", f"Could not find datastore with name: {name}")
        kind = "None" if self.is_identity_based else "AccountKey"
        properties = {
            "datastoreType": "AzureBlob",
            "accountName": blobs.ACCOUNT,
            "containerName": DATASTORES[name],
            "endpoint": "core.windows.net",
            "protocol": "https",
            "isDefault": name == "workspaceblobstore",
            "credentials": {"credentialsType": kind},
            "serviceDataAccessAuthIdentity": "None",
        }
        kind = "Microsoft.MachineLearningServices/workspaces/datastores"
        body = {"id": f"{ROOT}/datastores/{name}", "name": name, "type": kind, "properties": properties}
        return {**body, "systemData": CREATED}

    def _secrets(self, request: Request, name: str) -> Response:
        kind = self._datastore_body(name)["properties"]["credentials"]["credentialsType"]
        if kind == "None":
            message = f"No secrets for credentials of type None of datastore {name}."
            raise RefusedError(400, "UserError", message)
        return json_response({"secretsType": "AccountKey", "key": blobs.KEY})

    # codes and environments

    def _asset(self, kind: str, assets: dict[tuple[str, str], dict[str, Any]]) -> Any:
        def show_or_make(request: Request, name: str, version: str) -> Response:
            with self._lock:
                is_new = (name, version) not in assets
                if request.method == "PUT" and (is_new or kind == "environments"):
                    assets[name, version] = request.json()["properties"]
                    self._created.setdefault((kind, name, version), now())
                elif is_new:
                    raise RefusedError(404, "UserError", f"{kind}/{name}/versions/{version} is not there")
                created = request.method == "PUT" and is_new
                return json_response(self._body(kind, name, version), 201 if created else 200)

        return show_or_make

    def _body(self, kind: str, name: str, version: str) -> dict[str, Any]:
        properties = getattr(self, kind)[name, version]
        made = system_data(self._created[kind, name, version])
        base = {"id": f"{ROOT}/{kind}/{name}/versions/{version}", "name": version, "systemData": made}
        kind = f"Microsoft.MachineLearningServices/workspaces/{kind}/versions"
        return {**base, "type": kind, "properties": {**properties, "provisioningState": "Succeeded"}}

    def _code_versions(self, request: Request, name: str) -> Response:
        with self._lock:
            found = [self._body("codes", *key) for key in self.codes if key[0] == name]
        return json_response({"value": found})

    def _start_upload(self, request: Request, name: str, version: str) -> Response:
        container = f"code-{name}"
        url = self.storage.url(container, permissions="rcwl")
        place = {
            "blobUri": url.partition("?")[0],
            "storageAccountArmId": _resource("Microsoft.Storage/storageAccounts", blobs.ACCOUNT),
            "credential": {"credentialType": "SAS", "sasUri": url},
        }
        kind = request.json().get("pendingUploadType", "TemporaryBlobReference")
        return json_response(
            {"blobReferenceForConsumption": place, "pendingUploadId": name, "pendingUploadType": kind}
        )

    def _environment_container(self, request: Request, name: str) -> Response:
        with self._lock:
            versions = [version for own, version in self.environments if own == name]
        if not versions:
            raise RefusedError(404, "UserError", f"environment {name} is not there")
        properties = {"latestVersion": versions[-1], "nextVersion": None, "isArchived": False}
        base = {"id": f"{ROOT}/environments/{name}", "name": name, "systemData": CREATED}
        kind = "Microsoft.MachineLearningServices/workspaces/environments"
        return json_response({**base, "type": kind, "properties": properties})


def _resource(kind: str, name: str) -> str:
    return f"/subscriptions/{SUBSCRIPTION}/resourceGroups/{GROUP}/providers/{kind}/{name}"


def find_size(name: str) -> str:
    """The name of a VM size as the service writes it."""
    known = {size.lower(): size for size in SIZES}
    if name.lower() not in known:
        message = f"The specified vm size {name} is not supported in {LOCATION}."
        raise RefusedError(400, "BadRequest", message)
    return known[name.lower()]


def quota_of(size: str, *, is_spot: bool) -> tuple[str, int]:
    """The quota that a node of a size counts for, and its cores."""
    family, cores, *_ = SIZES[find_size(size)]
    return (LOW_PRIORITY if is_spot else family), cores


def _usage_kind(name: str) -> str:
    return "lowPriorityCores" if name == LOW_PRIORITY else "vmFamily"


def _check_location(name: str) -> None:
    if name.lower() != LOCATION:
        message = f"No registered resource provider found for location '{name}'."
        raise RefusedError(400, "NoRegisteredProviderFound", message)


def _size(name: str) -> dict[str, Any]:
    family, cores, gpus, memory, dedicated, low = SIZES[name]
    prices = [
        {"retailPrice": price, "osType": "Linux", "vmTier": tier}
        for price, tier in ((dedicated, "Standard"), (low, "LowPriority"), (low, "Spot"))
    ]
    return {
        "name": name,
        "family": family,
        "vCPUs": cores,
        "gpus": gpus,
        "osVhdSizeMB": 1047552,
        "maxResourceVolumeMB": 102400,
        "memoryGB": memory,
        "lowPriorityCapable": True,
        "premiumIO": False,
        "supportedComputeTypes": ["AmlCompute", "ComputeInstance"],
        "estimatedVMPrices": {"billingCurrency": "USD", "unitOfMeasure": "OneHour", "values": prices},
    }
