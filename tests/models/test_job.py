import json

import pytest

from batchai_magics.errors import SpecError
from batchai_magics.models.job import JobSpec
from batchai_magics.models.toolkits import Toolkit
from tests.models.samples import job_body

SHARE = {
    "accountName": "a",
    "azureFileUrl": "https://a.file.core.windows.net/s",
    "credentials": {},
    "relativeMountPath": "afs",
}


def problems(**changes):
    with pytest.raises(SpecError) as caught:
        JobSpec.from_wire(job_body(**changes))
    return {problem.path: str(problem) for problem in caught.value.problems}


def settings(**values):
    """A job of one toolkit, given as CNTKSettings="…"."""
    return {"horovodSettings": None, **values}


def test_what_was_given_comes_back():
    assert JobSpec.from_wire(job_body()).to_wire(secrets=True) == job_body()


def test_a_second_reading_gives_the_same_bytes():
    once = JobSpec.from_wire(job_body())
    assert json.dumps(JobSpec.from_wire(once.to_wire()).to_wire()) == json.dumps(once.to_wire())


def test_defaults_are_those_of_the_service():
    body = job_body(schedulingPriority=None, constraints=None)
    wire = JobSpec.from_wire(body).to_wire()["properties"]
    assert wire["schedulingPriority"] == "normal"
    assert wire["constraints"] == {"maxWallClockTime": "P7D"}


def test_secrets_leave_only_when_asked_for():
    spec = JobSpec.from_wire(job_body())
    for shown in (repr(spec), str(spec), json.dumps(spec.to_wire()), json.dumps(spec.to_masked_wire())):
        assert "hidden" not in shown
        assert "'key'" not in shown
    assert spec.to_masked_wire()["properties"]["secrets"] == [{"name": "TOKEN", "value": "***"}]
    assert spec.to_wire()["properties"]["mountVolumes"]["azureFileShares"][0]["credentials"] == {}


def test_all_problems_are_told_at_once():
    found = problems(nodeCount=0, horovodSettings={"processCount": "4"}, nodeCuont=1, stdOutErrPathPrefix=3)
    assert set(found) == {
        "properties.nodeCount",
        "properties.horovodSettings.pythonScriptFilePath",
        "properties.horovodSettings.processCount",
        "properties.nodeCuont",
        "properties.stdOutErrPathPrefix",
    }
    assert 'did you mean "nodeCount"?' in found["properties.nodeCuont"]


def test_a_missing_field_is_told_with_its_path():
    found = problems(horovodSettings={})
    path = "properties.horovodSettings.pythonScriptFilePath"
    assert found == {path: f"{path}: this field is required"}


def test_two_toolkits_are_refused():
    found = problems(customToolkitSettings={"commandLine": "true"})
    assert "more than one toolkit is given (customToolkitSettings, horovodSettings)" in found["properties"]


def test_no_toolkit_is_refused():
    assert "no toolkit is given" in problems(horovodSettings=None)["properties"]


def test_two_toolkits_are_told_beside_other_problems():
    found = problems(customToolkitSettings={"commandLine": "true"}, nodeCount="2")
    assert set(found) == {"properties", "properties.nodeCount"}


@pytest.mark.parametrize("count", [0, -1, 2**31, 1.5, "1", True])
def test_an_impossible_process_count_is_refused(count):
    found = problems(horovodSettings={"pythonScriptFilePath": "a.py", "processCount": count})
    assert list(found) == ["properties.horovodSettings.processCount"]


@pytest.mark.parametrize("key", ["inputDirectories", "outputDirectories"])
def test_an_id_that_is_there_twice_is_refused(key):
    directory = {"id": "A", "path": "x"} if key == "inputDirectories" else {"id": "A", "pathPrefix": "x"}
    assert f"{key}: the id A is there twice" in problems(**{key: [directory, directory]})["properties"]


@pytest.mark.parametrize("id", ["", "a-b", "a b", "ä", "A\n"])
def test_an_id_must_fit_into_a_variables_name(id):
    found = problems(inputDirectories=[{"id": id, "path": "x"}])
    assert list(found) == ["properties.inputDirectories[0].id"]


def test_the_id_of_the_jobs_own_output_is_taken():
    assert (
        "stdouterr is taken"
        in problems(outputDirectories=[{"id": "stdouterr", "pathPrefix": "x"}])["properties"]
    )


@pytest.mark.parametrize("name", ["", "1A", "A-B", "A=B", "A\0"])
def test_a_variable_must_have_a_name_that_a_shell_takes(name):
    found = problems(environmentVariables=[{"name": name, "value": "1"}])
    assert list(found) == ["properties.environmentVariables[0].name"]


def test_a_variable_cannot_be_secret_and_not():
    found = problems(environmentVariables=[{"name": "TOKEN", "value": "1"}])
    assert "TOKEN is there twice" in found["properties"]


@pytest.mark.parametrize("mode", ["0777", "755", "1777", "0000"])
def test_a_file_mode_is_three_or_four_octal_digits(mode):
    spec = JobSpec.from_wire(job_body(mountVolumes={"azureFileShares": [{**SHARE, "fileMode": mode}]}))
    assert spec.mount_volumes.azure_file_shares[0].file_mode == mode


@pytest.mark.parametrize("mode", ["0778", "9", "77", "u+rwx", "0o777", "00777x", "17777", ""])
def test_what_is_no_file_mode_is_refused(mode):
    found = problems(mountVolumes={"azureFileShares": [{**SHARE, "directoryMode": mode}]})
    assert list(found) == ["properties.mountVolumes.azureFileShares[0].directoryMode"]


@pytest.mark.parametrize("key", ["stdOutErrPathPrefix", "value", "relativeMountPath"])
def test_a_null_character_is_refused_wherever_a_text_goes(key):
    fields = {
        "stdOutErrPathPrefix": {"stdOutErrPathPrefix": "a\0b"},
        "value": {"environmentVariables": [{"name": "A", "value": "a\0b"}]},
        "relativeMountPath": {"mountVolumes": {"azureFileShares": [{**SHARE, "relativeMountPath": "a\0b"}]}},
    }
    ((path, told),) = problems(**fields[key]).items()
    assert path.endswith(key)
    assert "null character" in told


@pytest.mark.parametrize("path", ["/afs", "../afs", "a/../../b", "", ".", "a\\..\\..\\b"])
def test_a_mount_stays_below_the_mount_root(path):
    found = problems(
        mountVolumes={"unmanagedFileSystems": [{"mountCommand": "m", "relativeMountPath": path}]}
    )
    assert list(found) == ["properties.mountVolumes.unmanagedFileSystems[0].relativeMountPath"]


def test_two_mounts_at_one_place_are_refused():
    mount = {"mountCommand": "m", "relativeMountPath": "nfs"}
    found = problems(mountVolumes={"unmanagedFileSystems": [mount, {**mount, "relativeMountPath": "nfs/"}]})
    assert "more than one volume is mounted at nfs" in found["properties.mountVolumes"]


@pytest.mark.parametrize(("inner", "outer"), [("afs/in", "afs"), ("afs", "afs/in")])
def test_what_a_command_mounts_is_not_inside_another_mount(inner, outer):
    volumes = {
        "azureFileShares": [{**SHARE, "relativeMountPath": outer}],
        "unmanagedFileSystems": [{"mountCommand": "m", "relativeMountPath": inner}],
    }
    assert "one inside the other" in problems(mountVolumes=volumes)["properties.mountVolumes"]


def test_a_slash_at_the_end_makes_no_other_place():
    volumes = {"azureFileShares": [SHARE, {**SHARE, "relativeMountPath": "afs/"}]}
    assert "mounted at afs" in problems(mountVolumes=volumes)["properties.mountVolumes"]


REFERENCE = {"sourceVault": {"id": "/v"}, "secretUrl": "https://v/s"}


@pytest.mark.parametrize(
    ("fields", "path"),
    [
        (
            {"secrets": [{"name": "A", "value": "1", "valueSecretReference": REFERENCE}]},
            "properties.secrets[0]",
        ),
        (
            {
                "mountVolumes": {
                    "azureFileShares": [
                        {**SHARE, "credentials": {"accountKey": "k", "accountKeySecretReference": REFERENCE}}
                    ]
                }
            },
            "properties.mountVolumes.azureFileShares[0].credentials",
        ),
        (
            {
                "containerSettings": {
                    "imageSourceRegistry": {
                        "image": "i",
                        "credentials": {
                            "username": "u",
                            "password": "p",
                            "passwordSecretReference": REFERENCE,
                        },
                    }
                }
            },
            "properties.containerSettings.imageSourceRegistry.credentials",
        ),
    ],
    ids=["secret", "share", "registry"],
)
def test_a_secret_is_given_or_lies_in_key_vault(fields, path):
    assert "give one of" in problems(**fields)[path]


@pytest.mark.parametrize("suffix", ["/etc", "../x", "a/../../b"])
def test_an_output_stays_in_the_jobs_folder(suffix):
    found = problems(outputDirectories=[{"id": "A", "pathPrefix": "x", "pathSuffix": suffix}])
    assert list(found) == ["properties.outputDirectories[0].pathSuffix"]


@pytest.mark.parametrize("url", ["", "acc.file.core.windows.net/s", "https://acc.file.core.windows.net"])
def test_an_ill_formed_share_url_is_refused(url):
    share = {"accountName": "a", "azureFileUrl": url, "relativeMountPath": "afs"}
    found = problems(mountVolumes={"azureFileShares": [share]})
    assert list(found) == ["properties.mountVolumes.azureFileShares[0].azureFileUrl"]


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


def test_an_unknown_language_is_refused():
    found = problems(**settings(cntkSettings={"languageType": "R", "configFilePath": "a"}))
    assert "not one of BrainScript, Python" in found["properties.cntkSettings.languageType"]


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


@pytest.mark.parametrize("time", ["", "P", "PT", "two hours", "PT0S", "0:00:00", f"P{10**12}D", "P1Y"])
def test_an_impossible_time_is_refused(time):
    assert list(problems(constraints={"maxWallClockTime": time})) == [
        "properties.constraints.maxWallClockTime"
    ]


@pytest.mark.parametrize(
    "time", ["PT30M", "P7D", "P1W", "7.00:00:00", "2:00:00", "7 days, 0:00:00", "PT1.5S"]
)
def test_a_time_keeps_its_spelling(time):
    spec = JobSpec.from_wire(job_body(constraints={"maxWallClockTime": time}))
    assert spec.constraints.max_wall_clock_time == time


@pytest.mark.parametrize(
    "changes",
    [
        {"secrets": ["hunter2"]},
        {"secrets": "TOKEN=hunter2"},
        {"secrets": [{"name": "TOKEN=hunter2", "value": "x"}]},
        {"secrets": [{"name": "A", "value": {"hunter2": 1}}]},
        {"secrets": [{"name": "A", "value": "[concat('hunter2', 'x')]", "nope": 1}]},
        {"mountVolumes": {"azureFileShares": [{**SHARE, "credentials": "hunter2"}]}},
        {"mountVolumes": {"azureFileShares": ["hunter2"]}},
        {"mountVolumes": {"azureFileShares": [{**SHARE, "azureFileUrl": "a.windows.net/s?sig=hunter2"}]}},
        {"mountVolumes": "hunter2"},
        {"secrets": [{"name": "A", "value": "hunter2"}], "nodeCount": "\ud800"},
        {"secrets": [{"name": "A", "value": "hunter2\ud800"}]},
    ],
)
def test_no_problem_repeats_what_may_hold_a_secret(changes):
    assert "hunter2" not in json.dumps(problems(**changes))


def test_a_lone_surrogate_is_named_by_its_place():
    found = problems(environmentVariables=[{"name": "A", "value": "x\udc80"}])
    assert list(found) == ["properties.environmentVariables[0].value"]
    assert "lone surrogate" in found["properties.environmentVariables[0].value"]


def test_a_secret_of_the_wrong_type_is_not_repeated():
    found = problems(secrets=[{"name": "A", "value": 987654}])
    assert "987654" not in found["properties.secrets[0].value"]


@pytest.mark.parametrize("data", [None, [], "text", 3])
def test_what_is_no_object_is_refused(data):
    with pytest.raises(SpecError, match="expected a JSON object"):
        JobSpec.from_wire(data)


@pytest.mark.parametrize("data", [{}, {"properties": None}, {"properties": []}, {"nodeCount": 1}])
def test_a_job_without_properties_is_refused(data):
    with pytest.raises(SpecError, match="properties: this object is required"):
        JobSpec.from_wire(data)


@pytest.mark.parametrize("kind", list(Toolkit))
def test_every_toolkit_is_found_by_its_settings(kind):
    needs = (
        {"pythonScriptFilePath": "a.py"} if "python_script_file_path" in kind.settings.model_fields else {}
    )
    spec = JobSpec.from_wire(
        job_body(**{"horovodSettings": None, kind.wire_key: needs or {"commandLine": "true"}})
    )
    assert spec.toolkit is kind
    assert isinstance(spec.settings, kind.settings)


def test_a_spec_made_in_python_checks_itself():
    spec = JobSpec.from_wire(job_body())
    with pytest.raises(ValueError, match="no toolkit is given"):
        JobSpec(cluster=spec.cluster, node_count=1, std_out_err_path_prefix="x")
