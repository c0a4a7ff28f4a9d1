"""The resource groups and storage accounts of a home, in files and in a database."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from batchai_magics.backends.folders.home_accounts import HomeAccounts, HomeGroups
from batchai_magics.backends.folders.layout import Layout
from batchai_magics.errors import ConflictError, NotFoundError
from tests.backends.service.records.homes import Home


@pytest.fixture
def groups(home: Home) -> HomeGroups:
    return HomeGroups(home.rows("groups"))


@pytest.fixture
def accounts(home: Home, groups: HomeGroups, tmp_path: Path) -> HomeAccounts:
    return HomeAccounts(Layout(tmp_path / "folders"), groups, home.rows("accounts"))


def test_a_group_is_read_as_it_was_created(home: Home, groups: HomeGroups) -> None:
    groups.create("Mine", "here", {"of": "us"})
    found = HomeGroups(home.rows("groups")).show("mINE")
    assert (found.name, found.location, found.tags) == ("Mine", "here", {"of": "us"})


def test_a_group_that_exists_keeps_all_but_its_tags(groups: HomeGroups) -> None:
    groups.create("g", "here", {"of": "us"})
    groups.create("G", "elsewhere")
    groups.ensure("g", "anywhere")
    assert [(each.name, each.location, each.tags) for each in groups.list()] == [("g", "here", {"of": "us"})]
    assert groups.create("g", "here", {}).tags == {}


def test_groups_are_sorted_by_name_and_forgotten_one_by_one(groups: HomeGroups) -> None:
    for name in "bAc":
        groups.create(name, "here")
    groups.delete_record("B")
    assert [group.name for group in groups.list()] == ["A", "c"]
    with pytest.raises(NotFoundError, match="b"):
        groups.show("b")


def test_an_account_is_read_as_it_was_created(home: Home, groups: HomeGroups, accounts: HomeAccounts) -> None:
    made = accounts.create("acc", "Mine", "here", "Standard_GRS")
    assert (made.name, made.group, made.location, made.sku) == ("acc", "Mine", "here", "Standard_GRS")
    assert HomeAccounts(Layout(home.folder), groups, home.rows("accounts")).show("acc") == made
    assert [group.name for group in groups.list()] == ["Mine"]


def test_an_account_of_another_group_is_taken(accounts: HomeAccounts) -> None:
    made = accounts.create("acc", "g", "here")
    assert accounts.create("acc", "G", "elsewhere") == made
    with pytest.raises(ConflictError, match="acc"):
        accounts.create("acc", "h", "here")


def test_accounts_are_listed_by_group(accounts: HomeAccounts) -> None:
    for name, group in (("bbb", "g"), ("aaa", "h"), ("ccc", "G")):
        accounts.create(name, group, "here")
    assert [each.name for each in accounts.list()] == ["aaa", "bbb", "ccc"]
    assert [each.name for each in accounts.list("g")] == ["bbb", "ccc"]


def test_a_new_key_replaces_one_of_two(accounts: HomeAccounts) -> None:
    accounts.create("acc", "g", "here")
    first, second = accounts.keys("acc")
    accounts.renew_key("acc", 2)
    assert accounts.keys("acc")[0] == first
    assert len({first, second, accounts.keys("acc")[1]}) == 3


def test_an_account_that_was_deleted_is_unknown_and_its_files_are_gone(
    accounts: HomeAccounts, tmp_path: Path
) -> None:
    accounts.create("acc", "g", "here")
    share = tmp_path / "folders" / "shares" / "acc" / "s"
    share.mkdir(parents=True)
    accounts.delete("acc")
    assert not share.parent.exists()
    for use in (accounts.show, accounts.keys, accounts.delete, lambda name: accounts.renew_key(name, 1)):
        with pytest.raises(NotFoundError, match="acc"):
            use("acc")


def test_of_many_that_create_an_account_at_once_all_get_the_same(home: Home, accounts: HomeAccounts) -> None:
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda _: accounts.create("acc", "g", "here"), range(8)))
    keys = accounts.keys("acc")
    accounts.create("acc", "g", "here")
    assert accounts.keys("acc") == keys
