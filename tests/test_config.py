import os
from dataclasses import fields
from pathlib import Path

import pytest

from batchai_magics.backends.arm.settings import ArmSettings
from batchai_magics.backends.azureml.settings import AzureMLSettings
from batchai_magics.backends.base.backend_registry import load_settings as load
from batchai_magics.backends.base.backend_registry import save_settings as save
from batchai_magics.backends.local.settings import LocalSettings
from batchai_magics.backends.ray.settings import RaySettings
from batchai_magics.backends.slurm.settings import SlurmSettings
from batchai_magics.config import Settings, general_settings
from batchai_magics.errors import UsageError


@pytest.fixture
def file(tmp_path):
    return tmp_path / "config.yaml"


def refused(file, text="", **env):
    file.write_text(text)
    with pytest.raises(UsageError) as caught:
        load(env, path=file)
    return str(caught.value)


def test_without_file_and_environment_there_are_defaults(file):
    settings = load({}, path=file)
    assert settings == Settings(
        sections={
            "local": LocalSettings(),
            "arm": ArmSettings(),
            "slurm": SlurmSettings(),
            "azureml": AzureMLSettings(),
            "ray": RaySettings(),
        }
    )
    assert (settings.backend, settings.cluster_nodes, settings.ui) == ("local", 2, "auto")


def test_the_file_wins_over_defaults_and_the_environment_over_the_file(file):
    file.write_text("workspace: mine\nexperiment: ours\ncluster_nodes: 3\n")
    settings = load({"BATCHAI_EXPERIMENT": "theirs"}, path=file)
    assert (settings.workspace, settings.experiment, settings.cluster_nodes) == ("mine", "theirs", 3)


@pytest.mark.parametrize("item", general_settings(), ids=lambda item: item.name)
def test_every_setting_has_its_variable(item, file):
    choices = {
        "backend": "local",
        "ui": "html",
        "provenance": "none",
        "run_policy": "new",
        "prices": "gpu=3.06",
        "notify_lines": "True",
    }
    value = choices.get(item.name, "7" if isinstance(item.default, int) else "/some/thing")
    settings = load({f"BATCHAI_{item.name.upper()}": value}, path=file)
    assert str(getattr(settings, item.name)) == value


@pytest.mark.parametrize("item", fields(LocalSettings), ids=lambda item: item.name)
def test_every_setting_of_the_local_backend_has_its_variables(item, file):
    value = "7" if isinstance(item.default, int | float) else "/some/thing"
    value = "True" if isinstance(item.default, bool) else value
    prefixes = ["BATCHAI_LOCAL_", *(["BATCHAI_"] if item.name in LocalSettings.ALSO_GENERAL else [])]
    for prefix in prefixes:
        settings = load({f"{prefix}{item.name.upper()}": value}, path=file)
        assert str(getattr(settings.for_backend(LocalSettings), item.name)).removesuffix(".0") == value


@pytest.mark.parametrize("value", ["yes", "True", "1", "on"])
def test_a_switch_is_yes_or_no(file, value):
    assert load({"BATCHAI_HOST_PREPARATION": value}, path=file).for_backend(LocalSettings).host_preparation
    file.write_text(f"local:\n  host_preparation: {value}\n")
    assert load({}, path=file).for_backend(LocalSettings).host_preparation
    off = load({"BATCHAI_HOST_PREPARATION": "no"}, path=file).for_backend(LocalSettings)
    assert not off.host_preparation
    assert "neither yes nor no" in refused(file, BATCHAI_HOST_PREPARATION="maybe")


def test_prices_are_a_mapping_in_the_file_and_text_in_the_environment(file):
    file.write_text("prices:\n  Standard_NC6: 0.90\n  gpu: 3\n")
    assert load({}, path=file).prices == "Standard_NC6=0.9; gpu=3"
    assert load({"BATCHAI_PRICES": "gpu = 2;Standard_D2=0"}, path=file).prices == "gpu=2; Standard_D2=0"


@pytest.mark.parametrize("price", ["-1", "cheap", "", "[1]", "true", ".nan", ".inf"])
def test_what_is_no_price_is_refused_with_the_size_that_has_it(file, price):
    assert f"setting prices in {file}: Standard_NC6" in refused(file, f"prices: {{Standard_NC6: {price}}}")


@pytest.mark.parametrize("text", ["Standard_NC6", "Standard_NC6=", "gpu=1,5"])
def test_prices_in_the_environment_are_checked_too(file, text):
    name = text.partition("=")[0]
    assert f"setting prices (BATCHAI_PRICES): {name}" in refused(file, BATCHAI_PRICES=text)


def test_a_backends_settings_stand_below_its_name(file):
    file.write_text("local:\n  core_quota: 5\n  disk_grace_s: 0.5\n")
    own = load({}, path=file).for_backend(LocalSettings)
    assert (own.core_quota, own.disk_grace_s, own.idle_s) == (5, 0.5, 300)


def test_backend_settings_among_general_settings_are_still_read(file):
    file.write_text("core_quota: 5\nidle_s: 6\nlocal:\n  idle_s: 7\n")
    assert load({}, path=file).for_backend(LocalSettings).core_quota == 5
    assert load({}, path=file).for_backend(LocalSettings).idle_s == 7
    assert load({"BATCHAI_IDLE_S": "8"}, path=file).for_backend(LocalSettings).idle_s == 8
    assert (
        load({"BATCHAI_IDLE_S": "8", "BATCHAI_LOCAL_IDLE_S": "9"}, path=file)
        .for_backend(LocalSettings)
        .idle_s
        == 9
    )


def test_a_bad_setting_of_a_backend_is_named_with_where_it_stands(file):
    assert f"setting local.idle_s in {file}" in refused(file, "local:\n  idle_s: many")
    told = refused(file, BATCHAI_LOCAL_DISK_GRACE_S="-1")
    assert (
        "setting local.disk_grace_s (BATCHAI_LOCAL_DISK_GRACE_S): '-1' is not a number of at least 0" in told
    )


def test_an_unknown_setting_of_a_backend_gets_a_guess(file):
    assert "local: unknown setting 'cor_quota'\nDid you mean \"core_quota\"?" in refused(
        file, "local:\n  cor_quota: 5"
    )


@pytest.mark.parametrize(
    ("variable", "value", "read"),
    [("WORKSPACE", "", "default"), ("WORKSPACE", " mine ", "mine"), ("UI", "HTML", "html")],
    ids=["an empty one is not given", "space around it does not count", "choices in any letter case"],
)
def test_the_value_of_a_variable_may_be_written_loosely(file, variable, value, read):
    assert getattr(load({f"BATCHAI_{variable}": value}, path=file), variable.lower()) == read


def test_the_home_is_absolute_and_knows_the_tilde(file, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    assert load({"BATCHAI_HOME": "here"}, path=file).for_backend(LocalSettings).home == tmp_path / "here"
    assert load({"BATCHAI_HOME": "~/x"}, path=file).for_backend(LocalSettings).home == Path.home() / "x"


@pytest.mark.parametrize("count", ["two", "0", "-1", "1.5", "٣", "²"])
def test_a_bad_count_names_the_setting_and_its_variable(count, file):
    told = refused(file, BATCHAI_CLUSTER_NODES=count)
    assert "setting cluster_nodes (BATCHAI_CLUSTER_NODES)" in told
    assert "not a positive integer" in told


def test_zero_is_a_count_where_it_means_none_or_any(file):
    file.write_text("notify_stalled: 0\nray:\n  cpus: 0\n")
    settings = load({"BATCHAI_LOCAL_MAX_RUNNING_JOBS": "0"}, path=file)
    assert settings.notify_stalled == settings.for_backend(LocalSettings).max_running_jobs == 0
    assert "'-1' is not a positive integer or 0" in refused(file, BATCHAI_NOTIFY_STALLED="-1")


def test_a_bad_value_in_the_file_names_the_setting_and_the_file(file):
    assert f"setting cluster_nodes in {file}" in refused(file, "cluster_nodes: many")


def test_a_bad_choice_gets_a_guess(file):
    assert "setting ui (BATCHAI_UI): 'wiget' is not a valid value\nDid you mean \"widget\"?" in refused(
        file, BATCHAI_UI="wiget"
    )
    assert "one of local" in refused(file, BATCHAI_BACKEND="moon")


def test_an_unknown_setting_gets_a_guess(file):
    assert "unknown setting 'workspce'\nDid you mean \"workspace\"?" in refused(file, "workspce: x")
    assert "known settings: backend, subscription" in refused(file, "zzz: x")


def test_a_file_that_is_no_text_is_named(file):
    file.write_bytes(b"workspace: \xff")
    with pytest.raises(UsageError, match="is not valid YAML"):
        load({}, path=file)


def test_the_environment_names_the_file_which_may_begin_with_a_tilde(file, monkeypatch):
    monkeypatch.setenv("HOME", str(file.parent))
    file.write_text("workspace: mine\n")
    assert load({"BATCHAI_CONFIG": f"~/{file.name}"}).workspace == "mine"


def test_a_folder_is_no_file(tmp_path):
    with pytest.raises(UsageError, match="cannot be read"):
        load({}, path=tmp_path)


def test_saved_settings_are_read_with_the_existing_ones(file):
    file.write_text("# mine\nworkspace: old  # a note\nexperiment: kept\n")
    save({"workspace": "it's: new", "cluster": "big"}, {"BATCHAI_CONFIG": str(file)})
    settings = load({}, path=file)
    assert (settings.workspace, settings.cluster, settings.experiment) == ("it's: new", "big", "kept")
    assert file.read_text().startswith("# mine\n")
    assert file.stat().st_mode & 0o077 == 0


def test_the_first_save_makes_the_folder(tmp_path):
    file = tmp_path / "new" / "config.yaml"
    assert save({"workspace": "mine"}, {"BATCHAI_CONFIG": str(file)}) == file
    assert [item.name for item in file.parent.iterdir()] == ["config.yaml"]


def test_a_name_written_with_space_is_replaced_too(file):
    file.write_text("workspace : old\n")
    save({"workspace": "new"}, {"BATCHAI_CONFIG": str(file)})
    assert file.read_text() == 'workspace: "new"\n'


def test_a_name_within_a_table_or_section_is_kept(file):
    file.write_text("prices:\n  cluster: 0.9\n  gpu: 3\n")
    save({"cluster": "big"}, {"BATCHAI_CONFIG": str(file)})
    settings = load({}, path=file)
    assert (settings.cluster, settings.prices) == ("big", "cluster=0.9; gpu=3")


@pytest.mark.parametrize(
    "text",
    [
        "{cluster: old, workspace: mine}\n",
        "  workspace: mine\n",
        "cluster:\n  old\n",
        "workspace: mine\n...\n",
    ],
)
def test_a_file_that_would_be_broken_is_not_written_to(file, text):
    file.write_text(text)
    before = file.read_text()
    with pytest.raises(UsageError, match="cannot be changed: cluster"):
        save({"cluster": "big"}, {"BATCHAI_CONFIG": str(file)})
    assert file.read_text() == before


def test_a_broken_file_is_not_written_to(file):
    file.write_text("a: [")
    with pytest.raises(UsageError):
        save({"workspace": "new"}, {"BATCHAI_CONFIG": str(file)})
    assert file.read_text() == "a: ["


def test_a_storage_key_is_not_shown():
    assert "geheim" not in repr(Settings(storage_key="geheim"))


WRONG = {
    "a list": ("- workspace: mine\n", "holds no settings"),
    "a text": ("workspace\n", "holds no settings"),
    "a number": ("3", "holds no settings"),
    "a backend that is no mapping": ("local: 5\n", "unknown setting 'local'"),
    "a mapping for a value": ("workspace: {a: b}\n", "expected one value"),
    "a list for a value": ("workspace: [a]\n", "expected one value"),
    "a switch for a value": ("workspace: true\n", "expected one value"),
    "no YAML": ("a: [1\nb: }\n", "is not valid YAML"),
    "two values": ("a: b: c", "is not valid YAML"),
    "a key that is a list": ("? [a, b]\n: 1\n", ""),
    "a key that is a number": ("1: 2\n", ""),
    "nested in itself": ("a: &a [*a]\n", ""),
    "nested deeply": ("[" * 5000, ""),
    "a date": ("workspace: 2018-13-45\n", ""),
    "no text": ("\0\x01\n", "is not valid YAML"),
}


@pytest.mark.parametrize(("text", "told"), WRONG.values(), ids=WRONG)
def test_a_file_of_a_wrong_structure_is_one_clear_line(file, text, told):
    file.write_text(text)
    with pytest.raises(UsageError) as caught:
        load({}, path=file)
    assert str(file) in caught.value.message
    assert told in caught.value.message
    assert "\n" not in caught.value.message


def test_named_pipe_as_settings_file_is_refused_at_once(tmp_path):
    file = tmp_path / "config.yaml"
    os.mkfifo(file)
    with pytest.raises(UsageError, match="is a named pipe"):
        load({}, path=file)


def test_endless_device_is_refused_as_a_settings_file():
    with pytest.raises(UsageError, match="larger than 1 MiB"):
        load({}, path=Path("/dev/zero"))
