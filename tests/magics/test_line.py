"""Lines of `%batchai` and `%az` in a real IPython."""

import os
import urllib.request

import pytest

from batchai_magics.commands.output.command_result import LiveResult, SelectedJobs
from tests.world import processes_of


def test_a_line_gives_an_object(run, shell):
    listed = run("%batchai cluster list")
    assert len(listed) == 0
    run("%batchai cluster create -n small -s Standard_D2 -t 0")
    clusters = run("found = %batchai cluster list\nfound")
    assert clusters[0].id.name == "small"
    assert "<td>small</td>" in shell.display_formatter.format(clusters)[0]["text/html"]


@pytest.mark.parametrize(
    "line",
    ["create -n set -s Standard_D2 -t 0", "resize -n small -t 0", "auto-scale -n small --min 0 --max 1"],
)
def test_a_line_that_changes_a_cluster_shows_it_live(run, line):
    run("%batchai cluster create -n small -s Standard_D2 -t 0")
    shown = run(f"%batchai cluster {line}")
    assert isinstance(shown, LiveResult)
    assert shown.id == shown.value.id


def test_a_list_of_selected_jobs_is_live_and_has_only_these(run):
    run("%batchai experiment create -n default")
    assert run("%batchai job list").selected is None
    shown = run("%batchai job list --tag best --where 'loss < 1'")
    assert isinstance(shown, LiveResult)
    assert shown.selected == SelectedJobs(frozenset(), "--tag best --where 'loss < 1'")


def test_output_and_query_are_for_programs(run):
    run("%batchai workspace create -n one")
    assert run("%batchai workspace list --query [].name") == ["one"]
    text = run("%batchai workspace list -o tsv --query [].name")
    assert text == "one"
    assert repr(text) == "one"
    assert run("%batchai workspace list -o none") is None


def test_az_takes_a_line_of_a_tutorial(run, fail):
    assert run("%az batchai workspace create -g batchai -n one -l eastus").value.location == "eastus"
    assert run("%az group exists -n batchai").data is True
    assert "'gruop' is not in the 'az' command group." in fail("%az gruop create -n x")
    assert run("%az").startswith("Group\n    az : ")


def test_an_error_shows_our_lines_only_and_fails_the_cell(fail):
    told = fail("%batchai job shwo -n x")
    assert told.startswith("UsageError: batchai job: 'shwo' is not in")
    assert 'Did you mean "show"?' in told
    assert "Traceback" not in told


def test_variables_are_expanded_strictly(run, fail):
    run("name = 'one'")
    assert run("%batchai workspace create -n {name}").value.id.name == "one"
    assert "there is no variable nam" in fail("%batchai workspace show -n {nam}")
    assert run("%batchai workspace list --query '[].{Name: name}'") == [{"Name": "one"}]


def test_a_delete_needs_yes(run, fail):
    run("%batchai workspace create -n one")
    assert "Unable to prompt for confirmation as no tty available. Use --yes." in fail(
        "%batchai workspace delete -n one"
    )
    assert run("%batchai workspace delete -n one --yes") is None


def test_use_holds_for_the_session(run):
    run("%batchai use -w mine -e tries")
    assert run("%batchai use").data["workspace"] == "mine"
    assert run("%batchai experiment create -n other").value.id.workspace == "mine"


def test_an_unknown_backend_is_no_choice(run, fail):
    assert 'Did you mean "local"' in fail("%batchai use --backend locla")
    assert run("%batchai use").data["backend"] == "local"


def test_help_is_text(run):
    assert run("%batchai_job -h").startswith("%%batchai_job NAME [options]")
    assert run("%%batchai_job --help").startswith("%%batchai_job NAME [options]")
    assert "Subgroups:" in run("%batchai")


def test_reload_and_unload_leave_nothing_behind(shell, run):
    manager = shell.extension_manager
    matchers = len(shell.Completer.custom_matchers)
    cleanups = len(shell.input_transformers_cleanup)
    hooks = len(shell.events.callbacks["post_run_cell"])
    manager.reload_extension("batchai_magics")
    assert len(shell.Completer.custom_matchers) == matchers
    assert len(shell.input_transformers_cleanup) == cleanups
    manager.unload_extension("batchai_magics")
    assert shell.find_magic("batchai") is None
    assert shell.find_cell_magic("batchai_job") is None
    assert len(shell.Completer.custom_matchers) == matchers - 1
    assert len(shell.input_transformers_cleanup) == cleanups - 1
    assert len(shell.events.callbacks["post_run_cell"]) == hooks - 1
    manager.load_extension("batchai_magics")
    assert len(run("%batchai job list")) == 0


def test_az_runs_group_and_storage_commands(run, shell, tmp_path, capsys):
    (tmp_path / "data.txt").write_text("hello")
    run("account = 'acc'")
    run("%az group create -n g -l eastus")
    run("%az storage account create -n {account} -g g")
    run("%az storage share create -n data --account-name {account}")
    up = run("%az storage file upload -s data --source data.txt --path in/ --account-name {account}")
    assert up.value.path == "in/data.txt"
    assert "<td>data.txt</td>" in shell.display_formatter.format(up)[0]["text/html"]
    assert run("%az storage file list -s data -p in --account-name acc --query [].name") == ["data.txt"]
    assert run("%az group list").to_frame()["Location"].tolist() == ["eastus"]
    assert capsys.readouterr().err == ""


def test_notes_are_not_printed_with_the_result(run, capsys):
    made = run("%az batchai cluster create -l eastus -n old -s Standard_D2 -t 0")
    assert made.value.id.name == "old"
    assert "2017" not in capsys.readouterr().out


def test_a_list_without_rows_shows_nothing(run, shell):
    listed = run("%batchai workspace list")
    assert len(listed) == 0
    assert shell.display_formatter.format(listed) == ({}, {})  # a kernel then sends no output


def test_defaults_hold_for_the_session(run):
    run("%az configure --defaults group=mine workspace=lab")
    assert run("%batchai experiment create -n tries").value.id.group == "mine"


@pytest.mark.slow
def test_a_node_that_fails_fails_the_cell(run, fail, capsys):
    run("%batchai cluster create -n small -s Standard_D2 -t 1")
    run("%batchai cluster node exec -c small --exec 'echo hi'")
    assert capsys.readouterr().out.endswith("hi\n")
    assert "the command ended with exit code 3" in fail("%batchai cluster node exec -c small --exec 'exit 3'")


@pytest.mark.slow
def test_an_interrupt_ends_a_command_on_a_node(run, fail, tmp_path):
    run("%batchai cluster create -n small -s Standard_D2 -t 1")
    told_enough = "seq 50000"  # more than a pipe holds: when it is through, somebody reads
    command = f"{told_enough}; kill -INT {os.getpid()}; sleep 1000"
    told = fail(f"%batchai cluster node exec -c small --exec '{command}'")
    assert "\n4000\n" in told
    assert "Stopped. The command was ended." in told
    assert not processes_of(tmp_path / "home")


@pytest.mark.parametrize(("magic", "words"), [("%%batchai_job", "--processes"), ("%batchai", "Subgroups:")])
def test_a_question_mark_shows_the_help(shell, magic, words):
    assert words in shell.object_inspect(magic)["docstring"]


@pytest.mark.slow
def test_the_page_of_a_recording_opens_without_blocking_the_cell(run):
    run("%%batchai_job it --wait\nprint('hello')")
    run("%batchai record it")
    page = run("%batchai open it.batchai --no-browser")
    assert repr(page) == f"Open {page.url}"
    assert f'href="{page.url}"' in page._repr_html_()
    with urllib.request.urlopen(page.url) as response:
        assert b"job_view.css" in response.read()
    page.close()
