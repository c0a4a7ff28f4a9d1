"""`batchai logs`, `cancel` and `ps` on real jobs."""

import json
import re
from dataclasses import replace

import pytest

from batchai_magics.backends.base import Chunk, Span, WriteTime
from batchai_magics.commands.handlers.job_wait import watch_job
from batchai_magics.commands.output.command_progress import LogOutput, Message
from batchai_magics.commands.output.job_summary import summary_of
from batchai_magics.commands.output.shell_output import job_text, read_overview
from batchai_magics.errors import NotFoundError, UsageError
from batchai_magics.jobs.job_logs import LogSelection
from batchai_magics.models.states import ExecutionState
from tests.patience import PATIENCE_S
from tests.world import until

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("cluster")]


@pytest.fixture
def ended(do, job_file):
    """A job that has written to both logs."""
    command = "echo one; sleep 0.3; echo bad >&2; sleep 0.3; echo two"
    job = do(f"job create -n hello -f {job_file(command)}").value
    job.wait(PATIENCE_S)
    return job


@pytest.fixture
def running(do, job_file):
    job = do(f"job create -n endless -f {job_file('echo up; sleep 1000')}").value
    until(lambda: job.log() == "up\n")
    yield job
    job.cancel()
    job.wait(PATIENCE_S)


def output(do, line):
    return b"".join(part.data for part in do(line).parts if isinstance(part, LogOutput)).decode()


@pytest.mark.parametrize("line", ["logs hello", "logs hello --out", "logs hello --tail 1", "logs hello -f"])
def test_logs_say_what_is_missing_at_their_end(do, ended, context, line):
    (log,) = context.backend.layout.home.rglob("stdout.txt")
    log.write_text("one\n")
    said = [part.text for part in do(line).parts if isinstance(part, Message)]
    assert "Warning: stdout.txt is not complete: 4 of its 8 bytes are missing." in said


def test_logs_are_printed_as_far_as_they_go(do, ended, context):
    lines = {
        "logs hello": "one\nbad\ntwo\n",
        "logs hello -f": "one\nbad\ntwo\n",
        "logs hello --out": "one\ntwo\n",
        "logs hello --err": "bad\n",
        "logs hello --err -f": "bad\n",
        "logs hello --tail 2": "bad\ntwo\n",
        "logs hello --rank 0": "one\nbad\ntwo\n",
        "logs hello --file stderr.txt": "bad\n",
    }
    assert {line: output(do, line) for line in lines} == lines
    assert do("ps").notes == ("No jobs are queued or running.",)
    with pytest.raises(NotFoundError, match=r"job hello has no file loss\.csv") as caught:
        do("logs hello --file loss.csv")
    assert "stderr.txt, stdout.txt" in caught.value.hint
    read = context.backend.read  # streams without write times are printed below their names
    context.backend.read = lambda *words: replace(read(*words), times=())
    assert output(do, "logs hello") == "==> stdout.txt <==\none\ntwo\n==> stderr.txt <==\nbad\n"
    assert sorted(output(do, "logs hello -f").splitlines()) == ["bad", "one", "two"]


def test_a_running_job_is_listed_and_its_log_printed_without_waiting(do, running):
    assert output(do, "logs endless") == output(do, "logs endless --since 5m") == "up\n"
    for table in (do("ps").table, do("watch").table):
        assert re.fullmatch(r"0:\d\d", table.texts[0][table.titles.index("Elapsed")])
    told = do("stacks endless")
    assert [(rank["rank"], rank["frames"], rank["text"]) for rank in told.data["ranks"]] == [(0, [], "")]
    assert told.to_frame()["Place"].tolist() == [""]
    assert "no Python process that can be asked" in told.value.terminal_text
    until(lambda: output(do, "logs endless --since 1s") == "")
    with pytest.raises(UsageError, match=r"--since: .soon. is not a valid duration"):
        do("logs endless --since soon")


def test_a_followed_log_ends_with_why_the_job_failed(do, job_file):
    do(f"job create -n bad -f {job_file('exit 3')}")
    said = [part.text for part in do("logs bad -f").parts if isinstance(part, Message)]
    assert said[-1].endswith(": rank 0: exit code 3")


@pytest.fixture
def ranks(do, tmp_path):
    """A job of two ranks that have each written a line."""
    script = tmp_path / "ranks.py"
    script.write_text("import os; print('rank', os.environ['AZ_BATCHAI_TASK_INDEX'])")
    settings = {"commandLine": f"python {script}", "batchaiProcessCount": 2}
    properties = {
        "nodeCount": 1,
        "customToolkitSettings": settings,
        "stdOutErrPathPrefix": "$AZ_BATCHAI_MOUNT_ROOT/x",
    }
    file = tmp_path / "ranks.json"
    file.write_text(json.dumps({"properties": properties}))
    do(f"job create -n ranks -f {file}").value.wait(PATIENCE_S)


def test_a_rank_is_picked_from_a_log(do, ranks):
    assert output(do, "logs ranks --rank 1") == "rank 1\n"
    assert output(do, "logs ranks --rank 0 -f") == "rank 0\n"
    assert output(do, "logs ranks --rank 7 --tail 1") == ""
    said = [part.text for part in do("logs ranks --rank 7").parts if isinstance(part, Message)]
    assert said == ["Rank 7 of ranks has written nothing to stdout.txt or stderr.txt."]


def test_a_queued_job_is_listed_and_waited_for_with_the_reason(do, running, job_file):
    do(f"job create -n next -f {job_file('true')}")
    last = do(f"job create -n last -f {job_file('true')}").value
    reason = "endless is using its nodes; next is ahead in the queue"
    assert reason in do("ps").to_text("table")
    assert reason in str(job_text(read_overview(last)))
    assert summary_of(last)["waiting"] == reason
    said = (part.text for part in watch_job(last.backend, last.id) if isinstance(part, Message))
    assert any(text == f"Job is waiting: {reason}" for text in said)


def test_the_latest_run_of_a_name_is_told_where_the_first_one_has_ended(do, job_file):
    for name in ("train", "train-2", "train-3"):
        do(f"job create -n {name} -f {job_file('true')}")
        assert list(do(f"job wait -n {name}").parts)
    told = "train-3 is the latest run of train."
    assert do("show train").notes == (told,)
    assert do("show train-3").notes == ()
    assert do("cancel train").notes == ("train has already ended (succeeded).", told)
    assert [part.text for part in do("logs train").parts if isinstance(part, Message)] == [told]


def test_options_that_exclude_each_other_are_refused(do):
    for line in ("logs hello --err --file x", "logs hello --out --err", "logs hello -f --tail 1"):
        with pytest.raises(UsageError, match="are both given"):
            do(line)


def test_a_cancelled_job_ends_and_one_that_has_not_started_has_nothing_to_save(do, job_file, running):
    do(f"job create -n waits -f {job_file('true')}")
    assert do("cancel waits").notes == ("Cancelling waits.",)
    assert do("cancel endless").notes == ("Cancelling endless; again, to kill it before it has saved.",)
    assert running.wait(PATIENCE_S).state is ExecutionState.FAILED
    assert do("cancel endless").notes == ("endless has already ended (cancelled).",)


def test_a_job_that_saves_says_so_until_it_is_cancelled_again(do, job_file):
    command = "trap '' TERM; echo up; while true; do sleep 1; done"
    job = do(f"job create -n stubborn --grace 1h -f {job_file(command)}").value
    until(lambda: job.log() == "up\n")
    do("cancel stubborn")
    assert any("saving, up to 60 min" in row for row in do("ps").value.to_table().rows)
    assert do("cancel stubborn").notes == ("Killing stubborn.",)
    assert job.wait(PATIENCE_S).show().is_cancelled


def test_lines_of_a_chunk_are_selected_by_rank_and_time():
    spans = (Span(10, 13, 0), Span(13, 16, 1), Span(16, 19, 0))
    chunk = Chunk(b"a1\nb1\na2\n", 10, 19, True, spans=spans, times=(WriteTime(10, 5.0), WriteTime(13, 7.0)))
    assert LogSelection().of(chunk) == chunk.data
    assert LogSelection(rank=0).of(chunk) == b"a1\na2\n"
    assert LogSelection(rank=1).of(chunk) == b"b1\n"
    assert LogSelection(since=6.0).of(chunk) == b"b1\na2\n"
    assert LogSelection(rank=0, since=6.0).of(chunk) == b"a2\n"
    assert LogSelection(since=8.0).of(chunk) == b""
