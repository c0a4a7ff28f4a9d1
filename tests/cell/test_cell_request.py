import json
from dataclasses import replace

import pytest

from batchai_magics.backends.arm.settings import ArmSettings
from batchai_magics.backends.azureml.settings import AzureMLSettings
from batchai_magics.backends.slurm.settings import SlurmSettings
from batchai_magics.cell import Notebook, describe, parse
from batchai_magics.errors import ScriptError, SpecError
from batchai_magics.models.resource_ids import Kind, ResourceId
from batchai_magics.models.toolkit_settings import Toolkit
from tests.cell.parsed_cells import CLUSTER, JOB_JSON, SCRIPT, SETTINGS, cell, fields, refused


def test_a_script_becomes_a_horovod_job_on_the_default_cluster():
    wire = fields("resnet")
    assert wire["nodeCount"] == 1
    assert wire["cluster"] == {"id": CLUSTER.format("default", "default")}
    assert wire["horovodSettings"] == {"pythonScriptFilePath": "$AZ_BATCHAI_INPUT_SCRIPT/resnet.py"}
    assert wire["stdOutErrPathPrefix"] == "$AZ_BATCHAI_MOUNT_ROOT/autoafs"


def test_script_is_uploaded_unchanged_to_the_folder_that_the_job_reads():
    request = cell("resnet --experiment bench")
    (path, data), *others = request.uploads.items()
    folder, _, name = path.rpartition("/")
    assert (data, name, others) == (SCRIPT.encode(), "resnet.py", [])
    assert folder.startswith("scripts/bench/resnet/")
    directory = request.spec.input_directories[0]
    assert (directory.id, directory.path) == ("SCRIPT", f"$AZ_BATCHAI_MOUNT_ROOT/autoafs/{folder}")


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


def test_relative_input_is_below_the_notebooks_folder_unless_it_is_in_the_working_directory(tmp_path):
    for name in ("data/x.csv", "sent/y.csv"):
        (tmp_path / name).parent.mkdir()
        (tmp_path / name).touch()
    inputs = "--input A=./data --input B=none --input C=sent --input D=$HOME/d"
    paths = {
        each["id"]: each["path"]
        for each in fields(f"r --upload sent {inputs}", folder=tmp_path)["inputDirectories"]
    }
    del paths["SCRIPT"]
    assert paths == {"A": f"{tmp_path}/data", "B": f"{tmp_path}/none", "C": "sent", "D": "$HOME/d"}
    described = f"{JOB_JSON}  jobPreparation: {{commandLine: mkdir made}}\n"
    assert input_of("r --prep 'mkdir made'", "made", folder=tmp_path) == "made"
    assert input_of("r --spec", "made", described, folder=tmp_path) == "made"


def input_of(line, path, *args, **options):
    """The path of an input in the description that is made of it."""
    return fields(f"{line} --input A={path}", *args, **options)["inputDirectories"][0]["path"]


@pytest.mark.parametrize("path", ["/data/", "/data/../x", f"/{'x' * 300}"])
def test_an_absolute_input_stays_as_it_is(path):
    assert input_of("r", path) == path


@pytest.mark.parametrize("path", ["~nobody-of-this-name/x", "x" * 300])
def test_an_input_that_no_file_can_be_is_one_of_the_notebooks_folder(path, tmp_path):
    assert input_of("r", path, folder=tmp_path) == f"{tmp_path}/{path}"


@pytest.mark.parametrize("path", ["data", "azureml:data:1", "wasbs://data@account/x", "https://host/x"])
@pytest.mark.parametrize(
    ("backend", "section"),
    [
        ("azureml", AzureMLSettings()),
        ("arm", ArmSettings(endpoint="https://host")),
        ("slurm", SlurmSettings(ssh="login")),
    ],
)
def test_an_input_of_a_job_elsewhere_stays_as_it_is(backend, section, path, tmp_path):
    settings = replace(SETTINGS, backend=backend, sections={backend: section})
    request = parse(f"r --input A={path}", SCRIPT, settings=settings, notebook=Notebook(folder=tmp_path))
    assert request.spec.input_directories[0].path == path


def test_a_relative_input_of_a_job_in_a_container_stays_as_it_is(tmp_path):
    described = f"{JOB_JSON}  containerSettings: {{imageSourceRegistry: {{image: ubuntu}}}}\n"
    assert input_of("r --image ubuntu", "data", folder=tmp_path) == "data"
    assert input_of("r --spec", "data", described, folder=tmp_path) == "data"


def test_request_has_the_options_of_the_submission():
    request = cell(
        "r --wait --new --dry-run --var run --metric 'loss=loss: ([0-9.]+)' --workspace w --experiment e"
    )
    assert (request.is_waiting, request.is_new, request.is_dry_run) == (True, True, True)
    assert (request.variable, request.id.workspace, request.id.experiment) == ("run", "w", "e")
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


def test_the_processes_of_the_custom_toolkit_are_a_key_of_ours():
    assert fields("r --toolkit custom --processes 3")["customToolkitSettings"]["batchaiProcessCount"] == 3
    assert "batchaiProcessCount" not in fields("r --toolkit custom")["customToolkitSettings"]


def test_processes_are_refused_where_there_is_no_such_number():
    assert "--processes does not apply to toolkit caffe2" in refused("r --toolkit caffe2 --processes 2")


def test_a_cluster_is_named_or_given_by_its_id():
    assert fields("r --cluster nc6 --workspace w")["cluster"]["id"] == CLUSTER.format("w", "nc6")
    other = CLUSTER.format("other", "nc6")
    assert fields(f"r --cluster {other}")["cluster"]["id"] == other
    assert cell(f"r --cluster {other}").cluster.name == "nc6"


def test_variables_are_expanded_on_the_line_but_not_in_the_body():
    request = cell("{name} --args '--lr {lr} {{x}}'", names={"name": "run1", "lr": 0.1})
    assert request.name == "run1"
    assert request.spec.settings.command_line_args == "--lr 0.1 {x}"
    assert b"{name}" in next(iter(request.uploads.values()))


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
        ("a.b", SCRIPT, "'a.b' is not a valid job name"),
        ("--name=--dry-run", SCRIPT, "--dry-run: a job's name does not begin with a dash"),
        ("r --experiment a/b", SCRIPT, "is not a valid experiment name"),
        ("r --workspace a/b", SCRIPT, "is not a valid workspace name"),
        ("r --spec --toolkit mpi", JOB_JSON, "--toolkit does not go with --spec"),
        ("r --spec --file x", "", "--spec and --file are both given"),
        ("r --file x", SCRIPT, "--file is given, and the cell is not empty"),
        ("r --file nope.json", "", "nope.json does not exist"),
        ("r --spec", "", "the cell is empty"),
        ("r --spec", '{"a": }', "the cell is not valid JSON"),
        ("r --env A-B=1", SCRIPT, "not a name for an environment variable"),
        ("r --input A-B=x", SCRIPT, "cannot end an environment variable's name"),
        ("r --output A=../x", SCRIPT, "leaves its folder"),
    ],
)
def test_invalid_input_is_refused_with_an_explanation(line, body, told, tmp_path):
    assert told in refused(line, body, folder=tmp_path)


def test_description_shows_everything_except_secrets():
    request = cell("r --secret TOKEN --metric 'loss=l: (.*)'", env={"TOKEN": "t0p"})
    text = describe(request)
    assert "job r in experiment default of workspace default, on cluster default" in text
    assert '"value": "***"' in text
    assert f"r.py  {len(SCRIPT)} bytes" in text
    assert "loss  l: (.*)" in text
    assert "t0p" not in text + repr(request)


@pytest.mark.parametrize(("count", "size"), [(1023, "1023 bytes"), (1024, "1.0 KiB"), (1536, "1.5 KiB")])
def test_size_below_a_kibibyte_is_shown_in_bytes(count, size):
    script = "#" * (count - len("pass\n")) + "\npass"
    assert len(script.encode()) == count
    assert f"r.py  {size}\n" in describe(cell("r", script)) + "\n"


@pytest.mark.parametrize("more", ["", " --use a"])
def test_a_script_that_would_hide_its_import_has_another_name_everywhere(more):
    request = cell(f"keras --toolkit pytorch{more}", "import keras", names={"a": 1})
    assert any(path.endswith("/keras_cell.py") for path in request.uploads)
    assert not any(path.endswith("/keras.py") for path in request.uploads)
    assert "keras_cell.py" in json.dumps(request.spec.to_wire(secrets=True))
    assert request.source.name == "keras_cell.py"


@pytest.mark.parametrize("text", ["[concat('a', 'b')]", "[if(x, y)]"])
def test_arguments_that_look_like_an_expression_of_a_template_are_sent_as_they_are(text):
    body = fields(f'r --toolkit horovod --args "{text}"')
    assert body["horovodSettings"]["commandLineArgs"] == text


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
    assert cell("r --spec", body).cluster.name == "c2"


def test_image_option_replaces_only_the_image_of_the_file():
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


def test_job_file_is_accepted_with_a_blank_cell(tmp_path):
    (tmp_path / "job.yaml").write_text(JOB_JSON)
    assert cell("r --file job.yaml", "\n  \n", folder=tmp_path).spec.toolkit is Toolkit.CHAINER


def test_all_problems_of_a_job_file_are_in_one_error():
    told = refused("r --spec", '{"properties": {"nodeCuont": 2, "stdOutErrPathPrefix": 1}}', SpecError)
    for path in (
        "properties.nodeCount",
        "properties.nodeCuont",
        "properties.stdOutErrPathPrefix",
        "no toolkit",
    ):
        assert path in told


def test_keys_beside_the_properties_of_a_job_file_are_checked():
    told = refused("r --spec", f"loction: eastus\n{JOB_JSON}", SpecError)
    assert 'loction: unknown key (Did you mean "location"?)' in told


def test_args_are_refused_where_the_file_has_the_command_line():
    body = JOB_JSON.replace("chainerSettings: {", "customMpiSettings: {commandLine: a, ").replace(
        "pythonScriptFilePath: train.py, ", ""
    )
    assert "--args does not apply to toolkit mpi" in refused("r --spec --args x", body)


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


def test_job_file_of_a_recipe_is_accepted_unchanged(tmp_path):
    job_file(tmp_path / "Horovod-PyTorch")
    request = cell("--file Horovod-PyTorch/job.json", "", folder=tmp_path)
    assert request.name == "Horovod-PyTorch"
    assert request.spec.settings.to_wire() == {"commandLine": "true"}
    (note,) = request.notes
    path = "properties.customToolkitSettings.processCount"
    assert note.startswith(f"Horovod-PyTorch/job.json: {path} is not used here")


def test_the_first_word_names_a_job_from_a_file(tmp_path):
    job_file(tmp_path / "recipe")
    assert cell("mine --file recipe/job.json", "", folder=tmp_path).name == "mine"
