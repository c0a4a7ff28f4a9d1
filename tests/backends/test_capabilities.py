"""What a backend cannot do is refused by the field's name, in one place, before anything is sent."""

from dataclasses import replace

import pytest

from batchai_magics.backends.base import FACETS, Backend, Capabilities, check_supported
from batchai_magics.errors import CapabilityError
from batchai_magics.models.cluster_spec import ClusterPatch, ClusterSpec
from batchai_magics.models.file_server import FileServerSpec
from batchai_magics.models.job_spec import JobSpec
from batchai_magics.models.resources import ExperimentSpec, WorkspaceSpec
from tests.widgets.scripted_job import SPEC

ALL = Capabilities(name="bare")
VAULT = {"sourceVault": {"id": "v"}, "secretUrl": "https://v.vault.azure.net/secrets/a"}
UNMANAGED = {"unmanagedFileSystems": [{"mountCommand": "mount x", "relativeMountPath": "x"}]}
SERVERS = {
    "fileServers": [
        {"fileServer": {"id": str(SPEC["properties"]["cluster"]["id"])}, "relativeMountPath": "n"}
    ]
}
AUTO = {"autoScale": {"minimumNodeCount": 0, "maximumNodeCount": 1}}
TASK = {"commandLine": "true", "stdOutErrPathPrefix": "$AZ_BATCHAI_MOUNT_ROOT/x"}
LOGIN = {"adminUserName": "me", "adminUserPassword": "hush"}
REGISTRY = {"image": "x", "credentials": {"username": "me", "passwordSecretReference": VAULT}}


def job(**fields):
    return JobSpec.from_wire({"properties": {**SPEC["properties"], **fields}})


def cluster(**fields):
    return ClusterSpec.from_wire(
        {"properties": {"vmSize": "Standard_NC6", "userAccountSettings": LOGIN, **fields}}
    )


def file_server():
    disks = {"diskSizeInGB": 10, "diskCount": 2, "storageAccountType": "Standard_LRS"}
    login = {"userAccountSettings": LOGIN}
    spec = {"vmSize": "STANDARD_D1", "sshConfiguration": login, "dataDisks": disks}
    return FileServerSpec.from_wire({"properties": spec})


BEYOND = [
    ("containers", job(containerSettings={"imageSourceRegistry": {"image": "x"}}), "containerSettings"),
    ("setup_tasks", cluster(nodeSetup={"setupTask": TASK}), "nodeSetup.setupTask"),
    ("auto_scale", cluster(scaleSettings=AUTO), "scaleSettings.autoScale"),
    (
        "auto_scale",
        ClusterPatch.from_wire({"properties": {"scaleSettings": AUTO}}),
        "scaleSettings.autoScale",
    ),
    ("file_servers", file_server(), "a file server"),
    ("file_servers", cluster(nodeSetup={"mountVolumes": SERVERS}), "nodeSetup.mountVolumes.fileServers"),
    ("file_servers", job(mountVolumes=SERVERS), "mountVolumes.fileServers"),
    (
        "unmanaged_mounts",
        cluster(nodeSetup={"mountVolumes": UNMANAGED}),
        "nodeSetup.mountVolumes.unmanagedFileSystems",
    ),
    ("unmanaged_mounts", job(mountVolumes=UNMANAGED), "mountVolumes.unmanagedFileSystems"),
    ("key_vault", job(secrets=[{"name": "A", "valueSecretReference": VAULT}]), "valueSecretReference"),
    (
        "key_vault",
        job(containerSettings={"imageSourceRegistry": REGISTRY}),
        "imageSourceRegistry.credentials.passwordSecretReference",
    ),
]


@pytest.mark.parametrize(("capability", "spec", "field"), BEYOND)
def test_a_field_beyond_the_capabilities_is_named(capability, spec, field):
    check_supported(ALL, spec)
    with pytest.raises(CapabilityError, match="is not supported by the bare backend") as caught:
        check_supported(replace(ALL, **{capability: False}), spec)
    assert field in caught.value.message


@pytest.mark.parametrize(
    "spec",
    [
        job(),
        job(secrets=[]),
        job(secrets=[{"name": "A", "value": "1"}]),
        job(mountVolumes={"fileServers": []}),
        cluster(),
        WorkspaceSpec(),
        ExperimentSpec(),
    ],
)
def test_a_plain_description_is_never_beyond(spec):
    names = ("containers", "setup_tasks", "auto_scale", "file_servers", "unmanaged_mounts", "key_vault")
    check_supported(replace(ALL, **dict.fromkeys(names, False)), spec)


class Sending(Backend):
    """Notes what would be sent."""

    capabilities = replace(ALL, auto_scale=False)

    def __init__(self):
        self.sent = []

    def _create(self, id, spec, owner, records):
        self.sent.append(spec)

    def _update(self, id, patch):
        self.sent.append(patch)


def test_nothing_that_is_refused_is_sent():
    backend = Sending()
    for verb, description in (
        (backend.create, cluster(scaleSettings=AUTO)),
        (backend.update, ClusterPatch.from_wire({"properties": {"scaleSettings": AUTO}})),
    ):
        with pytest.raises(CapabilityError):
            verb(None, description)
    assert backend.sent == []
    backend.create(None, cluster())
    assert len(backend.sent) == 1


def test_a_missing_facet_is_refused_by_the_backends_name_and_its_own():
    for facet in FACETS:
        with pytest.raises(CapabilityError, match=f"the bare backend has no {facet.label}"):
            facet.of(Sending())
