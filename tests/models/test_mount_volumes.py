from batchai_magics.models.mount_volumes import (
    SHARES,
    AccountKey,
    MountVolumes,
    container,
    file_server,
    share,
    with_volumes,
)
from batchai_magics.models.resource_ids import Kind, ResourceId

SERVER = ResourceId("s", "g", "w", Kind.FILE_SERVER, "nfs")
ACCOUNT = AccountKey("acc", "k3y")


def test_volumes_of_every_kind_are_what_a_description_takes():
    volumes = {
        "azureFileShares": [share(ACCOUNT, "data", "afs")],
        "azureBlobFileSystems": [container(ACCOUNT, "images", "bfs")],
        "fileServers": [file_server(SERVER, "nfs")],
    }
    read = MountVolumes.from_wire(volumes)
    assert [mount.relative_mount_path for mount in read.all] == ["afs", "bfs", "nfs"]
    assert read.azure_file_shares[0].azure_file_url == "https://acc.file.core.windows.net/data"
    assert read.azure_blob_file_systems[0].credentials.account_key.get_secret_value() == "k3y"
    assert read.file_servers[0].file_server.id == str(SERVER)


def test_an_account_without_a_key_gives_none_away():
    assert "credentials" not in share(AccountKey("acc"), "data", "afs")


def test_more_volumes_come_after_those_that_are_there():
    first, second, third = ({"relativeMountPath": path} for path in ("a", "b", "c"))
    there = {SHARES: [first], "fileServers": None}
    joined = with_volumes(there, {SHARES: [second], "fileServers": [third]})
    assert joined == {SHARES: [first, second], "fileServers": [third]}
    assert there[SHARES] == [first]


def test_without_more_nothing_changes():
    assert with_volumes(None, {}) is None
    assert with_volumes(None, {SHARES: [1]}) == {SHARES: [1]}
