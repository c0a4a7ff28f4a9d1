"""A job.json, in the cell or beside it, becomes a job."""

import json

from batchai_magics.errors import SpecError
from batchai_magics.models.resource_ids import Kind, ResourceId
from batchai_magics.models.toolkit_settings import Toolkit
from tests.cell.parsed_cells import CLUSTER, JOB_JSON, cell, fields, refused


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


def test_a_file_of_a_recipe_is_taken_as_it_stands(tmp_path):
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


def test_an_unknown_key_that_is_typed_is_refused_with_a_guess():
    body = JOB_JSON.replace("processCount", "procesCount")
    message = refused("r --spec", body, kind=SpecError)
    assert 'properties.chainerSettings.procesCount: unknown key (Did you mean "processCount"?)' in message
