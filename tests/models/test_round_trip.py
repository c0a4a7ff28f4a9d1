"""Any job and any cluster that can be written comes back unchanged."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from batchai_magics.errors import SpecError
from batchai_magics.models.cluster_spec import ClusterSpec
from batchai_magics.models.job_spec import JobSpec
from batchai_magics.models.resources import ExperimentSpec, WorkspaceSpec
from batchai_magics.models.toolkit_settings import Toolkit
from tests.models.samples import CLUSTER_ID, dumps, load

text = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1).filter(
    str.strip
)
command = text.filter(lambda value: not value.lstrip().startswith("["))  # no template expression
count = st.integers(1, 1000)
name = st.from_regex(r"[A-Za-z_][A-Za-z0-9_]{0,20}", fullmatch=True)
inside = st.from_regex(r"[A-Za-z0-9][A-Za-z0-9_.]{0,9}(/[A-Za-z0-9]{1,9})?", fullmatch=True)


def objects(required, optional=None):
    return st.fixed_dictionaries(required, optional=optional or {})


def lists(required, optional=None, *, by):
    return st.lists(objects(required, optional), max_size=3, unique_by=lambda item: item[by])


script = {"pythonScriptFilePath": command}
common = {"pythonInterpreterPath": command, "commandLineArgs": command}
counted = {**common, "processCount": count}
TOOLKITS = {
    Toolkit.CNTK: objects({"languageType": st.just("Python"), **script}, counted),
    Toolkit.PYTORCH: objects(
        script, {**counted, "communicationBackend": st.sampled_from(["TCP", "Gloo", "mpi"])}
    ),
    Toolkit.TENSORFLOW: objects(script, {"workerCount": count, "masterCommandLineArgs": command}),
    Toolkit.CAFFE: objects({"configFilePath": command}, counted),
    Toolkit.CAFFE2: objects(script, common),
    Toolkit.CHAINER: objects(script, counted),
    Toolkit.CUSTOM: objects({"commandLine": command}),
    Toolkit.MPI: objects({"commandLine": command}, {"processCount": count}),
    Toolkit.HOROVOD: objects(script, counted),
}
share = {
    "accountName": name,
    "azureFileUrl": inside.map(lambda path: f"https://acc.file.core.windows.net/{path}"),
    "credentials": st.one_of(objects({}), objects({"accountKey": command})),
    "relativeMountPath": inside,
}
mounts = objects(
    {"azureFileShares": lists(share, {"fileMode": st.sampled_from(["0777", "755"])}, by="relativeMountPath")}
)


@st.composite
def jobs(draw):
    kind = draw(st.sampled_from(list(Toolkit)))
    fields = {
        "schedulingPriority": st.sampled_from(["low", "normal", "high"]),
        "cluster": st.just({"id": CLUSTER_ID}),
        "nodeCount": count,
        "stdOutErrPathPrefix": command,
        "constraints": st.sampled_from(
            [{"maxWallClockTime": time} for time in ("P7D", "PT30M", "1.02:03:04")]
        ),
        kind.wire_key: TOOLKITS[kind],
    }
    optional = {
        "mountVolumes": mounts,
        "jobPreparation": objects({"commandLine": command}),
        "inputDirectories": lists({"id": name, "path": command}, by="id"),
        "outputDirectories": lists({"id": name, "pathPrefix": command}, {"pathSuffix": inside}, by="id"),
        "environmentVariables": lists({"name": name, "value": command}, by="name"),
    }
    return {"properties": draw(objects(fields, optional))}


clusters = objects(
    {
        "vmSize": command,
        "vmPriority": st.sampled_from(["dedicated", "lowpriority"]),
        "userAccountSettings": objects({"adminUserName": command}, {"adminUserPassword": text}),
    },
    {
        "scaleSettings": objects(
            {"autoScale": objects({"minimumNodeCount": st.just(0), "maximumNodeCount": count})}
        ),
        "nodeSetup": objects({}, {"mountVolumes": mounts}),
    },
).map(lambda body: {"properties": body})


@given(jobs())
def test_a_job_comes_back_as_it_was_given(data):
    spec = JobSpec.from_wire(data)
    assert spec.to_wire(secrets=True) == data


@given(clusters)
def test_a_cluster_written_and_read_gives_the_same_bytes(data):
    once = dumps(ClusterSpec.from_wire(data), secrets=True)
    assert dumps(load(ClusterSpec, once, source="x"), secrets=True) == once


@pytest.mark.parametrize(("kind", "field"), [(WorkspaceSpec, "locaton"), (ExperimentSpec, "location")])
def test_what_a_description_does_not_have_is_refused(kind, field):
    with pytest.raises(SpecError, match=field):
        kind.from_wire({field: "eastus"})


def test_a_workspace_is_read_in_any_spelling_and_with_its_tags():
    wire = {"Location": "eastus", "tags": {"team": "a"}}
    assert WorkspaceSpec.from_wire(wire) == WorkspaceSpec(location="eastus", tags={"team": "a"})
