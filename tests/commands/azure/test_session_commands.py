"""What a session of `az` begins and ends with, and `ml job …` as tutorials call it."""

from dataclasses import replace

import pytest

from batchai_magics.commands.handlers.backend_commands import SettingsChoice
from batchai_magics.commands.output.command_progress import LogOutput
from batchai_magics.commands.parsing.command_parser import az_command_words
from batchai_magics.errors import NotFoundError, UsageError
from batchai_magics.models.states import ExecutionState
from tests.patience import PATIENCE_S
from tests.world import until


def test_resource_groups_are_created_listed_and_deleted(do):
    made = do("group create -n g -l eastus --tags for=tests")
    assert made.table.rows == (("g", "eastus", "Succeeded"),)
    assert made.data["properties"] == {"provisioningState": "Succeeded"}
    assert do("group exists -n g").data is True
    assert do("group show --resource-group g").data["tags"] == {"for": "tests"}
    assert do("group list --query [].name").data == ["g"]
    do("group delete -n g -y --no-wait")
    assert do("group exists -n g").to_text("json") == "false"
    with pytest.raises(NotFoundError, match="ResourceGroupNotFound") as caught:
        do("group show -n g")
    assert caught.value.exit_code == 3


def test_tags_are_pairs(do):
    with pytest.raises(UsageError, match="--tags nonsense: expected NAME=VALUE"):
        do("group create -n g --tags nonsense")


def test_last_of_two_equal_tags_counts(do):
    do("group create -n g --tags a=1 b=2 a=3")
    assert do("group show -n g --query tags").data == {"a": "3", "b": "2"}


def test_last_of_two_equal_defaults_counts(do):
    chosen = do("configure --defaults group=first location=eastus --defaults group=last").value.settings
    assert (chosen.resource_group, chosen.location) == ("last", "eastus")


def test_there_is_one_subscription(do, context):
    (listed,) = do("account list").data
    assert listed["id"] == do("account show --query id").data == context.settings.subscription
    assert listed["isDefault"] is True
    assert "it stays chosen" in do("account set -s mine").notes[0]
    assert do("account list-locations --query [].name").data == ["local"]


def test_backend_with_logins_sets_the_subscription(do, context):
    away = replace(context.backend.capabilities, logins=True)
    context.backend.capabilities = away
    assert do("account set --subscription mine").value.settings.subscription == "mine"


def test_login_and_logout_do_nothing(do):
    assert "There is nothing to do" in do("login -u me -p geheim --tenant t").notes[0]
    for line in ("logout", "account clear"):
        assert do(line).value is None


def test_every_provider_is_registered(do):
    assert do("provider show -n microsoft.batchai --query registrationState").data == "Registered"
    assert do("provider register -n Microsoft.BatchAI --wait").notes == ("Microsoft.BatchAI is registered.",)
    assert "Microsoft.Storage" in do("provider list --query [].namespace").data
    with pytest.raises(UsageError, match='Did you mean "Microsoft'):
        do("provider show -n Microsoft.BatchIA")


def test_roles_are_accepted(do):
    line = "--role Contributor --assignee somebody --scope /subscriptions/0"
    assert do(f"role assignment create {line}").data["roleDefinitionName"] == "Contributor"
    assert do(f"role assignment list {line}").data == []
    assert do(f"role assignment delete {line}").value is None


def test_defaults_are_chosen_and_given_back(do, context):
    chosen = do("configure --defaults group=mine location=eastus workspace=w cluster=").value
    assert isinstance(chosen, SettingsChoice)
    settings = chosen.settings
    assert (settings.resource_group, settings.location, settings.workspace) == ("mine", "eastus", "w")
    assert settings.cluster == "default"
    kept = do("configure --defaults storage_account=acc location=eastus")
    assert kept.table.rows[0][-2:] == ("eastus", "acc")
    assert do("configure --list-defaults").value == SettingsChoice(context.settings)
    with pytest.raises(UsageError, match='Did you mean "location"'):
        do("configure -d locaton=eastus")


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("batchai job list", "job list"),
        ("group list", "group list"),
        ("batchai -h", "-h"),
        ("ml job list -w w", "ml job list -w w"),
    ],
)
def test_az_accepts_batchai_group_and_ml_commands(line, words):
    assert az_command_words(line.split()) == words.split()


@pytest.mark.parametrize("line", ["job list", "workspace list", "vm create"])
def test_az_refuses_other_commands(line):
    with pytest.raises(UsageError, match="is not in the 'az' command group"):
        az_command_words(line.split())


def test_a_workspace_without_jobs_has_an_empty_list(do):
    assert do("ml job list").data == []


def test_a_missing_job_is_named(do):
    do("experiment create -n default")
    with pytest.raises(NotFoundError, match="nothing"):
        do("ml job show -n nothing")


@pytest.mark.slow
@pytest.mark.usefixtures("cluster")
def test_jobs_are_found_in_every_experiment(do, job_file):
    do("experiment create -n other")
    first = do(f"job create -n first -f {job_file('echo one')}").value
    first.wait(PATIENCE_S)
    second = do(f"job create -n second -e other -f {job_file('echo two; sleep 1000')}").value
    until(lambda: second.log() == "two\n")
    assert [job["name"] for job in do("ml job list").data] == ["second", "first"]
    assert [job["name"] for job in do("ml job list --max-results 1").data] == ["second"]
    assert do("ml job show --name second --workspace-name default").value.id == second.id
    assert "Cancelling second" in do("ml job cancel -n second").notes[0]
    assert second.wait(PATIENCE_S).state is ExecutionState.FAILED
    assert "has already ended" in do("ml job cancel -n second").notes[0]
    parts = do("ml job stream -n second").parts
    assert b"".join(part.data for part in parts if isinstance(part, LogOutput)) == b"two\n"
