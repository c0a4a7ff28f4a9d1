import pytest

from batchai_magics.errors import SpecError
from batchai_magics.models.cluster_spec import ClusterSpec
from batchai_magics.models.job_spec import JobPriority, JobSpec
from tests.models.samples import cluster_body, job_body


def respelt(value):
    """Every key in capital letters."""
    if isinstance(value, dict):
        return {key.upper(): respelt(inner) for key, inner in value.items()}
    return [respelt(inner) for inner in value] if isinstance(value, list) else value


def refused(data, model=JobSpec):
    with pytest.raises(SpecError) as caught:
        model.from_wire(data)
    return {problem.path: str(problem) for problem in caught.value.problems}


@pytest.mark.parametrize(("model", "body"), [(JobSpec, job_body()), (ClusterSpec, cluster_body())])
def test_keys_are_taken_in_any_letter_case(model, body):
    assert model.from_wire(respelt(body)) == model.from_wire(body)


@pytest.mark.parametrize("key", ["pytorchSettings", "pyTorchSettings", "PyTorchSettings"])
def test_toolkit_keys_of_both_generations_are_taken(key):
    spec = JobSpec.from_wire(job_body(horovodSettings=None, **{key: {"pythonScriptFilePath": "a.py"}}))
    assert "pyTorchSettings" in spec.to_wire()["properties"]


def test_enum_values_are_taken_in_any_letter_case():
    assert JobSpec.from_wire(job_body(schedulingPriority="High")).scheduling_priority is JobPriority.HIGH


@pytest.mark.parametrize(
    ("number", "word"), [(-1000, "low"), (-1, "low"), (0, "normal"), (1, "high"), (1000, "high")]
)
def test_a_priority_of_2017_becomes_a_word(number, word):
    spec = JobSpec.from_wire(job_body(schedulingPriority=None, priority=number))
    assert spec.scheduling_priority.value == word


@pytest.mark.parametrize("number", [1001, -1001, "x", 1.5, True])
def test_an_impossible_priority_of_2017_is_told_under_its_own_name(number):
    assert list(refused(job_body(schedulingPriority=None, priority=number))) == ["properties.priority"]


def test_todays_priority_takes_precedence_over_2017s():
    assert JobSpec.from_wire(job_body(priority=-5)).scheduling_priority is JobPriority.HIGH


def test_a_job_file_of_2017_is_taken():
    body = job_body(
        experimentName="e",
        outputDirectories=[{"id": "A", "pathPrefix": "x", "type": "model", "createNew": True}],
    )
    spec = JobSpec.from_wire({"location": "eastus", "tags": {"a": "b"}, **body})
    assert (spec.output_directories[0].id, spec.output_directories[0].create_new) == ("A", True)


def test_a_resource_of_a_template_is_taken():
    around = {
        "type": "Microsoft.BatchAI/workspaces/experiments/jobs",
        "apiVersion": "2018-05-01",
        "name": "w/e/j",
        "dependsOn": [],
    }
    assert JobSpec.from_wire({**around, **job_body()}) == JobSpec.from_wire(job_body())


def test_a_job_as_the_service_shows_it_can_be_given_back():
    shown = {
        "toolType": "horovod",
        "executionState": "failed",
        "executionInfo": {"exitCode": 1},
        "creationTime": "x",
    }
    around = {"id": "/x", "name": "j", "type": "Microsoft.BatchAI/workspaces/experiments/jobs"}
    assert JobSpec.from_wire({**around, **job_body(**shown)}) == JobSpec.from_wire(job_body())


def test_a_resource_of_another_type_is_refused():
    assert list(refused({"type": "Microsoft.BatchAI/workspaces/clusters", **job_body()})) == ["type"]


def test_a_key_in_two_letter_cases_is_refused():
    assert list(refused(job_body(NodeCount=3))) == ["properties.NodeCount"]


@pytest.mark.parametrize("count", ["[parameters('nodes')]", "[ variables('n') ]", "[int(parameters('n'))]"])
def test_a_template_expression_is_refused_in_a_number(count):
    found = refused(job_body(nodeCount=count))
    assert list(found) == ["properties.nodeCount"]
    assert "template expressions are not evaluated here" in found["properties.nodeCount"]


def test_a_command_with_brackets_is_no_template_expression():
    command = "[ -f x ] && [[ $(parameters) ]]"
    assert (
        JobSpec.from_wire(job_body(jobPreparation={"commandLine": command})).job_preparation.command_line
        == command
    )


@pytest.mark.parametrize(
    ("key", "got"),
    [("environmentVariables", ", got an object"), ("secrets", ""), ("inputDirectories", ", got an object")],
)
def test_an_object_in_the_place_of_a_list_is_told_once_and_its_keys_are_not_unknown(key, got):
    path = f"properties.{key}"
    assert refused(job_body(**{key: {"A": "b"}})) == {path: f"{path}: expected a list{got}"}


def test_an_object_in_a_list_in_a_list_is_told_with_its_index():
    path = "properties.mountVolumes.azureFileShares"
    assert list(refused(job_body(mountVolumes={"azureFileShares": {"A": "b"}}))) == [path]
    assert f"{path}[1].x" in refused(job_body(mountVolumes={"azureFileShares": [{}, {"x": 1}]}))
