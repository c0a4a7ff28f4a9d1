"""Any resource that can be shown is the same when it is read again."""

from __future__ import annotations

import json
from datetime import datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from batchai_magics.models.cluster_spec import ClusterSpec, NodeStateCounts, UserAccountSettings
from batchai_magics.models.error_details import ErrorDetail, NameValue
from batchai_magics.models.file_server import (
    CachingType,
    DataDisks,
    FileServer,
    FileServerSpec,
    MountSettings,
    SshConfiguration,
    StorageAccountType,
)
from batchai_magics.models.job_execution import ExecutionInfo, FileKind, OutputFile, RankExit
from batchai_magics.models.job_spec import JobSpec
from batchai_magics.models.resource_ids import Kind, ResourceId
from batchai_magics.models.resources import Cluster, Experiment, JobResource, Node, Workspace
from batchai_magics.models.response_object import Provisioning, ProvisioningState
from batchai_magics.models.states import AllocationState, ExecutionState, NodeState
from batchai_magics.models.subscription import ResourceGroup, StorageAccount, Usage
from tests.models.test_round_trip import clusters, jobs, text

name = st.from_regex(r"[-_A-Za-z0-9]{1,12}", fullmatch=True)
count = st.integers(0, 2**31 - 1)
exit_code = st.none() | st.integers(-1, 255)
# Times have milliseconds on the wire.
moment = st.integers(0, 4_000_000_000_000).map(
    lambda ms: datetime(1970, 1, 1, tzinfo=timezone.utc) + timedelta(milliseconds=ms)
)


def model(kind, **fields):
    return st.fixed_dictionaries(fields).map(lambda values: kind(**values))


workspace_id = st.builds(
    lambda subscription, group, name: ResourceId(subscription, group, name, Kind.WORKSPACE, name),
    name,
    name,
    name,
)
experiment_id = st.builds(lambda parent, name: parent.child(Kind.EXPERIMENT, name), workspace_id, name)
job_id = st.builds(lambda parent, name: parent.child(Kind.JOB, name), experiment_id, name)
made = st.builds(Provisioning, moment, moment, st.sampled_from(ProvisioningState))
details = st.none() | st.lists(model(NameValue, name=text, value=st.text()), max_size=2).map(tuple)
error = model(ErrorDetail, code=text, message=st.text(), details=details)
errors = st.lists(error, max_size=2).map(tuple)
execution = st.builds(ExecutionInfo, moment, st.none() | moment, exit_code, errors)
rank = st.builds(RankExit, st.integers(0, 10_000), text, exit_code, st.none() | moment)
workspaces = st.builds(Workspace, workspace_id, text, made, st.dictionaries(text, text, max_size=3))
experiments = st.builds(Experiment, experiment_id, made)
nodes = st.builds(Node, text, st.sampled_from(NodeState), st.none() | job_id, text, count, st.none() | moment)


def without_secrets(kind):
    """Descriptions as a service shows them."""
    return lambda data: kind.from_wire(kind.from_wire(data).to_wire())


shown_jobs = st.builds(
    JobResource,
    job_id,
    jobs().map(without_secrets(JobSpec)),
    made,
    st.sampled_from(ExecutionState),
    moment,
    text,
    st.none() | execution,
    st.lists(rank, max_size=4).map(tuple),
)
shown_clusters = st.builds(
    Cluster,
    st.builds(lambda parent, name: parent.child(Kind.CLUSTER, name), workspace_id, name),
    clusters.map(without_secrets(ClusterSpec)),
    made,
    st.sampled_from(AllocationState),
    moment,
    model(NodeStateCounts, **{f"{state.value}_node_count": st.integers(0, 99) for state in NodeState}),
    errors,
)
servers = st.builds(
    FileServer,
    st.builds(lambda parent, name: parent.child(Kind.FILE_SERVER, name), workspace_id, name),
    model(
        FileServerSpec,
        vm_size=text,
        ssh_configuration=model(
            SshConfiguration,
            public_ips_to_allow=st.none() | st.lists(text, max_size=2).map(tuple),
            user_account_settings=model(UserAccountSettings, admin_user_name=text),
        ),
        data_disks=model(
            DataDisks,
            disk_size_in_gb=st.integers(1, 4096),
            caching_type=st.sampled_from(CachingType),
            disk_count=st.integers(1, 64),
            storage_account_type=st.sampled_from(StorageAccountType),
        ),
    ),
    made,
    model(MountSettings, mount_point=text, public_ip=text, internal_ip=text),
)

file_name = text.filter(lambda value: "/" not in value)
address = st.none() | text
other_kinds = st.sampled_from([kind for kind in FileKind if kind is not FileKind.FILE])
files = st.one_of(
    st.builds(OutputFile, file_name, st.just(FileKind.FILE), count, st.none() | moment, address),
    st.builds(OutputFile, file_name, other_kinds, st.just(0)),
)
groups = st.builds(ResourceGroup, name, name, text, st.dictionaries(text, text, max_size=3))
accounts = st.builds(StorageAccount, name, name, name, text, text, text)
usages = st.builds(Usage, text, text, count, count)


SHOWN = {
    "workspace": workspaces,
    "experiment": experiments,
    "cluster": shown_clusters,
    "job": shown_jobs,
    "file server": servers,
    "node": nodes,
    "provisioning": made,
    "execution": execution,
    "error": error,
    "rank": rank,
    "file": files,
    "group": groups,
    "account": accounts,
    "usage": usages,
}


@pytest.mark.parametrize("kind", SHOWN)
@given(st.data())
def test_resource_is_equal_after_a_round_trip(kind, data):
    resource = data.draw(SHOWN[kind])
    wire = json.loads(json.dumps(resource.to_wire()))
    assert type(resource).from_wire(wire) == resource


@given(files, name)
def test_a_file_is_read_with_the_folder_that_was_listed(file, folder):
    inside = OutputFile.from_wire(file.to_wire(), folder=folder)
    assert (inside.path, inside.name) == (f"{folder}/{file.path}", file.name)
