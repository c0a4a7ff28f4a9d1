"""What `make mutants` is told of the package, and the table that it prints."""

import json
import sys
from pathlib import Path

import pytest

from tests import mutants

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).parents[2]
MUTMUT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["mutmut"]


@pytest.mark.parametrize("pattern", MUTMUT["only_mutate"] + MUTMUT["pytest_add_cli_args_test_selection"])
def test_what_is_mutated_and_what_must_notice_is_there(pattern):
    assert list(ROOT.glob(pattern))


def test_the_table_counts_who_was_noticed_and_leaves_out_who_was_not_tried(tmp_path, monkeypatch):
    monkeypatch.setattr(mutants, "RESULTS", tmp_path)
    codes = {"killed": 1, "timed out": 36, "alive": 0, "untouched": 33, "to do": None}
    (tmp_path / "follow.py.meta").write_text(json.dumps({"exit_code_by_key": codes}))
    (tmp_path / "idle.py.meta").write_text(json.dumps({"exit_code_by_key": {"to do": None}}))
    assert mutants.table() == [" 50%     2 of    4  follow.py"]
