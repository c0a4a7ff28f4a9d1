"""The words of the service are its own, whichever backend says them."""

import pytest

from batchai_magics.backends.service import api_errors
from batchai_magics.errors import ConflictError, NotFoundError
from batchai_magics.models.resource_ids import Kind, ResourceId

WORKSPACE = ResourceId("s", "g", "first", Kind.WORKSPACE, "first")
EXPERIMENT = WORKSPACE.child(Kind.EXPERIMENT, "exp1")
JOB = EXPERIMENT.child(Kind.JOB, "job")


@pytest.mark.parametrize(
    ("id", "message", "code"),
    [
        (WORKSPACE, "The specified workspace first is not found", "WorkspaceNotFound"),
        (EXPERIMENT, "The specified experiment exp1 is not found", "ExperimentNotFound"),
        (
            WORKSPACE.child(Kind.CLUSTER, "cluster"),
            "The specified cluster cluster is not found",
            "ClusterNotFound",
        ),
        (
            WORKSPACE.child(Kind.FILE_SERVER, "nfs"),
            "The specified file server nfs is not found",
            "FileServerNotFound",
        ),
        (JOB, "The specified job job is not found", "JobNotFound"),
    ],
)
def test_what_is_not_there_is_said_in_the_recorded_words(id, message, code):
    error = api_errors.not_found(id)
    assert (error.message, error.code, error.hint) == (message, code, "")


def test_what_is_there_in_its_place_is_named():
    assert api_errors.not_found(JOB, ["a", "b"]).hint == "There are: a, b."
    assert api_errors.account_not_found("x", ["acc"]).hint == "There are: acc."
    assert api_errors.account_not_found("x").hint == "There is none yet."


def test_an_output_directory_is_not_known_or_not_here():
    unknown = api_errors.output_directory_not_found("NOPE", ["MODEL"])
    elsewhere = api_errors.output_directory_not_here("MODEL", "/tmp/x")
    assert unknown.message == "The specified outputDirectoryId NOPE is not present on a mount root"
    assert (unknown.code, elsewhere.code) == ("OutputDirectoryNotFound", "OutputDirectoryNotFound")
    assert unknown.hint == "This job has: stdouterr, workdir, MODEL."
    assert elsewhere.hint == "It is at /tmp/x on the job's nodes."


def test_a_name_that_is_taken_is_a_conflict_by_its_kind():
    assert api_errors.already_exists(JOB).code == "JobAlreadyExists"
    cluster = api_errors.already_exists(WORKSPACE.child(Kind.CLUSTER, "c"))
    assert cluster.code == "ClusterAlreadyExists"
    assert cluster.message == '"c" already exists in "g" resource group under first resource group.'


def test_too_many_nodes_are_told_with_what_would_help():
    error = api_errors.too_many_nodes(3, WORKSPACE.child(Kind.CLUSTER, "c"), 2)
    (problem,) = error.problems
    assert problem.path == "properties.nodeCount"
    assert "%batchai cluster resize -n c -t 3" in problem.fix


@pytest.mark.parametrize(
    ("error", "kind", "code"),
    [
        (api_errors.node_not_found("n"), NotFoundError, "NodeNotFound"),
        (api_errors.group_not_found("g"), NotFoundError, "ResourceGroupNotFound"),
        (api_errors.account_not_found("a"), NotFoundError, "StorageAccountNotFound"),
        (api_errors.account_taken("a"), ConflictError, "StorageAccountAlreadyTaken"),
        (api_errors.does_not_end(JOB), ConflictError, "JobNotTerminated"),
        (api_errors.share_not_found("s"), NotFoundError, "ShareNotFound"),
        (api_errors.not_on_share("s", "a"), NotFoundError, "ResourceNotFound"),
        (api_errors.no_file_of_share("s", "a"), NotFoundError, "ResourceNotFound"),
        (api_errors.no_folder_of_share("s", "a"), NotFoundError, "ParentNotFound"),
        (api_errors.not_low_priority(JOB), ConflictError, "NotLowPriority"),
    ],
)
def test_every_refusal_has_its_kind_and_code(error, kind, code):
    assert isinstance(error, kind)
    assert error.code == code
