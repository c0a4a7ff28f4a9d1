"""A process whose job has ended runs the next one; it keeps secrets in memory alone, and loses nothing."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from batchai_magics.backends.local.process import Secrets
from batchai_magics.backends.local.state import job_table
from batchai_magics.backends.local.supervisor import LocalReport
from batchai_magics.backends.node.outcome import REQUEUE, TERMINATE
from batchai_magics.jobs.job_handle import Job
from batchai_magics.launch.outcome import Outcome
from batchai_magics.models.resource_ids import ResourceId
from batchai_magics.models.states import ExecutionState
from tests.backends.local.still import Still
from tests.patience import PATIENCE_S
from tests.world import World, until

pytestmark = pytest.mark.slow

GATE = """
import os, time
gate = os.environ['AZ_BATCHAI_MOUNT_ROOT'] + '/autoafs/open'
while not os.path.exists(gate): time.sleep(0.01)
"""
KNOWS = "import os, time\nprint(len(os.environ['TOKEN']), flush=True)\ntime.sleep(1000)"
STAYS = "import time; print('up', flush=True); time.sleep(1000)"


def queue(world: World, *scripts: str, line: str = "--nodes 2 --toolkit custom") -> list[Job]:
    """A job that waits for `let_go`, and these behind it."""
    return [world.submit(f"j{index} {line}", script) for index, script in enumerate((GATE, *scripts))]


def let_go(world: World) -> None:
    world.backend.storage.upload("batchaishare", {"open": b""})


def supervisors(world: World) -> list[str]:
    """Who watched over each job, in the order of their making."""
    with world.backend.store.read() as db:
        return [name for (name,) in db.execute("SELECT supervisor FROM job ORDER BY rowid")]


def test_short_jobs_run_one_after_the_other_in_one_process(world: World) -> None:
    world.settings = replace(world.settings, provenance="full")
    jobs = queue(world, "print(1)", "print(2)")
    let_go(world)
    assert [job.wait(PATIENCE_S).log() for job in jobs] == ["", "1\n", "2\n"]
    assert len(set(supervisors(world))) == 1
    assert [len(job.provenance().machines) for job in jobs] == [1, 1, 1]  # complete when a job has ended


def test_a_killed_process_fails_the_job_that_it_runs_and_no_other(world: World) -> None:
    first, second, third = queue(world, STAYS, "print('third')")
    let_go(world)
    until(lambda: second.log() == "up\n")
    world.supervisor(second).kill()
    assert third.wait(PATIENCE_S).log() == "third\n"
    assert first.state is ExecutionState.SUCCEEDED
    assert second.show().execution.errors[0].code == "JobSupervisorLost"


def test_a_process_that_had_another_job_has_loaded_no_models_and_ends_this_one_at_once(world: World) -> None:
    _, second = queue(world, STAYS, line="--nodes 2 --processes 4 --toolkit custom")
    let_go(world)
    until(lambda: second.log() == "up\n" * 4)
    assert len(set(supervisors(world))) == 1
    libraries = Path(f"/proc/{world.supervisor(second).pid}/maps").read_text()
    assert "python" in libraries
    assert "pydantic" not in libraries  # whose import takes longer than all that the process does for a job
    second.cancel()
    assert second.wait(PATIENCE_S).show().execution.errors[0].code == "JobTerminated"


def test_no_process_that_knows_secrets_has_another_job(world: World, monkeypatch) -> None:
    monkeypatch.setenv("TOKEN", "hush-hush")
    secret = "import os; print(len(os.environ.get('TOKEN', '')))"
    first, plain = queue(world, secret)
    hidden = world.submit("hidden --nodes 2 --toolkit custom --secret TOKEN", secret)
    last = world.submit("last --nodes 2 --toolkit custom", secret)
    let_go(world)
    assert [job.wait(PATIENCE_S).log() for job in (first, plain, hidden, last)] == ["", "0\n", "9\n", "0\n"]
    names = supervisors(world)
    assert names[0] == names[1]
    assert len(set(names[1:])) == 3


def test_secrets_are_not_shown() -> None:
    held = Secrets({"TOKEN": "hush-hush"}, "password")
    assert "hush" not in repr(held)
    assert "password" not in repr(held).replace("registry_password", "")
    assert Secrets(**json.loads(json.dumps(held._asdict()))) == held


def test_a_job_that_starts_again_has_its_secrets_again(world: World, monkeypatch) -> None:
    monkeypatch.setenv("TOKEN", "hush-hush")
    cluster = world.make_cluster(vmPriority="lowpriority").id
    job = world.submit("j --cluster c --secret TOKEN", KNOWS)
    for times in (1, 2):
        until(lambda times=times: job.log().count("9\n") == times)
        world.backend.preemption.preempt(cluster, world.backend.nodes(cluster)[0].id)
    until(lambda: job.log().count("9\n") == 3)
    world.supervisor(job).kill()  # who knew them is gone
    until(lambda: job.is_done)
    assert job.state is ExecutionState.FAILED


def tell_to_stop(world: World, job: Job, reason: str) -> None:
    """Tells a job to stop as if it had its nodes and had not begun."""
    with world.backend.store.write() as db:
        job_table.ask_to_stop(db, world.guid(job), reason, again="its nodes left the cluster")


def test_job_terminated_before_it_starts_does_not_block_the_queue(world: World, tmp_path: Path) -> None:
    ran = tmp_path / "ran"
    _, ended, _ = queue(world, STAYS, f"open({str(ran)!r}, 'w')")
    tell_to_stop(world, ended, TERMINATE)
    let_go(world)
    until(ran.exists)  # although nobody looks
    assert ended.show().execution.errors[0].code == "JobTerminated"


def test_a_job_whose_nodes_leave_before_it_begins_keeps_its_secrets(world: World, monkeypatch) -> None:
    monkeypatch.setenv("TOKEN", "hush-hush")
    queue(world)
    script = "import os; print(len(os.environ['TOKEN']))"
    hidden = world.submit("hidden --nodes 2 --toolkit custom --secret TOKEN", script)
    tell_to_stop(world, hidden, REQUEUE)
    let_go(world)
    assert hidden.wait(PATIENCE_S).log() == "9\n"


def test_leftover_processes_are_gone_before_the_next_job_starts(world: World) -> None:
    stray = "Popen(['sleep', '1000'], start_new_session=True, env={})"
    code = f"from subprocess import DEVNULL, Popen; print({stray[:-1]}, stdout=DEVNULL, stderr=DEVNULL).pid)"
    _, leaves, last = queue(world, code, STAYS)
    let_go(world)
    until(lambda: last.log() == "up\n")
    assert not psutil.pid_exists(int(leaves.log()))
    assert len(set(supervisors(world))) == 1
    last.cancel()


def test_a_process_complains_in_the_log_of_the_job_that_it_runs_now(tmp_path: Path) -> None:
    log = tmp_path / "job" / "supervisor.log"
    code = (
        "import sys; from pathlib import Path\n"
        "from batchai_magics.backends.local.process import redirect_output\n"
        "redirect_output(Path(sys.argv[1])); print(Path.cwd(), flush=True); sys.exit('broken')"
    )
    done = subprocess.run([sys.executable, "-c", code, str(log)], capture_output=True, check=False)
    assert (done.stdout, done.stderr) == (b"", b"")
    assert log.read_text() == f"{log.parent}\nbroken\n"


def running(still: Still, *queued: str, count: int = 1, **fields: object) -> ResourceId:
    """A job that has all nodes of a cluster, before others."""
    still.cluster()
    still.prepare()
    job = still.job("a", 2)
    still.schedule()
    for name in queued:
        still.job(name, count, **fields)
    return job


def finish(still: Still, job: ResourceId, *, takes_next: bool = True) -> str:
    """Ends the job as its supervisor does; the name of the job that it goes on with."""
    guid = still.state(job)["guid"]
    writer = LocalReport(still.store, still.layout.job(guid))
    writer.finish(Outcome(0), takes_next=takes_next)
    return writer.next_job.key.rpartition("/")[2] if writer.next_job else ""


@pytest.mark.parametrize("column", ["python = '/other/python'", "needs_secrets = 1, supervisor = '1:1:x'"])
def test_a_job_of_another_interpreter_or_with_secrets_is_not_taken(still: Still, column: str) -> None:
    job = running(still, "b")
    still.change(f"UPDATE job SET {column} WHERE key != ?", job.key)
    assert not finish(still, job)
    assert not still.assigned()


def test_a_job_that_was_deleted_meanwhile_has_no_next_job(still: Still) -> None:
    job = running(still, "b")
    guid = still.state(job)["guid"]
    still.layout.job(guid).root.mkdir(parents=True, exist_ok=True)
    still.change("DELETE FROM job WHERE key = ?", job.key)
    writer = LocalReport(still.store, still.layout.job(guid))
    writer.finish(Outcome(0), takes_next=True)
    assert writer.next_job is None
