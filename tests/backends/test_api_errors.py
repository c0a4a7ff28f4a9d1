"""The words of the service are its own, whichever backend says them."""

import errno

import pytest

from batchai_magics.backends.base import api_errors
from batchai_magics.errors import DISK_FULL, ConflictError, NotFoundError, StorageError
from batchai_magics.models.resource_ids import Kind, ResourceId

WORKSPACE = ResourceId("s", "g", "first", Kind.WORKSPACE, "first")
EXPERIMENT = WORKSPACE.child(Kind.EXPERIMENT, "exp1")
JOB = EXPERIMENT.child(Kind.JOB, "job")


@pytest.mark.parametrize(
    ("error", "kind", "code"),
    [
        (api_errors.node_not_found("n"), NotFoundError, "NodeNotFound"),
        (api_errors.account_taken("a"), ConflictError, "StorageAccountAlreadyTaken"),
        (api_errors.does_not_end(JOB), ConflictError, "JobNotTerminated"),
        (api_errors.not_low_priority(JOB), ConflictError, "NotLowPriority"),
    ],
)
def test_a_refusal_has_its_kind_and_code(error, kind, code):
    assert (type(error), error.code) == (kind, code)


def test_not_found_errors_list_what_is_available():
    assert api_errors.not_found(JOB, ["a", "b"]).hint == "Available: a, b."
    assert api_errors.account_not_found("x", ["acc"]).hint == "Available: acc."
    assert api_errors.account_not_found("x").hint == "There are none yet."


def test_too_many_nodes_are_reported_with_a_remedy():
    error = api_errors.too_many_nodes(3, WORKSPACE.child(Kind.CLUSTER, "c"), 2)
    (problem,) = error.problems
    assert (problem.path, error.what) == ("properties.nodeCount", "the job description")
    assert problem.message == "3 nodes were requested, but cluster c has 2"
    resize = "batchai cluster resize -n c -t 3"
    assert problem.fix == f"ask for at most 2, add --grow, or run `{resize}`"


SHARE = "share 's' cannot be written"


@pytest.mark.parametrize(
    ("number", "kind", "code", "text", "hint"),
    [
        (errno.ENOSPC, StorageError, DISK_FULL, f"{SHARE}: its disk is full", "Free some space there and"),
        (errno.EDQUOT, StorageError, DISK_FULL, f"{SHARE}: its disk is full", "Free some space there and"),
        (
            errno.ENAMETOOLONG,
            StorageError,
            "",
            f"{SHARE} at such a path: why",
            "A name has at most 255 bytes",
        ),
        (errno.EISDIR, ConflictError, "ResourceTypeMismatch", f"{SHARE} there: why", "A file and a folder"),
        (errno.EFBIG, StorageError, DISK_FULL, f"{SHARE}: no file can be that large there", ""),
        (
            errno.EROFS,
            StorageError,
            "ShareReadOnly",
            f"{SHARE}: why",
            "Give the backend's user write",
        ),
        (errno.EIO, StorageError, "ShareUnavailable", f"{SHARE}: why", "Try again in a moment."),
    ],
)
def test_a_failed_write_to_a_share_is_reported_with_its_cause(number, kind, code, text, hint):
    error = api_errors.share_not_written("s", OSError(number, "why"))
    assert (type(error), error.code, error.message) == (kind, code, text)
    assert error.hint.startswith(hint)
    assert bool(error.hint) is bool(hint)
