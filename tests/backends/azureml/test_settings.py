"""Which workspace is meant: by settings, by the file that Azure's portal offers, or by `%batchai use`."""

from __future__ import annotations

import contextlib
import json
from dataclasses import replace

import pytest

from batchai_magics.backends.azureml.settings import WorkspaceAddress, with_workspace_file
from batchai_magics.backends.base.backend_registry import load_settings, open_backend
from batchai_magics.commands.command_context import Context
from batchai_magics.commands.handlers.backend_commands import use
from batchai_magics.commands.parsing.command_parser import parse
from batchai_magics.config import Settings
from batchai_magics.errors import NotFoundError, UsageError
from batchai_magics.models.resource_ids import Kind, workspace_id
from batchai_magics.user_ports import PROMPT

FILE = {"subscription_id": "s-1", "resource_group": "team", "workspace_name": "space"}


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


@pytest.mark.parametrize("name", ["config.json", ".azureml/config.json", "aml_config/config.json"])
def test_the_nearest_file_above_names_the_workspace(name, tmp_path):
    file, folder = tmp_path / name, tmp_path / "notebooks" / "deep"
    file.parent.mkdir(exist_ok=True)
    folder.mkdir(parents=True)
    file.write_text(json.dumps(FILE))
    found = WorkspaceAddress.of(with_workspace_file(Settings(), folder))
    assert found == WorkspaceAddress("s-1", "team", "space")


def test_what_the_settings_name_wins_over_the_file(tmp_path):
    (tmp_path / "config.json").write_text(json.dumps(FILE))
    found = with_workspace_file(replace(Settings(), workspace="mine"), tmp_path)
    assert (found.subscription, found.workspace) == ("s-1", "mine")
    given = replace(Settings(), subscription="s-2")
    assert with_workspace_file(given, tmp_path) == given


def test_a_config_of_another_program_is_no_workspace(tmp_path):
    (tmp_path / "config.json").write_text('{"hidden_size": 768}')
    assert with_workspace_file(Settings(), tmp_path) == Settings()


def test_a_file_that_lacks_a_name_says_which(tmp_path):
    (tmp_path / "config.json").write_text(json.dumps({**FILE, "resource_group": None}))
    with pytest.raises(UsageError, match="has no resource_group"):
        with_workspace_file(Settings(), tmp_path)


def test_the_backend_of_the_environment_reads_the_file(tmp_path, monkeypatch):
    (tmp_path / "config.json").write_text(json.dumps(FILE))
    monkeypatch.chdir(tmp_path)
    no_file = tmp_path / "config.yaml"
    assert load_settings({"BATCHAI_BACKEND": "azureml"}, path=no_file).workspace == "space"
    assert load_settings({}, path=no_file).workspace == "default"


def test_names_are_quoted_in_paths():
    assert "/resourceGroups/my%20group/" in WorkspaceAddress("s", "my group", "w").path
