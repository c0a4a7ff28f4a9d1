import json

import pytest
from IPython.core.completer import provisionalcompleter
from IPython.core.interactiveshell import InteractiveShell

import batchai_magics
from batchai_magics.commands.output.result import LiveResult
from batchai_magics.jobs.handle import Job
from tests.patience import PATIENCE_S
from tests.world import below, until


@pytest.fixture
def shell(monkeypatch, tmp_path):
    """A shell with the extension, on a backend of its own."""
    monkeypatch.setenv("BATCHAI_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("BATCHAI_UI", "text")
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    monkeypatch.chdir(tmp_path)
    shell = InteractiveShell()
    shell.history_manager.enabled = False
    shell.extension_manager.load_extension("batchai_magics")
    yield shell
    backend = shell.magics_manager.registry["BatchAIMagics"].context.backend
    until(lambda: not below(tmp_path / "home"))
    shell.run_line_magic("batchai", "workspace list")  # reaps the supervisors
    backend.close()
    shell.history_manager.end_session()


@pytest.fixture
def run(shell):
    """Runs a cell and gives its value."""

    def run(text):
        outcome = shell.run_cell(text)
        assert outcome.success, outcome.error_in_exec
        return outcome.result

    return run


@pytest.fixture
def fail(shell, capsys):
    """Runs a cell that has to fail and gives what the user sees."""

    def fail(text):
        capsys.readouterr()
        assert not shell.run_cell(text).success
        told = capsys.readouterr()
        return told.out + told.err

    return fail


def offers(shell, text):
    with provisionalcompleter():
        return [completion.text for completion in shell.Completer.completions(text, len(text))]


def test_every_public_name_is_there():
    for name in batchai_magics.__all__:
        assert getattr(batchai_magics, name) is not None
    assert set(batchai_magics.__all__) <= set(dir(batchai_magics))
    with pytest.raises(AttributeError, match="no attribute 'Jbo'"):
        _ = batchai_magics.Jbo


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
    assert 'did you mean "show"?' in told
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
    assert 'did you mean "local"' in fail("%batchai use --backend locla")
    assert run("%batchai use").data["backend"] == "local"


def test_help_is_text(run):
    assert run("%batchai_job -h").startswith("%%batchai_job NAME [options]")
    assert run("%%batchai_job --help").startswith("%%batchai_job NAME [options]")
    assert "Subgroups:" in run("%batchai")


@pytest.mark.parametrize(
    ("cell", "message"),
    [
        ("%%batchai_job hello", "the cell is empty"),
        ("%%batchai_job hello\ndef (", "syntax error at line 2 of the cell"),
        ("%%batchai_job hello --ndoes 2\npass", 'did you mean "--nodes"?'),
        ("%%batchai_job he.llo\npass", "no valid job name"),
        ("%%batchai_job hello --upload nowhere.py\npass", "nowhere.py"),
        ("%%batchai_job hello --file nowhere.json", "nowhere.json"),
        ("%%batchai_job hello --nodes {count}\npass", "there is no variable count"),
    ],
)
def test_a_wrong_cell_is_refused_before_anything_is_made(run, fail, cell, message):
    told = fail(cell)
    assert message in told
    assert "Traceback" not in told
    assert len(run("%batchai workspace list")) == 0


def test_a_dry_run_writes_nothing(run, tmp_path):
    text = run("%%batchai_job hello --nodes 2 --processes 4 --dry-run\nprint('hi')")
    assert "to start: 4 processes on 2 nodes, as the ranks of one MPI job" in text
    assert "node 1  rank 3  exec" in text
    assert "scripts/default/hello/" in text
    assert not (tmp_path / "home").exists()


def test_what_means_nothing_in_a_job_file_is_told(run, tmp_path, capsys):
    body = {
        "nodeCount": 1,
        "stdOutErrPathPrefix": "$AZ_BATCHAI_MOUNT_ROOT/afs",
        "customToolkitSettings": {"commandLine": "true", "processCount": 2},
    }
    (tmp_path / "job.json").write_text(json.dumps({"$schema": "x", "properties": body}))
    run(f"%%batchai_job --file {tmp_path}/job.json --dry-run\n")
    path = "properties.customToolkitSettings.processCount"
    assert capsys.readouterr().out.startswith(f"{tmp_path}/job.json: {path} means nothing here")


def test_a_dry_run_tells_of_too_many_nodes(run):
    text = run("%%batchai_job hello --nodes 9 --dry-run\nprint('hi')")
    assert "problem: the job wants 9 nodes; cluster default is made with 2 nodes" in text


@pytest.mark.slow
def test_a_cell_gives_the_job_and_binds_it(run, shell):
    job = run("%%batchai_job hello\nprint('hi')")
    assert isinstance(job, Job)
    assert shell.user_ns["job"] is job
    assert job.wait(PATIENCE_S).log() == "hi\n"


@pytest.mark.slow
def test_the_same_cell_again_finds_its_job(run):
    first = run("%%batchai_job hello\nprint('hi')").wait(PATIENCE_S)
    assert run("%%batchai_job hello\nprint('hi')").id == first.id
    assert run("%%batchai_job hello --new\nprint('hi')").wait(PATIENCE_S).name == "hello-2"


@pytest.mark.slow
def test_a_name_that_holds_something_else_is_left_alone(run, shell, capsys):
    run("job = 'precious'")
    job = run("%%batchai_job hello\nprint('hi')").wait(PATIENCE_S)
    assert shell.user_ns["job"] == "precious"
    assert "Use --var to name the job otherwise" in capsys.readouterr().out
    assert run("%%batchai_job hello --var run\nprint('hi')").id == shell.user_ns["run"].id == job.id


@pytest.mark.slow
def test_wait_ends_with_the_job(run, fail, shell, capsys):
    assert run("%%batchai_job good --wait\nprint('hi')") is None
    assert shell.user_ns["job"].is_done
    told = capsys.readouterr()
    assert "\nhi\n" in told.out  # a terminal shows no view: it gets the log
    assert "Job state: succeeded" in told.out
    told = fail("%%batchai_job bad --wait\nraise SystemExit(3)")
    assert 'JobFailedError: the job "bad" failed with exit code 3' in told
    assert "Traceback" not in told


@pytest.mark.slow
def test_a_job_is_shown_and_read_from_a_line(run, fail, capsys):
    run("%%batchai_job hello --wait\nprint('hi')")
    assert run("%batchai job show -n hello").name == "hello"
    capsys.readouterr()
    run("%batchai job file stream -j hello -f stdout.txt")
    assert capsys.readouterr().out.endswith(". Start streaming\nhi\n")
    run("%batchai job wait -n hello")
    assert "Job state: succeeded" in capsys.readouterr().out


def test_tab_completes_words_options_and_values(shell):
    assert offers(shell, "%batchai job fi") == ["file"]
    assert offers(shell, "%az batchai job list --out") == ["--output"]
    assert offers(shell, "found = %batchai job list -o ta") == ["table"]
    assert offers(shell, "%%batchai_job x --toolkit pyt") == ["pytorch"]
    assert offers(shell, "%%batchai_job x --no") == ["--nodes"]


def test_tab_completes_live_names_and_variables(run, shell):
    run("%batchai cluster create -n small -s Standard_D2 -t 0\nsmall_one = 1")
    until(lambda: offers(shell, "%batchai cluster show -n s") == ["small"])
    until(lambda: offers(shell, "%%batchai_job x --cluster s") == ["small"])
    assert offers(shell, "%%batchai_job x --nodes {small_") == ["{small_one}"]


def test_tab_offers_no_python_names_on_a_line(shell):
    assert offers(shell, "%batchai job show -n pri") == ["pri"]


def test_tab_leaves_the_script_to_others(run, shell):
    run("number_of_things = 1")
    assert "number_of_things" in offers(shell, "%%batchai_job x\nnumber_of")
    assert "--nodes" not in offers(shell, "%%batchai_job x\n--no")


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


def test_az_does_what_stands_beside_batchai(run, shell, tmp_path, capsys):
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


def test_what_people_should_know_is_said_beside_the_result(run, capsys):
    made = run("%az batchai cluster create -l eastus -n old -s Standard_D2 -t 0")
    assert made.value.id.name == "old"
    assert capsys.readouterr().out.startswith("Words of 2017: without -l; workspace default")


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
    told = fail(f"%batchai cluster node exec -c small --exec '{told_enough}; kill -INT $PPID; sleep 1000'")
    assert "\n4000\n" in told
    assert "Stopped. The command was ended." in told
    assert not below(tmp_path / "home")


def test_tab_completes_az(run, shell):
    assert offers(shell, "%az gr") == ["group"]
    assert offers(shell, "%az storage fi") == ["file"]
    assert offers(shell, "%az batchai job fi") == ["file"]
    assert offers(shell, "%az nonsense ") == [""]
    run("%az storage share create -n data")
    until(lambda: offers(shell, "%az storage file list -s da") == ["data"])
    run("%az group create -n mine")
    until(lambda: offers(shell, "%az group show -n ") == ["mine"])


@pytest.mark.slow
def test_a_cell_that_ran_before_says_so(run, capsys):
    run("%%batchai_job again\nprint(1)").wait(PATIENCE_S)
    assert "--new" not in capsys.readouterr().out
    run("%%batchai_job again\nprint(1)")
    assert "again was submitted before from this very cell" in capsys.readouterr().out


@pytest.mark.slow
def test_an_edited_cell_is_the_next_run_and_says_so(run, capsys):
    run("%%batchai_job again\nprint(1)").wait(PATIENCE_S)
    assert run("%%batchai_job again\nprint(2)").wait(PATIENCE_S).log() == "2\n"
    assert "not that of again, which is kept: this run is again-2" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("notebook", "parent", "name"),
    [
        ("/home/me/My training.ipynb", {"metadata": {"cellId": "3f2a9c1e-77"}}, "My-training-3f2a9c"),
        ("/home/me/train.ipynb", {"metadata": {"cellId": "1234567"}}, "train-c123456"),
        ("/home/me/train.ipynb", {"metadata": {}}, "train"),
        ("0d9f3a4e-kernel", {}, "job"),
        ("", {"metadata": {"cellId": "3f2a9c1e"}}, "job-3f2a9c"),
    ],
)
def test_a_job_without_a_name_is_called_after_its_notebook_and_cell(
    run, shell, monkeypatch, notebook, parent, name
):
    monkeypatch.setenv("JPY_SESSION_NAME", notebook)
    monkeypatch.setattr(shell, "get_parent", lambda: parent, raising=False)
    assert run("%%batchai_job --dry-run\nprint(1)").startswith(f"job {name} in experiment default")


@pytest.mark.parametrize(("magic", "words"), [("%%batchai_job", "--processes"), ("%batchai", "Subgroups:")])
def test_a_question_mark_shows_the_help(shell, magic, words):
    assert words in shell.object_inspect(magic)["docstring"]
