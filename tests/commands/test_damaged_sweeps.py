"""Definitions of sweeps that anybody may have written: a bad one is its own trouble."""

from __future__ import annotations

import json

import pytest

from batchai_magics.cell import Notebook
from batchai_magics.cell.sweep_request import parse_sweep
from batchai_magics.errors import StorageError
from batchai_magics.jobs.sweeps.sweep_definition import VERSION, SweepDefinition, definition_of
from batchai_magics.jobs.sweeps.sweep_handle import Sweep

SHARE = "batchaishare"
WRITTEN = {"version": VERSION, "name": "s", "digest": "", "options": {"search": "grid"}}
DAMAGED = {
    "text": "no JSON",
    "deep": "[" * 100_000,
    "huge": json.dumps({**WRITTEN, "trial_count": 10**9}),
    "odd": json.dumps({**WRITTEN, "name": ["x"]}),
    "options": json.dumps({**WRITTEN, "options": {"retries": -1}}),
    "space": json.dumps({**WRITTEN, "options": {"search": "grid", "space": "lr="}}),
    "encoded": json.dumps(WRITTEN).replace('"s"', '"\\ud800"'),
}


@pytest.fixture
def damaged(context, do) -> list[str]:
    do("workspace create -n default")
    context.backend.storage.make(SHARE)
    context.backend.storage.upload(
        SHARE, {f"sweeps/default/{name}.json": text.encode() for name, text in DAMAGED.items()}
    )
    return sorted(DAMAGED)


def test_damaged_sweeps_are_listed_with_a_warning_each(do, damaged) -> None:
    do("experiment create -n default")
    listed = do("sweep list")
    assert [row["name"] for row in listed.value.to_data()] == damaged
    assert {row["state"] for row in listed.value.to_data()} == {"unreadable"}
    assert len(listed.notes) == len(damaged)


def test_a_damaged_sweep_is_a_message(context, damaged) -> None:
    for name in damaged:
        with pytest.raises(StorageError, match=f"sweep {name} cannot be read"):
            _ = Sweep.find(context.backend, name, context.settings).definition


def test_a_definition_is_read_as_it_was_written(context) -> None:
    request = parse_sweep(
        's --sweep "lr=0.1,0.2"', "print(1)", settings=context.settings, notebook=Notebook()
    )
    written = definition_of(request, "s", now=1000.0)
    assert SweepDefinition.from_json(written.to_json()) == written


def test_a_stored_space_has_texts_that_a_new_sweep_may_not_have() -> None:
    options = {"search": "grid", "space": "batch=32,64 lr=0.1:0.3"}
    read = SweepDefinition.from_json(json.dumps({**WRITTEN, "options": options}))
    assert read.parameters == ("batch", "lr")
