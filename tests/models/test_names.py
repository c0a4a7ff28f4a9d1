import pytest

from batchai_magics.errors import SpecError
from batchai_magics.models.resource_ids import check_account_name, check_group_name, check_share_name


@pytest.mark.parametrize(
    ("check", "name"),
    [
        (check_group_name, "My.group_(1)-x"),
        (check_group_name, "g" * 90),
        (check_account_name, "abc"),
        (check_account_name, "a1" * 12),
        (check_share_name, "data"),
        (check_share_name, "acc/my-data-1"),
        (check_share_name, "s" * 63),
    ],
)
def test_good_names_are_given_back(check, name):
    assert check(name) == name


@pytest.mark.parametrize(
    ("check", "names"),
    [
        (check_group_name, ["", "g" * 91, "a/b", "a b", "ä", "g\n"]),
        (check_account_name, ["", "ab", "a" * 25, "Acc", "a-b", "acc\n"]),
        (check_share_name, ["", "ab", "s" * 64, "-ab", "a--b", "ab-", "Data", "a/b/data", "../x", "AC/data"]),
    ],
)
def test_bad_names_are_refused(check, names):
    for name in names:
        with pytest.raises(SpecError):
            check(name)
