"""`%batchai use` chooses a workspace, signs in and names it."""

from __future__ import annotations

import contextlib

import pytest

from batchai_magics.backends.base.backend_registry import open_backend
from batchai_magics.commands.command_context import Context
from batchai_magics.commands.handlers.backend_commands import use
from batchai_magics.commands.parsing.command_parser import parse
from batchai_magics.config import Settings
from batchai_magics.errors import NotFoundError, UsageError
from batchai_magics.models.resource_ids import Kind, workspace_id
from batchai_magics.user_ports import PROMPT


def used(line: str):
    invocation = parse(["use", *line.split()])
    return use(Context(Settings()), invocation.arguments)


def test_the_workspace_of_the_options_is_signed_in_to(azure):
    subscription, group, workspace = azure.place
    found = used(
        f"--backend azureml --subscription {subscription} --resource-group {group} --workspace {workspace}"
    )
    assert found.notes == ("Workspace space in eastus.",)
    assert (found.value.settings.backend, found.value.settings.subscription) == ("azureml", subscription)


def test_a_person_enters_one_code_for_all_backends_of_a_notebook(azure, monkeypatch, capsys):
    for name in ("AZURE_CLIENT_ID", "AZURE_CLIENT_SECRET"):
        monkeypatch.delenv(name)
    monkeypatch.setenv("AZURE_TOKEN_CREDENTIALS", "EnvironmentCredential")  # nothing else is tried
    monkeypatch.setattr(PROMPT, "_make", lambda: print)
    azure.sign_in.is_code_approved = True
    subscription, group, workspace = azure.place
    line = f"--backend azureml --subscription {subscription} --resource-group {group} --workspace {workspace}"
    settings = used(line).value.settings
    with contextlib.closing(open_backend(settings)) as backend:
        assert backend.names(workspace_id(settings), Kind.EXPERIMENT) == []
    assert capsys.readouterr().out == (
        "To sign in to Azure, open https://microsoft.com/devicelogin and enter the code ABCD1234.\n"
    )


def test_a_workspace_that_is_missing_is_not_chosen(azure):
    subscription, group, _ = azure.place
    with pytest.raises(NotFoundError):
        used(f"--backend azureml --subscription {subscription} --resource-group {group} --workspace other")


def test_no_workspace_at_all_says_what_to_give(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError, match="no workspace") as caught:
        used("--backend azureml")
    assert "--subscription" in caught.value.hint
