from types import SimpleNamespace

import pytest

from batchai_magics.errors import SpecError, UsageError
from batchai_magics.models.resource_ids import (
    Kind,
    ResourceId,
    check_account_name,
    check_group_name,
    check_name,
    check_share_name,
    cluster_id,
    cluster_named_in,
    of_kind,
    workspace_id,
)

WORKSPACE = ResourceId("s", "g", "w", Kind.WORKSPACE, "w")
JOB = WORKSPACE.child(Kind.EXPERIMENT, "e").child(Kind.JOB, "j")


@pytest.mark.parametrize(
    "id",
    [WORKSPACE, JOB, JOB.parent, WORKSPACE.child(Kind.CLUSTER, "c"), WORKSPACE.child(Kind.FILE_SERVER, "f")],
)
def test_an_id_that_is_printed_is_read_again(id):
    assert ResourceId.parse(str(id)) == id


@pytest.mark.parametrize(
    "text",
    [str(JOB).upper(), str(JOB).replace("workspaces", "workspace"), f"{JOB}/", f" {JOB}\n", f"{JOB} "],
    ids=["upper case", "as in the specification's example", "slash", "line", "blank"],
)
def test_other_spellings_of_an_id_are_read(text):
    assert ResourceId.parse(text).key == JOB.key


@pytest.mark.parametrize(
    ("id", "wire_type"),
    [
        (WORKSPACE, "Microsoft.BatchAI/workspaces"),
        (JOB.parent, "Microsoft.BatchAI/workspaces/experiments"),
        (JOB, "Microsoft.BatchAI/workspaces/experiments/jobs"),
        (WORKSPACE.child(Kind.CLUSTER, "c"), "Microsoft.BatchAI/workspaces/clusters"),
        (WORKSPACE.child(Kind.FILE_SERVER, "f"), "Microsoft.BatchAI/workspaces/fileservers"),
    ],
)
def test_types_are_those_of_the_service(id, wire_type):
    assert id.kind.wire_type == wire_type


def test_id_gives_its_parents():
    assert JOB.parent.name == "e"
    assert JOB.parent.parent == WORKSPACE
    assert JOB.workspace_id == WORKSPACE


@pytest.mark.parametrize(
    "text",
    ["", "/", "nc6", "/subscriptions/s", "/subscriptions/s/resourceGroups/g/providers/Microsoft.Compute/a/i",
     str(WORKSPACE) + "/clusters", str(WORKSPACE) + "/jobs/j", str(WORKSPACE) + "/things/t"],
)  # fmt: skip
def test_what_is_no_id_is_refused(text):
    with pytest.raises(SpecError, match="is not a Batch AI resource id"):
        ResourceId.parse(text)


def test_a_group_called_workspaces_is_no_workspace():
    old = "/subscriptions/s/resourceGroups/workspaces/providers/Microsoft.BatchAI/clusters/nc6"
    assert cluster_id(old, WORKSPACE) == WORKSPACE.child(Kind.CLUSTER, "nc6")
    new = ResourceId("s", "workspaces", "workspaces", Kind.CLUSTER, "nc6")
    assert cluster_id(str(new), WORKSPACE) == new == ResourceId.parse(str(new))


@pytest.mark.parametrize(
    ("part", "sign"), [*zip("wgswgs", ["\n", "\0", "\x1b", "\x9b", "\u2028", "\ud800"], strict=True)]
)
def test_no_id_holds_what_ends_a_line_or_steers_a_terminal(part, sign):
    text = str(WORKSPACE).replace(f"/{part}", f"/{part}{sign}x", 1)
    with pytest.raises(SpecError, match="is not a Batch AI resource id"):
        ResourceId.parse(text + "/clusters/c")


def check_job_name(name):
    return check_name(name, Kind.JOB)


NAMES = {  # what each is called, the good ones and the bad ones
    check_job_name: (
        "valid job",
        ["a", "A-b_9", "x" * 64],
        ["", "a b", "a.b", "../a", "ä", "x" * 65, "a\n", "a/b"],
    ),
    check_group_name: (
        "resource group",
        ["My.group_(1)-x", "g" * 90],
        ["", "g" * 91, "a/b", "a b", "ä", "g\n"],
    ),
    check_account_name: ("account", ["abc", "a1" * 12], ["", "ab", "a" * 25, "Acc", "a-b", "acc\n"]),
    check_share_name: (
        "valid share",
        ["data", "acc/my-data-1", "s" * 63],
        ["", "ab", "s" * 64, "-ab", "a--b", "ab-", "Data", "a/b/data", "../x", "AC/data"],
    ),
}


@pytest.mark.parametrize("check", NAMES)
def test_good_names_are_given_back_and_bad_ones_refused(check):
    kind, good, bad = NAMES[check]
    assert [check(name) for name in good] == good
    for name in bad:
        with pytest.raises(SpecError, match=rf"is not an? {kind} name"):
            check(name)


def test_workspace_is_the_named_one_or_the_settings():
    names = SimpleNamespace(subscription="s", resource_group="g", workspace="w")
    assert workspace_id(names) == WORKSPACE
    assert workspace_id(names, "other").workspace == "other"
    with pytest.raises(SpecError, match="is not a valid workspace name"):
        workspace_id(names, "a/b")


@pytest.mark.parametrize(
    ("text", "cluster"),
    [
        ("nc6", WORKSPACE.child(Kind.CLUSTER, "nc6")),
        (
            "/subscriptions/x/resourceGroups/y/providers/Microsoft.BatchAI/clusters/nc6",
            WORKSPACE.child(Kind.CLUSTER, "nc6"),
        ),
        (
            "/subscriptions/x/resourceGroups/y/providers/microsoft.batchai/Clusters/nc6/",
            WORKSPACE.child(Kind.CLUSTER, "nc6"),
        ),
        (
            "/subscriptions/x/resourceGroups/y/providers/Microsoft.BatchAI/workspace/v/clusters/nc6",
            ResourceId("x", "y", "v", Kind.CLUSTER, "nc6"),
        ),
    ],
    ids=["a name", "an id of 2017", "an id of 2017 in other letters", "an id"],
)
def test_a_cluster_is_a_name_or_an_id_of_either_year(text, cluster):
    assert cluster_id(text, WORKSPACE) == cluster


@pytest.mark.parametrize("text", ["a.b", "/subscriptions/s/jobs/x", str(JOB), str(WORKSPACE)])
def test_what_names_no_cluster_is_refused(text):
    with pytest.raises(UsageError):
        cluster_id(text, WORKSPACE)


@pytest.mark.parametrize(
    ("properties", "named"), [({}, None), ({"cluster": {}}, None), ({"cluster": {"id": "nc6"}}, "nc6")]
)
def test_a_jobs_json_names_its_cluster_or_none(properties, named):
    assert cluster_named_in(properties) == named


def test_a_cluster_that_is_no_text_is_refused_by_its_path():
    with pytest.raises(SpecError, match=r"properties\.cluster\.id: expected text, got 5"):
        cluster_named_in({"cluster": {"id": 5}})


def test_an_id_of_another_kind_is_refused_with_both_kinds():
    with pytest.raises(UsageError, match="is the id of a job, not of a cluster"):
        of_kind(JOB, Kind.CLUSTER)
    with pytest.raises(UsageError, match="is the id of an experiment, not of a job"):
        of_kind(JOB.parent, Kind.JOB)
