"""Lines of 2017, when there were no workspaces."""

import pytest

from batchai_magics.commands.output.command_progress import LogOutput, Message
from batchai_magics.commands.parsing.command_parser import parse
from batchai_magics.commands.parsing.dialect_2017 import translate
from batchai_magics.config import Settings
from batchai_magics.errors import NotFoundError
from tests.commands.job_json import write_job
from tests.patience import PATIENCE_S


@pytest.mark.parametrize(
    ("then", "now"),
    [
        (
            "job create --name myjob --cluster-name mycluster --config job.json",
            "job create --name myjob --cluster mycluster --config-file job.json",
        ),
        (
            "job create -l eastus -g g -n j -r nc6 -c job.json",
            "job create -g g -n j --cluster nc6 --config-file job.json",
        ),
        ("job create -n j -c other.json", "job create -n j --config-file other.json"),
        ("job create -n j -f job.json -c nc6", "job create -n j -f job.json -c nc6"),
        (
            "job create -n j --cluster-resource-group g -r c --config=a",
            "job create -n j --cluster c --config-file=a",
        ),
        ("job list-files -n j -d stdouterr", "job file list --job j -d stdouterr"),
        (
            "job stream-file --job-name j --output-directory-id stdouterr --name stderr.txt",
            "job file stream --job j --output-directory-id stdouterr --file-name stderr.txt",
        ),
        (
            "job stream-file -j j -n stdout.txt -d stdouterr",
            "job file stream -j j --file-name stdout.txt -d stdouterr",
        ),
        ("job file stream -n j -d stdouterr -f a.txt", "job file stream --job j -d stdouterr -f a.txt"),
        ("job list-nodes -n j", "job node list --job j"),
        ("cluster list-nodes -n nc6 -o table", "cluster node list --cluster nc6 -o table"),
        ("cluster list-files -n nc6 -p . -e 5", "cluster file list --cluster nc6 -p . --expiry 5"),
        (
            "cluster create -n c -l eastus --container-name b --container-mount-path m -c cluster.json",
            "cluster create -n c --bfs-name b --bfs-mount-path m --config-file cluster.json",
        ),
        ("job create -n j -r nc6 -c job", "job create -n j --cluster nc6 --config-file job"),
        ("job create -n j --cluster-name nc6 -c job", "job create -n j --cluster nc6 --config-file job"),
        (
            "job create -n j --config-file a.json -c nc6.json",
            "job create -n j --config-file a.json -c nc6.json",
        ),
        ("job create -n j -f a.json -c nc6.json", "job create -n j -f a.json -c nc6.json"),
        ("job create -c", "job create -c"),
        ("job create --location=eastus -n j", "job create -n j"),
        ("job create --nfs-name n --nfs-resource-group g -n j", "job create --nfs n -n j"),
        ("file-server create -n f -l eastus", "file-server create -n f"),
        ("job show -n j", "job show -n j"),
    ],
)
def test_a_line_of_2017_is_one_of_2018(then, now):
    assert " ".join(translate(then.split()).words) == now


def test_a_line_of_2018_has_nothing_to_say():
    assert translate(["job", "create", "-n", "j", "-f", "job.json", "-c", "nc6"]).changed == ()
    assert translate(["cluster", "node", "exec", "-c", "c", "-n", "node", "--exec", "ls"]).changed == ()


def test_note_on_a_2017_line_names_its_workspace():
    invocation = parse(["job", "stream-file", "--job-name", "j", "--name", "a.txt", "-w", "lab"])
    assert invocation.notes(Settings()) == (
        "Syntax of 2017: job stream-file as job file stream, --job-name as --job, --name as --file-name; "
        "workspace lab, experiment default.",
    )


def test_help_of_an_old_command_shows_the_new_one():
    assert parse(["job", "stream-file", "-h"]).startswith("Command\n    batchai job file stream")


def test_a_line_of_az_says_how_it_was_read_and_where_it_takes_place(do):
    line = "cluster create -l eastus -n nc6 -s Standard_NC6 --min 1 --max 1 -u me -p geheim"
    assert "2017" not in "".join(do(line.replace("nc6", "other")).notes)
    made = do(f"az batchai {line}")
    assert made.notes[:1] == ("Syntax of 2017: without -l; workspace default, experiment default.",)


def test_a_line_that_fails_says_it_too(do):
    with pytest.raises(NotFoundError, match="workspace default, experiment default"):
        do("job stream-file --job-name nothing --name stdout.txt")


@pytest.mark.slow
def test_a_tutorial_of_2017_runs(do, tmp_path):
    do("cluster create -l eastus -n nc6 -s Standard_NC6 --min 1 --max 1 -u me -p geheim")
    job = do(f"job create -l eastus -n hello -r nc6 -c {write_job(tmp_path, 'echo hi')}").value.wait(
        PATIENCE_S
    )
    assert job.id.experiment == "default"
    listed = do("job list-files -n hello -d stdouterr")
    assert "stdout.txt" in [file.name for file in listed]
    parts = list(do("job stream-file -j hello -d stdouterr -n stdout.txt").parts)
    assert not [part for part in parts if isinstance(part, Message)]
    assert b"".join(part.data for part in parts if isinstance(part, LogOutput)) == b"hi\n"
    assert len(do("cluster list-nodes -n nc6")) == 1
