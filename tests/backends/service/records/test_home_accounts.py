"""The resource groups and storage accounts of a home, in files and in a database."""

from __future__ import annotations

import errno
import os
from concurrent.futures import ThreadPoolExecutor

import pytest

from batchai_magics.backends.folders import private_files
from batchai_magics.backends.service.home_subscription import HomeAccounts, HomeGroups
from batchai_magics.errors import SpecError, StorageError
from tests.backends.service.records.homes import Home


@pytest.fixture
def groups(home: Home) -> HomeGroups:
    return HomeGroups(home.opened().groups)


@pytest.fixture
def accounts(home: Home) -> HomeAccounts:
    return HomeAccounts(home.opened())


def test_created_account_is_read_unchanged(home: Home, groups: HomeGroups, accounts: HomeAccounts) -> None:
    made = accounts.create("acc", "Mine", "here", "Standard_GRS")
    assert (made.name, made.group, made.location, made.sku) == ("acc", "Mine", "here", "Standard_GRS")
    assert HomeAccounts(home.opened()).show("acc") == made
    assert accounts.create("other", "Mine", "here").sku == "Standard_LRS"
    assert [group.name for group in groups.list()] == ["Mine"]


def test_concurrent_creations_of_an_account_return_the_same(home: Home, accounts: HomeAccounts) -> None:
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda _: accounts.create("acc", "g", "here"), range(8)))
    keys = accounts.keys("acc")
    accounts.create("acc", "g", "here")
    assert accounts.keys("acc") == keys


def test_a_change_of_an_account_that_was_deleted_meanwhile_does_not_bring_it_back(
    home: Home, accounts: HomeAccounts
) -> None:
    accounts.create("acc", "g", "here")
    accounts.delete("acc")
    home.opened().accounts.change("acc", key1="new")
    assert accounts.list() == []


@pytest.mark.parametrize(("number", "code"), [(errno.ENOSPC, "DiskFull"), (errno.EROFS, "StateUnavailable")])
def test_unwritable_group_is_refused(
    groups: HomeGroups, monkeypatch: pytest.MonkeyPatch, number: int, code: str
) -> None:
    def fail(*_: object, **__: object) -> bool:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(private_files, "write_new", fail)
    with pytest.raises(StorageError, match=os.strerror(number)) as caught:
        groups.create("g", "here")
    assert caught.value.code == code


def test_group_with_a_lone_surrogate_is_refused_with_its_field(groups: HomeGroups) -> None:
    groups.create("g", "here", {"a": "b"})
    with pytest.raises(SpecError, match=r"tags\.a: this text holds a lone surrogate"):
        groups.create("g", "here", {"a": "\ud800"})
    with pytest.raises(SpecError, match="location"):
        groups.create("other", "\ud800")
    assert [(group.name, group.tags) for group in groups.list()] == [("g", {"a": "b"})]


@pytest.mark.parametrize("damage", ["{", '{"tags": {}}'])
def test_a_damaged_group_is_left_out_of_lists_with_a_warning_and_named_when_it_is_shown(
    home: Home, groups: HomeGroups, damage: str
) -> None:
    for name in ("damaged", "whole"):
        groups.create(name, "here")
    (home.opened().layout.home / "groups" / "=damaged.json").write_text(damage)
    with pytest.warns(RuntimeWarning, match=r"=damaged.json is damaged"):
        assert [group.name for group in groups.list()] == ["whole"]
    with pytest.raises(StorageError, match=r"=damaged.json is damaged"):
        groups.show("damaged")
