"""What the commands of `az batchai` do with their options."""

import json

import pytest

from batchai_magics.commands.output.command_progress import CommandExit, LogOutput
from tests.commands.job_json import write_job
from tests.patience import PATIENCE_S

KEY = "ssh-rsa AAAA me@here"
SUBNET = "/subscriptions/0/resourceGroups/g/providers/Microsoft.Network/virtualNetworks/v/subnets/s"
IMAGE = "/subscriptions/0/resourceGroups/g/providers/Microsoft.Compute/images/mine"


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


@pytest.mark.parametrize("noun", ["workspace", "experiment", "cluster", "file-server"])
def test_several_things_are_ended_by_their_ids(do, noun):
    rest = {
        "cluster": "-s Standard_D2 -t 0",
        "file-server": "-s Standard_D2 --disk-count 1 --disk-size 1 --storage-sku Standard_LRS",
    }.get(noun, "")
    ids = [do(f"{noun} create -n {name} {rest}").data["id"] for name in ("one", "two", "three")]
    shown = do(f"{noun} show --ids {ids[0]} {ids[2]} --query [].name").data
    assert shown == ["one", "three"]
    assert do(f"{noun} delete --ids {ids[0]} {ids[2]} --no-wait --yes").value is None
    assert do(f"{noun} list --query [].name").data == ["two"]


def test_clusters_are_scaled_by_their_ids(do):
    made = [do(f"cluster create -n {name} -s Standard_D2 -t 0") for name in ("one", "two")]
    ids = " ".join(found.data["id"] for found in made)
    scaled = do(f"cluster auto-scale --ids {ids} --min 0 --max 3").data
    assert [found["scaleSettings"]["autoScale"]["maximumNodeCount"] for found in scaled] == [3, 3]
    sized = do(f"cluster resize --ids {ids} -t 1").data
    assert [found["scaleSettings"]["manual"]["targetNodeCount"] for found in sized] == [1, 1]


@pytest.mark.slow
def test_jobs_are_waited_for_read_and_ended_by_id_and_place(do, tmp_path):
    place = "-g g -w w -e e"
    do("workspace create -g g -n w")
    do("experiment create -g g -w w -n e")
    cluster = do("cluster create -g g -w w -n c -s Standard_D2 -t 1").data["id"]
    file = write_job(tmp_path, "mkdir $AZ_BATCHAI_OUTPUT_M/in; echo hi > $AZ_BATCHAI_OUTPUT_M/in/a")
    out = [{"id": "M", "pathPrefix": "$AZ_BATCHAI_MOUNT_ROOT/autoafs", "pathSuffix": "m"}]
    job = json.loads(file.read_text())
    job["properties"]["outputDirectories"] = out
    file.write_text(json.dumps(job))
    made = [do(f"job create {place} -n {name} -f {file} -c {cluster}").value.id for name in ("one", "two")]
    waited = list(do(f"job wait --ids {made[0]} {made[1]} --interval 1").parts)
    assert [part for part in waited if isinstance(part, CommandExit)] == [CommandExit(0), CommandExit(0)]
    listed = do(f"job file list {place} -j one -d M -p in -o table --expiry 5")
    assert [row[0] for row in listed.table.rows] == ["a"]
    streamed = do(f"job file stream {place} --job one -d M -p in -f a").parts
    assert b"".join(part.data for part in streamed if isinstance(part, LogOutput)) == b"hi\n"
    assert do(f"job terminate --ids {made[0]} {made[1]} --no-wait -y").value is None
    assert do(f"job delete --ids {made[0]} {made[1]} -y").value is None
    assert do(f"job list {place}").data == []


def test_subscription_of_the_line_is_used_in_the_id(do):
    made = do("workspace create -n w --subscription 11111111-1111-1111-1111-111111111111")
    assert made.data["id"].startswith("/subscriptions/11111111-1111-1111-1111-111111111111/")


def test_a_workspace_is_where_its_group_is(do):
    do("group create -n g -l westus2")
    assert do("workspace create -g g -n w").data["location"] == "westus2"
    assert [found.id.name for found in do("workspace list")] == ["w"]
    assert len(do("workspace list -g other")) == 0


@pytest.mark.slow
def test_cluster_is_created_with_every_option(do):
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


@pytest.mark.slow
def test_a_job_with_mounts_of_its_own(do, tmp_path):
    do("cluster create -n default -s Standard_D2 -t 1")
    do("storage account create -n acc -g g")
    do("file-server create -n srv -s Standard_D2 --disk-count 1 --disk-size 1 --storage-sku Standard_LRS")
    file = write_job(tmp_path, "cd $AZ_BATCHAI_JOB_MOUNT_ROOT && ls && touch afs/a bfs/b nfs/c")
    mounts = "--storage-account-name acc --afs-name s-one --bfs-name c-one --nfs srv"
    job = do(f"job create -n hello -f {file} {mounts}").value.wait(PATIENCE_S)
    assert job.exit_code == 0
    assert {"afs", "bfs", "nfs"} <= set(job.log().split())
    assert [item["name"] for item in do("storage file list -s s-one --account-name acc").data] == ["a"]
    assert do("storage blob list -c c-one --account-name acc --query [].name").data == ["b"]


def test_nodes_have_the_fields_of_az(do):
    do("cluster create -n one -s Standard_D2 -t 2")
    assert [list(node) for node in do("cluster node list -c one").data] == [
        ["ipAddress", "nodeId", "port"]
    ] * 2
