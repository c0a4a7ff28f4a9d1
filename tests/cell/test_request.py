import json

import pytest

from batchai_magics.cell import describe, parse
from batchai_magics.cell.options import HelpRequested
from batchai_magics.config import Settings
from batchai_magics.errors import ScriptError, SpecError, UsageError
from batchai_magics.models.ids import Kind, ResourceId
from batchai_magics.models.toolkits import Toolkit

SCRIPT = "print('hello {name}')\n"
SETTINGS = Settings(subscription="s", resource_group="g")
CLUSTER = "/subscriptions/s/resourceGroups/g/providers/Microsoft.BatchAI/workspaces/{}/clusters/{}"
JOB_JSON = """
properties:
  nodeCount: 1
  stdOutErrPathPrefix: $AZ_BATCHAI_MOUNT_ROOT/afs
  chainerSettings: {pythonScriptFilePath: train.py, processCount: 2}
  environmentVariables:
  - {name: A, value: "1"}
  - {name: B, value: "2"}
"""


def cell(line, body=SCRIPT, **options):
    return parse(line, body, settings=SETTINGS, **options)


def fields(line, body=SCRIPT, **options):
    return cell(line, body, **options).spec.to_wire(secrets=True)["properties"]


def refused(line, body=SCRIPT, kind=UsageError, **options):
    with pytest.raises(kind) as caught:
        cell(line, body, **options)
    return str(caught.value)


def test_a_script_becomes_a_horovod_job_on_the_default_cluster():
    wire = fields("resnet")
    assert wire["nodeCount"] == 1
    assert wire["cluster"] == {"id": CLUSTER.format("default", "default")}
    assert wire["horovodSettings"] == {"pythonScriptFilePath": "$AZ_BATCHAI_INPUT_SCRIPT/resnet.py"}
    assert wire["stdOutErrPathPrefix"] == "$AZ_BATCHAI_MOUNT_ROOT/autoafs"


def test_the_script_is_uploaded_as_it_stands_to_the_folder_that_the_job_reads():
    request = cell("resnet --experiment bench")
    (path, data), *others = request.uploads.items()
    folder, _, name = path.rpartition("/")
    assert (data, name, others) == (SCRIPT.encode(), "resnet.py", [])
    assert folder.startswith("scripts/bench/resnet/")
    directory = request.spec.input_directories[0]
    assert (directory.id, directory.path) == ("SCRIPT", f"$AZ_BATCHAI_MOUNT_ROOT/autoafs/{folder}")


def test_the_same_cell_gives_the_same_job_and_another_script_another():
    assert cell("a --nodes 2") == cell("a --nodes 2")
    assert cell("a").spec != cell("a", "print(1)").spec


def test_every_option_reaches_the_description():
    line = (
        'r --nodes 2 --processes 4 --args "--lr 0.1" --image ubuntu --prep "pip list" --env A=1=2 --env B= '
        "--secret TOKEN --input DATA=/data --output MODEL=models --output LOG --priority HIGH --max-time 90m"
        ' --slurm "--qos=long -C a100"'
    )
    wire = fields(line, env={"TOKEN": "t0p"})
    assert wire["nodeCount"] == 2
    assert wire["horovodSettings"]["processCount"] == 4
    assert wire["horovodSettings"]["commandLineArgs"] == "--lr 0.1"
    assert wire["containerSettings"] == {"imageSourceRegistry": {"image": "ubuntu"}}
    assert wire["jobPreparation"] == {"commandLine": "pip list"}
    assert wire["environmentVariables"] == [{"name": "A", "value": "1=2"}, {"name": "B", "value": ""}]
    assert wire["secrets"] == [{"name": "TOKEN", "value": "t0p"}]
    assert wire["inputDirectories"][0] == {"id": "DATA", "path": "/data"}
    prefix = "$AZ_BATCHAI_MOUNT_ROOT/autoafs"
    model = {"id": "MODEL", "pathPrefix": prefix, "pathSuffix": "models"}
    assert wire["outputDirectories"] == [model, {"id": "LOG", "pathPrefix": prefix}]
    assert wire["schedulingPriority"] == "high"
    assert wire["constraints"] == {"maxWallClockTime": "PT90M"}
    assert wire["batchaiSlurm"] == "--qos=long -C a100"


def test_the_way_to_go_about_it_is_told():
    request = cell(
        "r --wait --new --dry-run --var run --metric 'loss=loss: ([0-9.]+)' --workspace w --experiment e"
    )
    assert (request.is_waiting, request.is_new, request.is_dry_run) == (True, True, True)
    assert (request.variable, request.workspace, request.experiment) == ("run", "w", "e")
    assert request.patterns == {"loss": "loss: ([0-9.]+)"}


@pytest.mark.parametrize("kind", list(Toolkit))
def test_every_toolkit_runs_a_script(kind):
    request = cell(f"r --toolkit {kind.value} --args '-v 1'")
    assert request.spec.toolkit is kind
    assert "$AZ_BATCHAI_INPUT_SCRIPT/r.py" in json.dumps(request.spec.to_wire())
    assert "-v 1" in json.dumps(request.spec.to_wire())


@pytest.mark.parametrize(
    ("toolkit", "key"), [("custom", "customToolkitSettings"), ("mpi", "customMpiSettings")]
)
def test_toolkits_without_a_script_get_a_command_line(toolkit, key):
    command = fields(f"r --toolkit {toolkit} --args '-v 1'")[key]["commandLine"]
    assert command == "python $AZ_BATCHAI_INPUT_SCRIPT/r.py -v 1"


def test_the_processes_of_tensorflow_are_workers():
    assert fields("r --toolkit tensorflow --processes 3")["tensorFlowSettings"]["workerCount"] == 3


@pytest.mark.parametrize("toolkit", ["custom", "caffe2"])
def test_processes_are_refused_where_there_is_no_such_number(toolkit):
    assert f"--processes does not apply to toolkit {toolkit}" in refused(
        f"r --toolkit {toolkit} --processes 2"
    )


def test_a_cluster_is_named_or_given_by_its_id():
    assert fields("r --cluster nc6 --workspace w")["cluster"]["id"] == CLUSTER.format("w", "nc6")
    other = CLUSTER.format("other", "nc6")
    assert fields(f"r --cluster {other}")["cluster"]["id"] == other
    assert cell(f"r --cluster {other}").cluster == "nc6"


def test_an_id_of_2017_is_a_cluster_of_the_workspace():
    old = "/subscriptions/x/resourceGroups/y/providers/Microsoft.BatchAI/clusters/nc6"
    assert fields(f"r --cluster {old}")["cluster"]["id"] == CLUSTER.format("default", "nc6")


@pytest.mark.parametrize("word", ["workspaces", "workspace", "Workspaces"])
@pytest.mark.parametrize("kind", ["clusters", "Clusters"])
def test_an_id_of_another_workspace_stays_in_it(word, kind):
    id = f"/subscriptions/x/resourceGroups/y/providers/Microsoft.BatchAI/{word}/other/{kind}/nc6"
    assert fields(f"r --cluster {id}")["cluster"]["id"] == str(
        ResourceId("x", "y", "other", Kind.CLUSTER, "nc6")
    )


def test_an_id_of_2017_is_known_in_any_letter_case():
    old = "/subscriptions/x/resourceGroups/y/providers/microsoft.batchai/Clusters/nc6"
    assert fields(f"r --cluster {old}")["cluster"]["id"] == CLUSTER.format("default", "nc6")


@pytest.mark.parametrize("cluster", ["/subscriptions/s/jobs/x", "a.b", "/workspaces/w/clusters/c"])
def test_what_is_no_cluster_is_refused(cluster):
    assert "cluster" in refused(f"r --cluster {cluster}") or "resource id" in refused(
        f"r --cluster {cluster}"
    )


def test_variables_stand_on_the_line_but_not_in_the_body():
    request = cell("{name} --args '--lr {lr} {{x}}'", names={"name": "run1", "lr": 0.1})
    assert request.name == "run1"
    assert request.spec.settings.command_line_args == "--lr 0.1 {x}"
    assert b"{name}" in next(iter(request.uploads.values()))


def test_a_job_file_in_the_cell_is_the_job():
    wire = fields("r --spec", JOB_JSON)
    assert wire["chainerSettings"] == {"pythonScriptFilePath": "train.py", "processCount": 2}
    assert cell("r --spec", JOB_JSON).uploads == {}
    assert "inputDirectories" not in wire


def test_the_line_wins_over_the_file(tmp_path):
    (tmp_path / "job.yaml").write_text(JOB_JSON)
    wire = fields(
        "r --file job.yaml --nodes 3 --processes 6 --args -v --env A=9 --cluster nc6", "", folder=tmp_path
    )
    assert wire["nodeCount"] == 3
    assert wire["chainerSettings"]["processCount"] == 6
    assert wire["chainerSettings"]["commandLineArgs"] == "-v"
    assert wire["environmentVariables"] == [{"name": "B", "value": "2"}, {"name": "A", "value": "9"}]
    assert wire["cluster"]["id"] == CLUSTER.format("default", "nc6")


def test_the_file_says_the_cluster_when_the_line_does_not():
    id = ResourceId("s2", "g2", "w2", Kind.CLUSTER, "c2")
    body = JOB_JSON + f"  cluster: {{id: {id}}}\n"
    assert fields("r --spec", body)["cluster"]["id"] == str(id)
    assert cell("r --spec", body).cluster == "c2"


def test_the_cluster_of_the_line_wins_over_that_of_the_file():
    body = JOB_JSON + f"  cluster: {{id: {ResourceId('s2', 'g2', 'w2', Kind.CLUSTER, 'c2')}}}\n"
    assert fields("r --spec --cluster nc6", body)["cluster"]["id"] == CLUSTER.format("default", "nc6")


def test_an_image_replaces_that_of_the_file_and_nothing_else():
    body = JOB_JSON + (
        "  containerSettings:\n    shmSize: 1g\n"
        "    imageSourceRegistry: {serverUrl: me.io, image: old, credentials: {username: u, password: p}}\n"
    )
    assert fields("r --spec --image new", body)["containerSettings"] == {
        "shmSize": "1g",
        "imageSourceRegistry": {
            "serverUrl": "me.io",
            "image": "new",
            "credentials": {"username": "u", "password": "p"},
        },
    }


def test_a_file_goes_with_a_cell_of_blank_lines(tmp_path):
    (tmp_path / "job.yaml").write_text(JOB_JSON)
    assert cell("r --file job.yaml", "\n  \n", folder=tmp_path).spec.toolkit is Toolkit.CHAINER


def test_the_account_of_the_settings_serves_where_the_environment_names_none():
    settings = Settings(subscription="s", resource_group="g", storage_account="acc", storage_key="k3y")
    request = parse("r --mount data", SCRIPT, settings=settings, env={})
    share = request.spec.to_wire(secrets=True)["properties"]["mountVolumes"]["azureFileShares"][0]
    assert (share["accountName"], share["credentials"]) == ("acc", {"accountKey": "k3y"})


def test_storage_placeholders_are_filled_from_the_environment():
    url = "https://<AZURE_BATCHAI_STORAGE_ACCOUNT>.file.core.windows.net/s"
    share = f"{{azureFileUrl: {url}, relativeMountPath: afs}}"
    body = JOB_JSON + f"  mountVolumes:\n    azureFileShares: [{share}]\n"
    wire = fields("r --spec", body, env={"AZURE_BATCHAI_STORAGE_ACCOUNT": "acc"})
    assert wire["mountVolumes"]["azureFileShares"][0]["accountName"] == "acc"


def test_uploads_lie_beside_the_script(tmp_path):
    (tmp_path / "data.csv").write_bytes(b"1,2")
    (tmp_path / "util.py").write_bytes(b"x = 1")
    request = cell("r --upload data.csv util.py", folder=tmp_path)
    assert {path.rpartition("/")[2] for path in request.uploads} == {"r.py", "data.csv", "util.py"}
    assert len({path.rpartition("/")[0] for path in request.uploads}) == 1


def test_other_content_of_an_upload_goes_to_another_folder(tmp_path):
    (tmp_path / "data.csv").write_bytes(b"1")
    before = cell("r --upload data.csv", folder=tmp_path)
    (tmp_path / "data.csv").write_bytes(b"2")
    assert set(before.uploads).isdisjoint(cell("r --upload data.csv", folder=tmp_path).uploads)


def test_uploads_go_with_a_job_file_too(tmp_path):
    (tmp_path / "train.py").write_bytes(b"pass")
    request = cell("r --spec --upload train.py", JOB_JSON, folder=tmp_path)
    assert request.spec.input_directories[0].id == "SCRIPT"


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("r --upload nope.py", "--upload nope.py: there is no such file"),
        ("r --upload folder", "--upload folder: this is a folder"),
        ("r --upload a.txt folder/a.txt", "two files are called a.txt"),
        ("r --upload r.py", "the script itself has that name"),
        ("r --input SCRIPT=/x", "the input id SCRIPT is taken"),
    ],
)
def test_uploads_that_cannot_be_are_refused(line, told, tmp_path):
    (tmp_path / "folder").mkdir()
    for name in ("a.txt", "folder/a.txt", "r.py"):
        (tmp_path / name).write_text("x")
    assert told in refused(line, folder=tmp_path)


@pytest.mark.parametrize("body", ["", "\n\n", "  \n\t"])
def test_an_empty_cell_is_refused(body):
    assert "the cell is empty" in refused("r", body)


def test_a_syntax_error_names_the_line_of_the_cell():
    told = refused("r", "x = 1\n\nfor i in range(3)\n    pass\n", ScriptError)
    assert "line 4 of the cell" in told
    assert "\n    for i in range(3)\n                     ^" in told


@pytest.mark.parametrize(
    ("line", "body", "told"),
    [
        ("", SCRIPT, "the job has no name"),
        ("a.b", SCRIPT, "'a.b' is no valid job name"),
        ("r --experiment a/b", SCRIPT, "is no valid experiment name"),
        ("r --workspace a/b", SCRIPT, "is no valid workspace name"),
        ("r --spec --toolkit mpi", JOB_JSON, "--toolkit does not go with --spec"),
        ("r --spec --file x", "", "--spec and --file are both given"),
        ("r --file x", SCRIPT, "--file is given, and the cell is not empty"),
        ("r --file nope.json", "", "there is no file"),
        ("r --spec", "", "the cell is empty"),
        ("r --spec", '{"a": }', "the cell is no valid JSON"),
        ("r --env A-B=1", SCRIPT, "no name for an environment variable"),
        ("r --input A-B=x", SCRIPT, "cannot end an environment variable's name"),
        ("r --output A=../x", SCRIPT, "leaves its folder"),
    ],
)
def test_bad_input_is_refused_in_words(line, body, told, tmp_path):
    assert told in refused(line, body, folder=tmp_path)


def test_problems_of_a_job_file_are_told_together():
    told = refused("r --spec", '{"properties": {"nodeCuont": 2, "stdOutErrPathPrefix": 1}}', SpecError)
    for path in (
        "properties.nodeCount",
        "properties.nodeCuont",
        "properties.stdOutErrPathPrefix",
        "no toolkit",
    ):
        assert path in told


def test_what_stands_beside_the_properties_of_a_job_file_is_checked_too():
    told = refused("r --spec", f"loction: eastus\n{JOB_JSON}", SpecError)
    assert 'loction: unknown key (did you mean "location"?)' in told


def test_args_are_refused_where_the_file_has_the_command_line():
    body = JOB_JSON.replace("chainerSettings: {", "customMpiSettings: {commandLine: a, ").replace(
        "pythonScriptFilePath: train.py, ", ""
    )
    assert "--args does not apply to toolkit mpi" in refused("r --spec --args x", body)


def test_help_is_asked_for_in_both_ways():
    for word in ("-h", "--help"):
        assert "--toolkit KIND" in refused(word, "", HelpRequested)


def test_a_description_shows_all_but_secrets():
    request = cell("r --secret TOKEN --metric 'loss=l: (.*)'", env={"TOKEN": "t0p"})
    text = describe(request)
    assert "job r in experiment default of workspace default, on cluster default" in text
    assert '"value": "***"' in text
    assert f"r.py  {len(SCRIPT)} bytes" in text
    assert "loss  l: (.*)" in text
    assert "t0p" not in text + repr(request)


@pytest.mark.parametrize(("count", "size"), [(1023, "1023 bytes"), (1024, "1.0 KiB"), (1536, "1.5 KiB")])
def test_a_size_is_told_in_bytes_below_a_kibibyte(count, size):
    script = "#" * (count - len("pass\n")) + "\npass"
    assert len(script.encode()) == count
    assert f"r.py  {size}\n" in describe(cell("r", script)) + "\n"


def test_nothing_is_written(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    describe(cell("r --dry-run"))
    assert list(tmp_path.iterdir()) == []


def test_a_mount_is_a_share_a_container_or_a_file_server():
    volumes = fields("r --mount data --mount bfs:images=in/images --mount NFS:store=nfs", env={})[
        "mountVolumes"
    ]
    (share,), (container,), (server,) = (
        volumes[kind] for kind in ("azureFileShares", "azureBlobFileSystems", "fileServers")
    )
    assert share["azureFileUrl"] == "https://local.file.core.windows.net/data"
    assert (share["accountName"], share["relativeMountPath"]) == ("local", "data")
    assert (container["containerName"], container["relativeMountPath"]) == ("images", "in/images")
    assert server["fileServer"]["id"].endswith("/workspaces/default/fileservers/store")
    assert server["relativeMountPath"] == "nfs"


def test_a_mount_is_of_the_account_that_the_environment_names():
    env = {"AZURE_BATCHAI_STORAGE_ACCOUNT": "acct", "AZURE_BATCHAI_STORAGE_KEY": "s3cret"}
    share = fields("r --mount data", env=env)["mountVolumes"]["azureFileShares"][0]
    assert share["azureFileUrl"] == "https://acct.file.core.windows.net/data"
    assert share["credentials"] == {"accountKey": "s3cret"}
    assert "s3cret" not in describe(cell("r --mount data", env=env))


def test_a_mount_without_a_key_carries_no_empty_one():
    share = fields("r --mount data", env={})["mountVolumes"]["azureFileShares"][0]
    assert share["credentials"] == {}


def test_a_mount_comes_beside_those_of_a_job_json():
    share = "accountName: a, azureFileUrl: 'https://a.file.core.windows.net/s', credentials: {accountKey: k}"
    volumes = f"  mountVolumes: {{azureFileShares: [{{{share}, relativeMountPath: s}}]}}\n"
    shares = fields("r --spec --mount data", JOB_JSON + volumes, env={})["mountVolumes"]["azureFileShares"]
    assert [share["relativeMountPath"] for share in shares] == ["s", "data"]
    assert "more than one volume is mounted at s" in refused(
        "r --spec --mount bfs:data=s", JOB_JSON + volumes, kind=SpecError, env={}
    )


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("asf:data", "there is no kind 'asf'\ndid you mean \"afs\"?"),
        ("bfs:", "expected [afs:|bfs:|nfs:]NAME[=PATH]"),
        ("data=", "such as --mount data=datasets"),
        ("data=../up", "relativeMountPath"),
    ],
)
def test_a_mount_that_is_none_is_refused(text, says):
    assert says in refused(f"r --mount {text}", kind=(UsageError, SpecError))


def job_file(folder, **changes):
    """A job file as recipes have it, with a key that means nothing."""
    body = {
        "nodeCount": 2,
        "customToolkitSettings": {"commandLine": "true", "processCount": 4},
        "stdOutErrPathPrefix": "$AZ_BATCHAI_JOB_MOUNT_ROOT/external",
    }
    schema = "https://raw.githubusercontent.com/Azure/BatchAI/master/schemas/2018-05-01/job.json"
    folder.mkdir(exist_ok=True)
    (folder / "job.json").write_text(json.dumps({"$schema": schema, "properties": {**body, **changes}}))


def test_a_file_of_a_recipe_is_taken_as_it_stands(tmp_path):
    job_file(tmp_path / "Horovod-PyTorch")
    request = cell("--file Horovod-PyTorch/job.json", "", folder=tmp_path)
    assert request.name == "Horovod-PyTorch"
    assert request.spec.settings.to_wire() == {"commandLine": "true"}
    (note,) = request.notes
    path = "properties.customToolkitSettings.processCount"
    assert note.startswith(f"Horovod-PyTorch/job.json: {path} means nothing here")


def test_the_first_word_names_a_job_from_a_file(tmp_path):
    job_file(tmp_path / "recipe")
    assert cell("mine --file recipe/job.json", "", folder=tmp_path).name == "mine"


def test_an_unknown_key_that_is_typed_is_refused_with_a_guess():
    body = JOB_JSON.replace("processCount", "procesCount")
    message = refused("r --spec", body, kind=SpecError)
    assert 'properties.chainerSettings.procesCount: unknown key (did you mean "processCount"?)' in message


def test_a_description_that_is_typed_may_say_its_schema():
    assert cell("r --spec", "$schema: https://x/job.json\n" + JOB_JSON).spec.node_count == 1


@pytest.mark.parametrize("shares", [True, "data", {"a": 1}])
def test_a_mount_beside_shares_that_are_no_list_is_refused_with_their_place(shares):
    body = json.dumps({"properties": {"nodeCount": 1, "mountVolumes": {"azureFileShares": shares}}})
    with pytest.raises(SpecError, match=r"properties\.mountVolumes\.azureFileShares: expected a list"):
        cell("job --spec --mount data", body)
