"""The records of a home: inserted once, found, listed, changed, deleted."""

from __future__ import annotations

from dataclasses import replace

import pytest

from batchai_magics.backends.base import Page
from batchai_magics.backends.service.repository import CLUSTER_GUID, OWNER, Record, Repository
from batchai_magics.errors import NotFoundError, ServiceError
from batchai_magics.models.resource_ids import Kind, ResourceId
from tests.backends.service.records.homes import (
    CLUSTER,
    EXPERIMENT,
    JOB,
    WORKSPACE,
    Home,
    job_named,
    record,
)


def insert(records: Repository, *ids: ResourceId, **more: object) -> list[Record]:
    """Records of these, each created later than the one before."""
    made = [record(id, guid=id.name, created=float(at), **more) for at, id in enumerate(ids, start=2)]
    assert [records.insert(each) for each in made] == [None] * len(made)
    return made


def test_written_record_is_read_unchanged(home: Home, records: Repository) -> None:
    made = Record(str(JOB), "guid", '{"a": 1}', "digest", 1_767_323_045.123456, {OWNER: "ada", "n": [1, {}]})
    records.insert(made)
    assert home.opened().get(JOB) == made
    assert (made.kind, made.name) == (Kind.JOB, "Job")


def test_names_are_matched_case_insensitively_and_keep_their_case(records: Repository) -> None:
    records.insert(record(JOB))
    assert records.get(EXPERIMENT.child(Kind.JOB, "JOB")).resource_id.name == "Job"


def test_error_names_the_outermost_missing_resource(records: Repository) -> None:
    with pytest.raises(NotFoundError, match="experiment nope"):
        records.get(WORKSPACE.child(Kind.EXPERIMENT, "nope").child(Kind.JOB, "x"))


def test_insertion_into_a_missing_parent_is_refused(records: Repository) -> None:
    nowhere = WORKSPACE.child(Kind.EXPERIMENT, "nope")
    inner = nowhere.child(Kind.JOB, "x")
    with pytest.raises(NotFoundError, match="experiment nope"):
        records.insert(record(inner))
    records.insert(record(nowhere))
    assert records.find(inner) is None


# -- lists


def test_a_list_of_one_kind_holds_no_other_and_nothing_from_elsewhere(records: Repository) -> None:
    beside = WORKSPACE.child(Kind.EXPERIMENT, "e0")
    insert(records, JOB, beside, beside.child(Kind.JOB, "other"))
    assert records.names(EXPERIMENT, Kind.JOB) == ["Job"]
    assert records.names(WORKSPACE, Kind.CLUSTER) == ["c"]


def test_pages_add_up_to_the_list(records: Repository) -> None:
    made = insert(records, *map(job_named, "edcba"))
    page, seen = Page(size=2), []
    while page:
        found, page = records.children(EXPERIMENT, Kind.JOB, page)
        seen.append([each.name for each in found])
    assert seen == [["e", "d"], ["c", "b"], ["a"]]
    assert records.children(EXPERIMENT, Kind.JOB, Page(size=5)) == (made, None)


@pytest.mark.parametrize("token", ["x", "-1", "\u00b2", "9" * 19, "0001700000000.000001"])
def test_invalid_page_token_is_refused(records: Repository, token: str) -> None:
    insert(records, JOB)
    with pytest.raises(ServiceError, match="is not from this service") as caught:
        records.children(EXPERIMENT, Kind.JOB, Page(after=token))
    assert caught.value.code == "InvalidSkipToken"


def test_prefix_of_names_is_matched_case_insensitively(records: Repository) -> None:
    insert(records, *map(job_named, ("train-2", "eval", "Train-1", "tr_in")))
    assert records.names(EXPERIMENT, Kind.JOB, "TRAIN") == ["train-2", "Train-1"]


def test_workspaces_are_listed_in_their_group_and_all_together(records: Repository) -> None:
    beside, away = replace(WORKSPACE, workspace="a", name="a"), replace(WORKSPACE, group="h")
    insert(records, beside, away)
    assert {each.id for each in records.workspaces()} == {str(WORKSPACE), str(beside), str(away)}
    assert records.names(WORKSPACE, Kind.WORKSPACE) == ["w", "a"]
    assert records.names(away, Kind.WORKSPACE) == ["w"]


def test_clusters_of_all_workspaces(records: Repository) -> None:
    away = replace(WORKSPACE, group="h")
    insert(records, away, away.child(Kind.CLUSTER, "d"), JOB)
    assert {each.name for each in records.clusters()} == {"c", "d"}


def test_subtree_is_listed_innermost_first(records: Repository) -> None:
    insert(records, job_named("a"), WORKSPACE.child(Kind.EXPERIMENT, "e0"))
    assert [each.name for each in records.subtree(EXPERIMENT)] == ["a", "e"]
    assert {each.name for each in records.subtree(WORKSPACE)} == {"a", "c", "e", "e0", "w"}
    assert records.subtree(WORKSPACE)[-1].name == "w"
    with pytest.raises(NotFoundError, match="job nope"):
        records.subtree(job_named("nope"))


# -- owners


def test_owners_are_listed_for_owned_resources_only(records: Repository) -> None:
    records.insert(record(JOB, **{OWNER: "ada"}))
    groups = str(WORKSPACE).rpartition("/providers/")[0].lower()
    for key in (JOB.key, EXPERIMENT.key, WORKSPACE.key, groups):
        assert records.owners(key) == {JOB.key: "ada"}
    assert records.owners(CLUSTER.key) == records.owners(JOB.key[:-1]) == {}


# -- changes


def test_change_keeps_the_other_fields(home: Home, records: Repository) -> None:
    a, b = insert(records, job_named("a"), job_named("b"), n=1, **{OWNER: "ada"})
    changed = records.change(job_named("a"), lambda now: now.changed({"n": 2}, spec="new"))
    assert changed == replace(a, spec="new", more={OWNER: "ada", "n": 2})
    assert home.opened().find_all([job_named("a"), job_named("b")]) == [changed, b]


def test_a_change_that_fails_changes_nothing(records: Repository) -> None:
    with pytest.raises(ZeroDivisionError):
        records.change(WORKSPACE, lambda now: now.changed({"n": 1 // 0}))
    assert records.change(WORKSPACE, lambda now: now.changed({"m": 1})).more == {"m": 1}


def test_deletion_removes_a_resource_and_its_contents_only(records: Repository) -> None:
    beside = WORKSPACE.child(Kind.EXPERIMENT, "e0")
    insert(records, JOB, beside, beside.child(Kind.JOB, "other"))
    records.delete(EXPERIMENT)
    left = [EXPERIMENT, JOB, beside, beside.child(Kind.JOB, "other"), CLUSTER]
    assert [each.name for each in records.find_all(left)] == ["e0", "other", "c"]


# -- open jobs, snapshots


def test_jobs_are_open_until_their_runs_have_ended(home: Home, records: Repository) -> None:
    ids = [job_named("b"), job_named("a"), job_named("ended"), job_named("deleted")]
    jobs = insert(records, *ids, **{CLUSTER_GUID: "1"})
    (other,) = insert(records, job_named("other"), **{CLUSTER_GUID: "2"})
    for job in (*jobs, other):
        home.begin(records, job)
    home.end(records, jobs[2])
    records.delete(ids[3])
    assert records.open_jobs("1") == jobs[:2]
    assert {each.name for each in records.all_open_jobs()} == {"b", "a", "other"}
    assert records.open_jobs("3") == []


def test_a_change_within_a_snapshot_is_seen_by_everybody(home: Home, records: Repository) -> None:
    with records.snapshot([WORKSPACE, JOB], ["1"]):
        assert records.get(WORKSPACE).name == "w"
        with records.snapshot([WORKSPACE, JOB], ["1"]):
            records.insert(record(JOB))
        assert records.get(JOB) == home.opened().get(JOB)
    assert records.get(JOB).name == "Job"
