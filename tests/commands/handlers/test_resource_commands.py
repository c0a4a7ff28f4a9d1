import json

import pytest

from batchai_magics.errors import NotFoundError, SpecError, UsageError


def test_a_fresh_start_lists_nothing(do):
    for line in ("workspace list", "experiment list", "cluster list", "job list"):
        assert do(line).value == []


def test_a_named_workspace_has_to_be_there(do):
    with pytest.raises(NotFoundError, match="WorkspaceNotFound"):
        do("cluster list -w nowhere")


def test_an_experiment_makes_the_default_workspace(do):
    made = do("experiment create -n tries")
    assert made.table.titles == ("Name", "Resource Group", "Workspace", "State")
    assert do("experiment list").table.rows == (("tries", "batchai", "default", "succeeded"),)
    do("experiment delete -n tries -y")
    assert len(do("experiment list")) == 0


def test_json_has_every_key_sorted_and_the_group_of_every_id(do):
    data = do("cluster create -n small -s Standard_D2 -t 0 -u me -p secret-word").data
    assert list(data) == sorted(data)
    assert data["resourceGroup"] == "batchai"
    assert data["errors"] is None
    assert data["scaleSettings"]["autoScale"] is None
    assert data["userAccountSettings"]["adminUserName"] == "me"
    assert "secret-word" not in json.dumps(data)
    assert data["creationTime"].endswith("+00:00")


def test_equal_bounds_are_a_fixed_number(do):
    do("cluster create -n small -s Standard_D2 --min 1 --max 1")
    assert do("cluster show -n small").data["scaleSettings"]["manual"]["targetNodeCount"] == 1


def test_auto_scale_goes_between_its_bounds(do):
    do("cluster create -n small -s Standard_D2 --min 0 --max 2")
    assert do("cluster auto-scale -n small --min 1 --max 3").data["scaleSettings"]["autoScale"] == {
        "initialNodeCount": 0,
        "maximumNodeCount": 3,
        "minimumNodeCount": 1,
    }


def test_the_line_wins_over_the_file(do, tmp_path):
    file = tmp_path / "cluster.json"
    scale = {"manual": {"targetNodeCount": 2}}
    account = {"adminUserName": "of-file"}
    properties = {"vmSize": "Standard_D3", "scaleSettings": scale, "userAccountSettings": account}
    file.write_text(json.dumps({"properties": properties}))
    data = do(f"cluster create -n small -f {file} -t 1").data
    assert data["vmSize"] == "Standard_D3"
    assert data["scaleSettings"]["manual"]["targetNodeCount"] == 1
    assert data["userAccountSettings"]["adminUserName"] == "of-file"


def test_a_share_is_mounted(do):
    data = do(
        "cluster create -n small -s Standard_D2 -t 0 --afs-name logs --storage-account-name acc "
        "--storage-account-key c2VjcmV0"
    ).data
    share = data["nodeSetup"]["mountVolumes"]["azureFileShares"][0]
    assert share["azureFileUrl"] == "https://acc.file.core.windows.net/logs"
    assert share["relativeMountPath"] == "afs"
    assert share["credentials"] == {"accountKey": None, "accountKeySecretReference": None}


def test_a_bad_name_is_refused_before_anything_is_made(do):
    with pytest.raises(SpecError, match="not a valid cluster name"):
        do("cluster create -n 'a b' -s Standard_D2 -t 1")
    assert len(do("workspace list")) == 0


def test_a_name_that_is_not_there_is_answered_with_a_guess(do):
    do("cluster create -n small -s Standard_D2 -t 0")
    with pytest.raises(NotFoundError, match='Did you mean "small"') as caught:
        do("cluster show -n smal")
    assert caught.value.exit_code == 3


def test_unknown_name_without_a_similar_one_lists_all(do):
    with pytest.raises(NotFoundError, match="WorkspaceNotFound"):
        do("cluster show -n small")
    for name in ("one", "two"):
        do(f"cluster create -n {name} -s Standard_D2 -t 0")
    with pytest.raises(NotFoundError, match=r"ClusterNotFound.*\nAvailable: two, one"):
        do("cluster show -n whatever")
    with pytest.raises(NotFoundError, match="There are none in workspace default"):
        do("file-server show -n srv")


def test_an_unknown_resource_group_has_no_workspaces(do):
    do("workspace create -n mine")
    with pytest.raises(NotFoundError, match=r"WorkspaceNotFound.*\nThere are none in resource group other\."):
        do("job show -n x -g other")


def test_use_changes_only_the_named_settings(do):
    settings = do("use -w mine -c big").value.settings
    assert (settings.workspace, settings.cluster, settings.experiment) == ("mine", "big", "default")


def test_a_line_chooses_a_server(do, monkeypatch):
    monkeypatch.setenv("BATCHAI_TOKEN", "hush")
    choice = do("use --backend arm --endpoint http://127.0.0.1:10000").value
    assert choice.to_data()["endpoint"] == "http://127.0.0.1:10000"
    assert choice.settings.backend == "arm"
    assert "hush" not in str(choice.to_data()) + repr(choice)


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("use --backend arm", "has no endpoint"),
        ("use --backend arm --endpoint http://example.org", "plain http"),
        ("use --backend arm --endpoint nowhere", "is not an endpoint"),
        ("use --endpoint http://127.0.0.1:1", "the local backend has no endpoint"),
    ],
)
def test_a_server_that_cannot_be_chosen_says_why(do, line, words):
    with pytest.raises(UsageError, match=words):
        do(line)


def test_without_a_name_the_sessions_cluster_is_shown(do):
    do("cluster create -n other -s Standard_D2 -t 1 -u me -p secret")
    with pytest.raises(NotFoundError, match="cluster default is not found"):
        do("cluster show")
    do("cluster create -n default -s Standard_D2 -t 1 -u me -p secret")
    assert do("cluster show").value.id.name == "default"
