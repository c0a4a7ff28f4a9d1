"""No verb of the protocol is left out of this suite, and a place is asked for nothing else."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from batchai_magics.backends.base import (
    FACETS,
    Accounts,
    Backend,
    Cleaning,
    Groups,
    NodeCommands,
    Ownership,
    Preemption,
    SetupLogs,
    Storage,
    Telemetry,
    Usages,
)

TESTS = "".join(path.read_text() for path in Path(__file__).parent.glob("test_*.py"))
HELPERS = (Path(__file__).parent / "places.py").read_text()


def verbs(protocol: type) -> set[str]:
    return {name for name in {*vars(protocol), *protocol.__annotations__} if not name.startswith("_")}


@pytest.mark.parametrize(
    "protocol",
    [
        *(Backend, Storage, Accounts, Groups, NodeCommands, Preemption, SetupLogs, Telemetry, Usages),
        *(Cleaning, Ownership),
    ],
)
def test_every_verb_is_tested(protocol: type) -> None:
    missing = {verb for verb in verbs(protocol) if not re.search(rf'[."]{verb}\b', TESTS + HELPERS)}
    assert not missing


def test_backends_are_asked_for_their_verbs_only() -> None:
    asked = set(re.findall(r"\bbackend\.(\w+)", TESTS + HELPERS))
    assert asked <= verbs(Backend)


def test_every_facet_is_one_of_a_backend() -> None:
    assert {facet.attribute for facet in FACETS} <= verbs(Backend)
