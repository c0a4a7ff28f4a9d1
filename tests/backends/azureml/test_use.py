"""`%batchai use` chooses a workspace, signs in and names it."""

from __future__ import annotations

import json

import pytest

from batchai_magics.commands.command_context import Context
from batchai_magics.commands.handlers.backend_commands import use
from batchai_magics.commands.parsing.command_parser import parse
from batchai_magics.config import Settings
from batchai_magics.errors import NotFoundError, UsageError


def used(line: str):
    invocation = parse(["use", *line.split()])
    return use(Context(Settings()), invocation.arguments)


def test_the_workspace_of_the_options_is_signed_in_to(azure) -> None:
    subscription, group, workspace = azure.place
    found = used(
        f"--backend azureml --subscription {subscription} --resource-group {group} --workspace {workspace}"
    )
    assert found.notes == ("Workspace space in eastus.",)
    assert (found.value.settings.backend, found.value.settings.subscription) == ("azureml", subscription)


def test_the_workspace_of_the_file_is_used(azure, tmp_path, monkeypatch) -> None:
    names = dict(zip(("subscription_id", "resource_group", "workspace_name"), azure.place, strict=True))
    (tmp_path / "config.json").write_text(json.dumps(names))
    monkeypatch.chdir(tmp_path)
    assert used("--backend azureml").value.settings.workspace == "space"


def test_a_workspace_that_is_missing_is_not_chosen(azure) -> None:
    subscription, group, _ = azure.place
    with pytest.raises(NotFoundError):
        used(f"--backend azureml --subscription {subscription} --resource-group {group} --workspace other")


def test_no_workspace_at_all_says_what_to_give(tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError, match="no workspace"):
        used("--backend azureml")
