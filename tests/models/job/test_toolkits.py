"""What each toolkit asks of a description of a job."""

import pytest

from batchai_magics.models.job_spec import JobSpec
from tests.models.job.problems import problems, settings
from tests.models.samples import job_body


@pytest.mark.parametrize("count", [0, -1, 2**31, 1.5, "1", True])
def test_an_impossible_process_count_is_refused(count):
    found = problems(horovodSettings={"pythonScriptFilePath": "a.py", "processCount": count})
    assert list(found) == ["properties.horovodSettings.processCount"]


@pytest.mark.parametrize(
    "cntk",
    [
        {"languageType": "BrainScript"},
        {"languageType": "brainscript", "pythonScriptFilePath": "a.py"},
        {"languageType": "Python", "configFilePath": "a.cntk"},
        {"languageType": "Python"},
        {"languageType": "BrainScript", "configFilePath": "a.cntk", "pythonScriptFilePath": "a.py"},
        {"languageType": "Python", "configFilePath": "a.cntk", "pythonScriptFilePath": "a.py"},
        {},
    ],
)
def test_cntk_needs_the_file_of_its_language(cntk):
    assert list(problems(**settings(cntkSettings=cntk))) == ["properties.cntkSettings"]


def test_cntk_takes_a_configuration_or_a_script():
    for cntk in ({"languageType": "BRAINSCRIPT", "configFilePath": "a"}, {"pythonScriptFilePath": "a.py"}):
        spec = JobSpec.from_wire(job_body(**settings(cntkSettings=cntk)))
        assert spec.to_wire()["properties"]["cntkSettings"] == cntk


@pytest.mark.parametrize("caffe", [{}, {"configFilePath": "a", "pythonScriptFilePath": "b"}])
def test_caffe_needs_one_file(caffe):
    assert list(problems(**settings(caffeSettings=caffe))) == ["properties.caffeSettings"]


@pytest.mark.parametrize("backend", ["tcp", "Gloo", "MPI", "nccl"])
def test_a_communication_backend_keeps_its_letter_case(backend):
    torch = {"pythonScriptFilePath": "a.py", "communicationBackend": backend}
    spec = JobSpec.from_wire(job_body(**settings(pyTorchSettings=torch)))
    assert spec.to_wire()["properties"]["pyTorchSettings"] == torch


def test_an_unknown_communication_backend_is_refused():
    found = problems(
        **settings(pyTorchSettings={"pythonScriptFilePath": "a", "communicationBackend": "smoke"})
    )
    assert "tcp, gloo, mpi, nccl" in found["properties.pyTorchSettings.communicationBackend"]


def test_more_parameter_servers_than_nodes_are_refused():
    found = problems(**settings(tensorFlowSettings={"pythonScriptFilePath": "a", "parameterServerCount": 3}))
    assert "3 > 2" in found["properties"]


def test_as_many_parameter_servers_as_nodes_are_taken():
    torch = {"pythonScriptFilePath": "a", "parameterServerCount": 2}
    spec = JobSpec.from_wire(job_body(**settings(tensorFlowSettings=torch)))
    assert spec.settings.parameter_server_count == spec.node_count == 2
