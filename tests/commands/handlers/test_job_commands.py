import contextlib
import re
import urllib.request
from dataclasses import replace

import pytest

from batchai_magics.backends.base.backend_registry import load_settings, select_settings
from batchai_magics.commands.command_context import Context
from batchai_magics.commands.command_runner import run
from batchai_magics.commands.output.command_progress import CommandExit, LogOutput, Message, resume_command
from batchai_magics.commands.parsing.command_parser import parse
from batchai_magics.errors import NotFoundError, UsageError
from batchai_magics.models.resource_ids import Kind, workspace_id
from batchai_magics.models.states import ExecutionState
from tests.patience import PATIENCE_S
from tests.world import until

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("cluster")]


def finished(do, line):
    return do(line).value.wait(PATIENCE_S)


def parts(do, line):
    return list(do(line).parts)


def messages_in(parts):
    return [part.text for part in parts if isinstance(part, Message)]


def test_a_job_file_becomes_a_job_that_is_shown_as_by_az(do, job_file):
    file = job_file("echo hi")
    job = finished(do, f"job create -n hello -f {file}")
    assert job.state is ExecutionState.SUCCEEDED
    shown = do("job show -n hello")
    titles = "Name|Cluster|Cluster RG|Cluster Workspace|Tool|Nodes|State|Exit code"
    assert "|".join(shown.table.titles) == titles
    assert shown.table.rows == (("hello", "default", "batchai", "default", "custom", 1, "succeeded", 0),)
    assert do("job list").table.rows == shown.table.rows
    assert shown.data["executionInfo"]["exitCode"] == 0
    assert shown.data["executionState"] == "succeeded"
    assert shown.data["horovodSettings"] is None
    assert shown.data["cluster"]["resourceGroup"] == "batchai"
    assert shown.data["constraints"]["maxWallClockTime"] == "7 days, 0:00:00"
    assert shown.data["jobOutputDirectoryPathSegment"].startswith("00000000-")
    with pytest.raises(
        UsageError, match="A job with given name, experiment, workspace and resource group already"
    ):
        do(f"job create -n hello -f {file}")
    do("job delete -n hello -y")
    assert len(do("job list")) == 0


def test_the_output_format_of_job_create_is_no_output_folder(do, job_file):
    for form in ("json", "none", "table"):
        created = do(f"job create -n {form} -o {form} -f {job_file('true')}").value
        assert not created.show().spec.output_directories


def test_a_missing_cluster_is_told_before_anything_is_made(do, job_file):
    with pytest.raises(NotFoundError, match="ClusterNotFound"):
        do(f"job create -n hello -f {job_file('true')} -c nowhere")
    assert len(do("experiment list")) == 0


def test_the_newest_jobs_are_listed_in_the_order_of_all(do, job_file):
    file = job_file("true")
    assert do("job list --top 2").value == []
    for name in ("c", "B", "a"):
        finished(do, f"job create -n {name} -f {file}")
    every = do("job list").table.rows
    assert do("job list --top 2").table.rows == every[1:]
    assert do("job list --top 9").table.rows == every
    assert [job["name"] for job in do("job list --top 1").data] == ["a"]
    with pytest.raises(UsageError, match="--top"):
        do("job list --top 0")


def test_wait_tells_how_a_job_got_on(do, job_file):
    do(f"job create -n hello -f {job_file('sleep 0.3')}")
    told = parts(do, "job wait -n hello")
    lines = messages_in(told)
    assert lines[0].startswith("Job submitted at 20")
    assert any(line.startswith("Job started execution at 20") for line in lines)
    assert lines[-2] == "Job state: succeeded"
    assert lines[-1].startswith("Job completed at 20")
    assert re.search(r"execution took 0:\d\d:\d\d", lines[-1])
    assert told[-1] == CommandExit(0)


def test_wait_tells_no_start_of_a_job_that_never_ran(do, job_file):
    do(f"job create -n bad -f {job_file('exit 3')}")
    do(f"job create -n after -f {job_file('true')} --after bad")
    lines = messages_in(parts(do, "job wait -n after"))
    assert not [line for line in lines if line.startswith("Job started")]
    assert "nothing of it ran" in "\n".join(lines)
    (line,) = messages_in(parts(do, "logs after"))
    assert line.startswith("after has no log: bad did not succeed, and the job was to start after it")


def test_a_wait_ends_when_its_time_is_up_and_a_job_that_was_ended_is_cancelled_and_not_failed(do, job_file):
    job = do(f"job create -n long -f {job_file('sleep 1000')}").value
    end = parts(do, "job wait -n long --timeout 1s")[-1]
    assert (end.exit_code, job.is_done) == (124, False)
    do("job terminate -n long -y")
    told = parts(do, "job wait -n long")
    assert told[-1] == CommandExit(143, 'the job "long" was cancelled')
    assert any(line.startswith("Job was cancelled at") for line in messages_in(told))
    assert not any("failed" in line for line in messages_in(told))
    assert [row[6] for row in do("job list").table.rows] == ["cancelled"]
    assert do("job show -n long").data["executionState"] == "failed"


def test_a_file_is_streamed_while_it_is_written(do, job_file):
    do(f"job create -n hello -f {job_file('echo one; sleep 0.3; echo two')}")
    told = parts(do, "job file stream -j hello -f stdout.txt")
    assert b"".join(part.data for part in told if isinstance(part, LogOutput)) == b"one\ntwo\n"
    assert not any("URL" in line for line in messages_in(told))
    assert told[-1] == CommandExit(0)


def test_the_files_of_a_job_are_listed_and_streamed_and_told_where_they_lack_something(do, job_file, context):
    finished(do, f"job create -n hello -f {job_file('echo one; echo two')}")
    listed = do("job file list -j hello")
    assert listed.table.titles == ("Name", "Type", "Size", "Modified")
    assert ("stdout.txt", "file", 8) in [row[:3] for row in listed.table.rows]
    assert {"name", "fileType", "contentLength", "lastModified", "downloadUrl"} == set(listed.data[0])
    (url,) = do("job file list -j hello --expiry 5 --query \"[?name=='stdout.txt'].downloadUrl\"").data
    assert urllib.request.urlopen(url).read() == b"one\ntwo\n"
    with pytest.raises(NotFoundError, match=r"job hello has no file model\.bin") as caught:
        do("job file stream -j hello -f model.bin")
    assert caught.value.hint == "Available: execution.log, stderr.txt, stdout.txt."
    with pytest.raises(UsageError, match="is outside"):
        do("job file list -j hello -p ../..")
    (log,) = context.backend.layout.home.rglob("stdout.txt")
    log.write_text("one\n")
    told = messages_in(parts(do, "job file stream -j hello -f stdout.txt"))
    assert told[-1] == 'Warning: The file "stdout.txt" is not complete: 4 of its 8 bytes are missing.'


def test_a_file_that_never_comes_is_told(do, job_file):
    do(f"job create -n hello -f {job_file('true')}")
    told = parts(do, "az batchai job file stream -j hello -f model.bin")
    lines = messages_in(told)
    assert told[-1] == CommandExit(0)
    assert lines[0].startswith("Waiting for hello to write model.bin.")
    assert lines[-2:] == [
        "hello has ended without writing model.bin.",
        "Available: execution.log, stderr.txt, stdout.txt.",
    ]


def test_files_of_the_working_directory_are_listed_streamed_and_downloaded(do, job_file, tmp_path):
    finished(do, f"job create -n hello -f {job_file('printf x > model.pt; mkdir a; touch a/b; mkfifo pipe')}")
    (node,) = [item["name"] for item in do("job file list -j hello -d workdir").data]
    listed = do(f"job file list -j hello -d workdir -p {node}")
    assert [row[:2] for row in listed.table.rows] == [
        ("a", "directory"),
        ("model.pt", "file"),
        ("pipe", "pipe"),
    ]
    streamed = parts(do, f"job file stream -j hello -d workdir -p {node} -f model.pt")
    assert b"".join(part.data for part in streamed if isinstance(part, LogOutput)) == b"x"
    line = f"job file download -j hello -d workdir --dest {tmp_path}/to"
    one = do(f"{line} -p {node} -f model.pt").data
    assert one == [
        {"contentLength": 1, "name": f"{node}/model.pt", "path": str(tmp_path / "to" / node / "model.pt")}
    ]
    every = do(line)
    assert [item["name"] for item in every.data] == [f"{node}/a/b", f"{node}/model.pt"]
    assert [*every.notes] == [f"{node}/pipe is a named pipe: left out"]
    assert (tmp_path / "to" / node / "model.pt").read_text() == "x"
    with pytest.raises(NotFoundError, match="job hello has no file 'nope'"):
        do(f"job file download -j hello --dest {tmp_path} -f nope")
    with pytest.raises(NotFoundError, match="job hello has no files in workdir/nope"):
        do(f"{line} -p nope")


@pytest.mark.slow
def test_a_wait_ends_with_its_condition_or_the_job(do, cluster, job_file):
    do(f"job create -n j -f {job_file('echo step 1 loss 0.5; echo step 2 loss 0.25; exit 5')}")
    ends = {
        "loss < 0.3": 0,
        "loss < 0.3 or ended": 0,
        "loss < 0.1 or ended": 5,
        "accuracy > 2": 5,
        "ended": 5,
    }
    waits = {line: list(do(f'job wait -n j --until "{line}"').parts) for line in ends}
    assert {line: parts[-1].exit_code for line, parts in waits.items()} == ends
    for met in ("loss < 0.3", "loss < 0.3 or ended"):
        assert waits[met][-2].text == '"loss < 0.3": loss was 0.25 at step 2 of rank 0'


@pytest.mark.slow
def test_wait_says_that_job_ended_before_its_condition_was_met(do, cluster, job_file):
    do(f"job create -n j -f {job_file('echo step 1 loss 0.5')}")
    *_, message, end = do('job wait -n j --until "loss < 0.1"').parts
    assert (message.text, end.exit_code) == ('the job "j" ended before --until was met', 4)


def test_a_wait_for_nonsense_is_refused(do):
    for option in ("--until loss", "--until 'ended or'", "--timeout soon"):
        with pytest.raises(UsageError, match=option.split()[0]):
            do(f"job wait -n j {option}")


def test_the_command_to_resume_leaves_out_the_defaults(monkeypatch):
    job = workspace_id(load_settings(), "default").child(Kind.EXPERIMENT, "default").child(Kind.JOB, "long")
    assert resume_command(job, "logs -f") == "batchai logs -f long"
    monkeypatch.setenv("BATCHAI_EXPERIMENT", "other")
    assert resume_command(job, "logs -f") == "batchai logs -f long -e default"


def test_the_command_to_resume_can_be_pasted_into_a_shell():
    chosen = replace(load_settings(), resource_group="team(eu)")
    job = workspace_id(chosen).child(Kind.EXPERIMENT, "default").child(Kind.JOB, "long")
    assert resume_command(job, "logs -f") == "batchai logs -f long -g 'team(eu)'"


def test_the_command_to_resume_has_what_a_shell_does_not_know_of_a_notebook():
    chosen = replace(load_settings(), workspace="own")
    select_settings(chosen)
    job = workspace_id(chosen).child(Kind.EXPERIMENT, "default").child(Kind.JOB, "long")
    assert resume_command(job, "logs -f") == "batchai logs -f long -w own"


def test_lists_tell_of_idle_nodes_that_cost_money(context, do):
    idle = "Cluster default has an idle node, which costs 2.00 USD an hour; "
    assert "idle" not in "".join(do("ps").notes)
    priced = Context(replace(context.settings, prices="Standard_D2=2"))
    with contextlib.closing(priced.backend):
        for line in ("job list", "ps", "cluster list"):
            assert until(lambda line=line: idle in "".join(run(parse(line.split()), priced).notes))
