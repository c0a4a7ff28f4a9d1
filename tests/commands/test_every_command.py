"""Every command of `az batchai`, with every option that it had: each is known, and each does its work."""

import json

import pytest

from batchai_magics.commands.catalog import COMMANDS
from batchai_magics.commands.options import options_of
from batchai_magics.commands.parse import parse
from tests.commands.job_json import write_job

_WS = "--resource-group -g --workspace -w"
_EXP = f"{_WS} --experiment -e"
_JOB = f"{_EXP} --name -n"
_OF_JOB = f"{_EXP} --job -j"
_OF_CLUSTER = f"{_WS} --cluster -c"
_END = "--ids --no-wait --yes -y"
_MOUNT = (
    "--storage-account-name --storage-account-key --afs-name --afs-mount-path --bfs-name --bfs-mount-path "
    "--nfs --nfs-mount-path"
)
_ADMIN = "--user-name -u --ssh-key -k --generate-ssh-keys --password -p"
_EXEC = "--exec --node-id -n --address -L --password -p --ssh-private-key -k"
_GLOBAL = "--debug --verbose --help -h --output -o --query --subscription"

OPTIONS = {
    "workspace create": "--resource-group -g --workspace -n --location -l",
    "workspace show": "--resource-group -g --workspace -n --ids",
    "workspace list": "--resource-group -g",
    "workspace delete": f"--resource-group -g --workspace -n {_END}",
    "cluster create": f"{_WS} --name -n --config-file -f {_ADMIN} --image -i --custom-image --vm-size -s "
    f"--vm-priority --target -t --min --max --use-auto-storage {_MOUNT} --setup-task --setup-task-output "
    "--subnet",
    "cluster show": f"{_WS} --name -n --ids",
    "cluster list": _WS,
    "cluster delete": f"{_WS} --name -n {_END}",
    "cluster resize": f"{_WS} --name -n --ids --target -t",
    "cluster auto-scale": f"{_WS} --name -n --ids --min --max",
    "cluster node list": _OF_CLUSTER,
    "cluster node exec": f"{_OF_CLUSTER} {_EXEC}",
    "cluster file list": f"{_OF_CLUSTER} --path -p --expiry",
    "experiment create": f"{_WS} --name -n",
    "experiment show": f"{_WS} --name -n --ids",
    "experiment list": _WS,
    "experiment delete": f"{_WS} --name -n {_END}",
    "job create": f"{_JOB} --config-file -f --cluster -c {_MOUNT}",
    "job show": f"{_JOB} --ids",
    "job list": _EXP,
    "job delete": f"{_JOB} {_END}",
    "job terminate": f"{_JOB} {_END}",
    "job wait": f"{_JOB} --ids --interval",
    "job file list": f"{_OF_JOB} --output-directory-id -d --path -p --expiry",
    "job file stream": f"{_OF_JOB} --file-name -f --output-directory-id -d --path -p",
    "job node list": _OF_JOB,
    "job node exec": f"{_OF_JOB} {_EXEC}",
    "file-server create": f"{_WS} --name -n --vm-size -s --config-file -f --disk-count --disk-size "
    f"--caching-type --storage-sku {_ADMIN} --subnet --no-wait",
    "file-server show": f"{_WS} --name -n --ids",
    "file-server list": _WS,
    "file-server delete": f"{_WS} --name -n {_END}",
    "list-usages": "--location -l",
}
KEY = "ssh-rsa AAAA me@here"
SUBNET = "/subscriptions/0/resourceGroups/g/providers/Microsoft.Network/virtualNetworks/v/subnets/s"
IMAGE = "/subscriptions/0/resourceGroups/g/providers/Microsoft.Compute/images/mine"


def test_the_table_has_all_commands():
    assert len(OPTIONS) == 32
    assert set(OPTIONS) <= {command.words for command in COMMANDS}


@pytest.mark.parametrize("words", OPTIONS)
def test_a_command_knows_every_option(words):
    command = next(command for command in COMMANDS if command.words == words)
    known = {flag for option in options_of(command) for flag in option.flags}
    assert not set(f"{OPTIONS[words]} {_GLOBAL}".split()) - known


@pytest.mark.parametrize("words", OPTIONS)
def test_every_option_is_in_the_help(words):
    text = parse([*words.split(), "-h"])
    assert all(flag in text for flag in OPTIONS[words].split())


@pytest.mark.parametrize("noun", ["workspace", "experiment"])
def test_workspaces_and_experiments(do, noun):
    do("workspace create -g g -n w -l eastus")
    place = "-g g -w w" if noun == "experiment" else "-g g"
    made = do(f"{noun} create {place} -n one").value
    assert do(f"{noun} show {place} -n one").value == made
    assert do(f"{noun} show --ids {made.id}").value == made
    assert "one" in [found.id.name for found in do(f"{noun} list {place}")]
    do(f"{noun} delete {place} -n one --no-wait -y")
    assert "one" not in [found.id.name for found in do(f"{noun} list {place}")]


def test_a_workspace_is_where_its_group_is(do):
    do("group create -n g -l westus2")
    assert do("workspace create -g g -n w").data["location"] == "westus2"
    assert [found.id.name for found in do("workspace list")] == ["w"]
    assert len(do("workspace list -g other")) == 0


def test_a_cluster_with_all_that_it_can_have(do):
    do("storage account create -n acc -g g")
    do("file-server create -n srv -s Standard_D2 --disk-count 2 --disk-size 10 --storage-sku Premium_LRS")
    data = do(
        f"cluster create -n full -u me -k '{KEY}' -p geheim -i UbuntuDSVM --custom-image {IMAGE} "
        f"-s standard_d2 --vm-priority lowpriority -t 1 --min 0 --max 2 --subnet {SUBNET} "
        "--storage-account-name acc --afs-name logs --bfs-name data --bfs-mount-path blobs --nfs srv "
        "--setup-task 'echo hi' --setup-task-output '$AZ_BATCHAI_MOUNT_ROOT/afs'"
    ).data
    scale = {"initialNodeCount": 1, "maximumNodeCount": 2, "minimumNodeCount": 0}
    assert data["scaleSettings"]["autoScale"] == scale
    assert data["userAccountSettings"]["adminUserSshPublicKey"] == KEY
    assert data["vmSize"] == "standard_d2"
    image = data["virtualMachineConfiguration"]["imageReference"]
    assert (image["sku"], image["virtualMachineImageId"]) == ("linuxdsvmubuntu", IMAGE)
    volumes = data["nodeSetup"]["mountVolumes"]
    kinds = ("azureFileShares", "azureBlobFileSystems", "fileServers")
    assert [volumes[kind][0]["relativeMountPath"] for kind in kinds] == ["afs", "blobs", "nfs"]
    assert volumes["fileServers"][0]["mountOptions"] == "rw"
    assert data["nodeSetup"]["setupTask"]["commandLine"] == "echo hi"
    assert data["subnet"]["id"] == SUBNET
    assert "geheim" not in json.dumps(data)


def test_auto_storage_is_made_once(do):
    made = do("cluster create -n one -s Standard_D2 -t 0 --use-auto-storage")
    (name,) = do("storage account list -g batchaiautostorage --query [].name").data
    assert made.notes == (
        "Creating batchaiautostorage resource group for auto-storage account",
        f"Created auto storage account {name}",
    )
    mounts = made.data["nodeSetup"]["mountVolumes"]
    assert mounts["azureFileShares"][0]["azureFileUrl"].startswith(f"https://{name}.file.")
    assert mounts["azureBlobFileSystems"][0]["relativeMountPath"] == "autobfs"
    again = do("cluster create -n two -s Standard_D2 -t 0 --use-auto-storage")
    assert again.notes == (
        "BatchAI will use existing batchaiautostorage resource group for auto-storage account",
        f"Using existing {name} storage account as an auto-storage account",
    )


def test_a_refused_cluster_makes_no_auto_storage(do):
    with pytest.raises(Exception, match="Please provide VM size"):
        do("cluster create -n one -t 0 --use-auto-storage")
    assert len(do("storage account list")) == 0


def test_a_file_server_has_the_columns_of_az(do):
    line = "-s Standard_D2 --disk-count 2 --disk-size 10 --storage-sku Premium_LRS --caching-type readonly"
    made = do(f"file-server create -n srv {line} --no-wait")
    assert "|".join(made.table.titles) == "Name|Resource Group|Size|Disks|Public IP|Internal IP|Mount Point"
    assert made.table.rows[0][:4] == ("srv", "batchai", "Standard_D2", "2 x 10 Gb")
    assert do("file-server list").table == do("file-server show -n srv").table == made.table
    assert made.data["dataDisks"]["cachingType"] == "readonly"
    assert made.data["mountSettings"]["mountPoint"] == "/data"
    do(f"file-server delete --ids {made.data['id']} -y")
    assert len(do("file-server list")) == 0


def test_a_file_server_may_be_described_in_a_file(do, tmp_path):
    disks = {"diskCount": 1, "diskSizeInGB": 5, "storageAccountType": "Standard_LRS"}
    account = {"userAccountSettings": {"adminUserName": "of-file"}}
    properties = {"vmSize": "Standard_D3", "dataDisks": disks, "sshConfiguration": account}
    (tmp_path / "server.json").write_text(json.dumps({"location": "eastus", "properties": properties}))
    made = do(f"file-server create -n srv -f {tmp_path}/server.json --disk-size 7")
    assert made.table.rows[0][2:4] == ("Standard_D3", "1 x 7 Gb")
    assert made.data["sshConfiguration"]["userAccountSettings"]["adminUserName"] == "of-file"


def test_usages_have_the_columns_of_az(do):
    do("cluster create -n one -s Standard_D2 -t 2")
    listed = do("list-usages -l eastus")
    assert listed.table.titles == ("Value", "Usage", "Limit")
    assert listed.table.rows[0] == ("Clusters", 1, 20)
    assert ("Standard D Family Cluster Dedicated vCPUs", 4, 1000) in listed.table.rows
    assert ("Standard NC Family Cluster Dedicated vCPUs", "0", 1000) in listed.table.rows
    assert listed.data[0]["name"] == {"localizedValue": "Clusters", "value": "Clusters"}


def test_nodes_have_the_columns_of_az(do):
    do("cluster create -n one -s Standard_D2 -t 2")
    listed = do("cluster node list -c one")
    assert listed.table.titles == ("ID", "IP", "SSH Port")
    assert len(listed) == 2
    assert list(listed.data[0]) == ["ipAddress", "nodeId", "port"]


@pytest.mark.slow
def test_a_job_with_mounts_of_its_own(do, tmp_path):
    do("cluster create -n default -s Standard_D2 -t 1")
    do("storage account create -n acc -g g")
    do("file-server create -n srv -s Standard_D2 --disk-count 1 --disk-size 1 --storage-sku Standard_LRS")
    file = write_job(tmp_path, "cd $AZ_BATCHAI_JOB_MOUNT_ROOT && ls && touch afs/a bfs/b nfs/c")
    mounts = "--storage-account-name acc --afs-name s-one --bfs-name c-one --nfs srv"
    job = do(f"job create -n hello -f {file} {mounts}").value.wait(60)
    assert job.exit_code == 0
    assert {"afs", "bfs", "nfs"} <= set(job.log().split())
    assert [item["name"] for item in do("storage file list -s s-one --account-name acc").data] == ["a"]
    assert do("storage blob list -c c-one --account-name acc --query [].name").data == ["b"]


@pytest.mark.slow
def test_placeholders_are_filled_from_the_environment(do, tmp_path, monkeypatch):
    do("cluster create -n default -s Standard_D2 -t 1")
    monkeypatch.setenv("AZURE_BATCHAI_STORAGE_ACCOUNT", "acc")
    monkeypatch.setenv("AZURE_BATCHAI_STORAGE_KEY", "a2V5")
    share = {
        "azureFileUrl": "https://<AZURE_BATCHAI_STORAGE_ACCOUNT>.file.core.windows.net/logs",
        "accountName": "<AZURE_BATCHAI_STORAGE_ACCOUNT>",
        "credentials": {"accountKey": "<AZURE_BATCHAI_STORAGE_KEY>"},
        "relativeMountPath": "afs",
    }
    job = json.loads(write_job(tmp_path, "true").read_text())
    job["properties"]["mountVolumes"]["azureFileShares"].append(share)
    (tmp_path / "job.json").write_text(json.dumps(job))
    made = do(f"job create -n hello -f {tmp_path}/job.json").value.wait(60)
    found = made.show().spec.mount_volumes.azure_file_shares[1]
    assert (found.account_name, found.azure_file_url) == ("acc", "https://acc.file.core.windows.net/logs")
