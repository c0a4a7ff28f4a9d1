import threading

import pytest

from batchai_magics.cell.cell_options import expected_in_cell
from batchai_magics.commands.parsing.command_completion import (
    NameLookup,
    candidates,
    expected_in_line,
    live_names_of,
    matching_paths,
)
from batchai_magics.options.option import NameKind, split_at_cursor
from tests.patience import PATIENCE_S
from tests.world import until


def line(text):
    words, fragment = split_at_cursor(text)
    expected = expected_in_line(words)
    return candidates(expected, fragment, ()), expected.live


def cell(text):
    words, fragment = split_at_cursor(text)
    expected = expected_in_cell(words)
    return candidates(expected, fragment, ()), expected.live


@pytest.mark.parametrize(
    ("text", "offers"),
    [
        ("jo", ["job"]),
        ("job fi", ["file"]),
        ("job file ", ["list", "stream", "download"]),
        ("job list -o t", ["table", "tsv"]),
        ("job list --out", ["--output"]),
        ("cluster create --vm-priority ", ["dedicated", "lowpriority"]),
        ("nonsense ", []),
    ],
)
def test_words_options_and_values_are_offered(text, offers):
    assert line(text)[0] == offers


@pytest.mark.parametrize(
    ("text", "offers"),
    [
        ("job stream-file --job-name x --output", ["--output-directory-id", "--output"]),
        ("job nonsense", []),
    ],
)
def test_options_of_2017_are_completed_after_a_2017_command(text, offers):
    assert sorted(line(text)[0]) == sorted(offers)


def test_words_of_2017_are_not_completed_by_default():
    assert "list-files" not in line("job ")[0]
    assert "--cluster-name" not in line("job create --")[0]


def test_an_option_is_offered_once():
    assert "--name" not in line("job show --name x ")[0]
    assert "--name" not in line("job show -n x ")[0]
    assert "--ids" in line("job show -n x ")[0]


def test_an_option_that_has_its_value_takes_no_more():
    offered = line("job list -o table ")[0]
    assert "tsv" not in offered
    assert "--query" in offered
    assert line("cluster show -n small ")[1] is NameKind.NOTHING


def test_after_an_option_with_several_values_further_options_are_offered():
    offered = line("job show --ids /one ")[0]
    assert "--output" in offered
    assert "--name" in offered


def test_completion_of_names_uses_earlier_options_of_the_line():
    expected = expected_in_line(["job", "show", "-w", "lab", "--debug", "-e", "tries", "-n"])
    assert (expected.arguments.workspace, expected.arguments.experiment) == ("lab", "tries")
    assert expected.arguments.name is None
    assert expected.arguments.debug is None


def test_a_word_with_quotes_is_left_alone():
    assert split_at_cursor("job show 'my'") is split_at_cursor("job create -f 'my fi") is None
    assert split_at_cursor("job show my") == (["job", "show"], "my")
    assert split_at_cursor("job show ") == (["job", "show"], "")


@pytest.mark.parametrize(
    ("text", "live"),
    [
        ("job show -n ", NameKind.JOB),
        ("job show -n x -w ", NameKind.WORKSPACE),
        ("cluster delete --name ", NameKind.CLUSTER),
        ("cluster create -n ", NameKind.NOTHING),
        ("job file stream -j x -f ", NameKind.OUTPUT),
        ("job list-files -n ", NameKind.JOB),
        ("job stream-file --job-name x --name ", NameKind.OUTPUT),
        ("job create --cluster-name ", NameKind.CLUSTER),
        ("cluster list-nodes -n ", NameKind.CLUSTER),
        ("metrics read ", NameKind.PATH),
        ("metrics read a.log ", NameKind.PATH),
        ("file-server show -n ", NameKind.FILE_SERVER),
        ("cluster node exec -c one --node-id ", NameKind.NODE),
        ("group show -n ", NameKind.GROUP),
        ("storage account show -n ", NameKind.ACCOUNT),
        ("storage file list -s ", NameKind.SHARE),
        ("storage blob list -c ", NameKind.CONTAINER),
        ("storage file upload --source ", NameKind.PATH),
        ("job create -f one.json ", NameKind.PATH),
    ],
)
def test_names_are_offered_where_they_fit(text, live):
    assert line(text)[1] is live


def test_a_job_cell_offers_its_options():
    assert cell("x --nod")[0] == ["--nodes"]
    assert cell("x --toolkit ho")[0] == ["horovod"]
    assert cell("x --priority ")[0] == ["low", "normal", "high"]
    assert cell("x --cluster ")[1] is NameKind.CLUSTER
    assert cell("")[1] is NameKind.JOB


def test_paths_are_offered_with_their_folder(tmp_path):
    (tmp_path / "job.json").touch()
    (tmp_path / "jobs").mkdir()
    assert matching_paths(f"{tmp_path}/job") == [f"{tmp_path}/job.json", f"{tmp_path}/jobs/"]
    assert matching_paths(f"{tmp_path}/nowhere/x") == []
    assert "/tmp/" in matching_paths("/tm")


def test_a_lookup_that_fails_offers_nothing(context):
    lookup = NameLookup(lambda: context)
    assert list(lookup.names(expected_in_line(["cluster", "show", "-w", "nowhere", "-n"]))) == []


def test_a_slow_answer_comes_with_the_next_tab(context, do):
    do("cluster create -n small -s Standard_D2 -t 0")
    answer, expected = threading.Event(), expected_in_line(["cluster", "show", "-n"])
    lookup = NameLookup(lambda: answer.wait(PATIENCE_S) and context)
    assert list(lookup.names(expected)) == []
    answer.set()
    until(lambda: lookup.names(expected) == ["small"])


@pytest.mark.parametrize(
    ("text", "offered"),
    [
        ("file-server show -n", "srv"),
        ("group show -n", "g"),
        ("storage account show -n", "acc"),
        ("storage file list --account-name acc -s", "data"),
        ("storage blob list --account-name acc -c", "blobs"),
    ],
)
def test_names_of_all_kinds_come_from_the_backend(context, do, text, offered):
    do("group create -n g")
    do("storage account create -n acc -g g")
    do("storage share create -n data --account-name acc")
    do("storage container create -n blobs --account-name acc")
    do("file-server create -n srv -s Standard_D2 --disk-count 1 --disk-size 1 --storage-sku Standard_LRS")
    expected = expected_in_line(text.split())
    assert offered in live_names_of(context, expected.live, expected.arguments)


def test_nodes_of_the_named_cluster_are_listed(context, do):
    do("cluster create -n small -s Standard_D2 -t 1")
    expected = expected_in_line(["cluster", "node", "exec", "-c", "small", "-n"])
    node = do("cluster node list -c small").value[0].id
    assert live_names_of(context, expected.live, expected.arguments) == [node]
