"""Cluster and file server files whose objects are something else are rejected by the field's name."""

from __future__ import annotations

import json

import pytest

from batchai_magics.errors import UsageError
from tests.commands.test_any_line import carried_out

CLUSTER = {"vmSize": "STANDARD_D2", "scaleSettings": {"manual": {"targetNodeCount": 1}}}
SERVER = {"vmSize": "STANDARD_D2"}


@pytest.mark.parametrize(
    ("kind", "properties", "field"),
    [
        ("cluster", {**CLUSTER, "userAccountSettings": " "}, "userAccountSettings"),
        ("cluster", {**CLUSTER, "nodeSetup": "x"}, "nodeSetup"),
        ("file-server", {**SERVER, "sshConfiguration": [1]}, "sshConfiguration"),
        ("file-server", {**SERVER, "dataDisks": 3}, "dataDisks"),
    ],
)
def test_a_field_that_is_no_object_is_named(context, tmp_path, monkeypatch, kind, properties, field):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file.json").write_text(json.dumps({"properties": properties}))
    words = [*kind.split(), "create", "-n", "x", "-f", "file.json", "-w", "w", "-u", "me", "-p", "hush"]
    with pytest.raises(UsageError, match=rf"properties\.{field}: must be an object"):
        carried_out(words, context)
