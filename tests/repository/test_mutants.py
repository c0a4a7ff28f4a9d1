"""What `make mutants` is told of the package, and the table that it prints."""

import sys
from pathlib import Path

import pytest

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).parents[2]
MUTMUT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["mutmut"]


@pytest.mark.parametrize("pattern", MUTMUT["only_mutate"] + MUTMUT["pytest_add_cli_args_test_selection"])
def test_what_is_mutated_and_what_must_notice_is_there(pattern):
    assert list(ROOT.glob(pattern))
