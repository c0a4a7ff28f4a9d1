"""Names and places in a description of a job, and what each toolkit asks of it."""

import pytest

from batchai_magics.models.job_spec import JobSpec
from tests.models.job.problems import problems, settings
from tests.models.job.test_description import SHARE
from tests.models.samples import job_body


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


@pytest.mark.parametrize(
    ("key", "name"),
    [
        ("environmentVariables", "PMI_RANK"),
        ("secrets", "AZ_BATCHAI_JOB_TEMP"),
        ("environmentVariables", "OMPI_COMM_WORLD_SIZE"),
        ("secrets", "BATCHAI_ATTEMPT"),
    ],
)
def test_a_variable_cannot_say_which_process_of_the_job_one_is(key, name):
    found = problems(**{key: [{"name": name, "value": "1"}]})
    assert f"{key}: {name} is set for each process of the job" in found["properties"]


@pytest.mark.parametrize(
    ("toolkit", "name"), [("pyTorchSettings", "RANK"), ("tensorFlowSettings", "TF_CONFIG")]
)
def test_toolkits_set_more_variables(toolkit, name):
    variable = {"environmentVariables": [{"name": name, "value": "1"}]}
    settings = {"pythonScriptFilePath": "train.py"}
    found = problems(customToolkitSettings=None, **{toolkit: settings}, **variable)
    assert f"{name} is set for each process of the job" in found["properties"]
    assert JobSpec.from_wire(job_body(**variable)).environment_variables


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
