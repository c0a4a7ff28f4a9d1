"""Which workspace is meant: by settings, or by the file that Azure's portal offers."""

import json
from dataclasses import replace

import pytest

from batchai_magics.backends.azureml.workspace_address import WorkspaceAddress, with_workspace_file
from batchai_magics.backends.base.backend_registry import load_settings
from batchai_magics.config import Settings
from batchai_magics.errors import UsageError

FILE = {"subscription_id": "s-1", "resource_group": "team", "workspace_name": "space"}


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
    assert load_settings({"BATCHAI_BACKEND": "azureml"}).workspace == "space"
    assert load_settings({}).workspace == "default"


def test_names_are_quoted_in_paths():
    assert "/resourceGroups/my%20group/" in WorkspaceAddress("s", "my group", "w").path
