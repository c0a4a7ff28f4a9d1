"""Jobs that start after others: whoever is killed meanwhile, they start or end, and hold up no queue."""

from __future__ import annotations

import pytest

from batchai_magics.backends.local.backend import LocalBackend
from batchai_magics.backends.local.settings import LocalSettings
from batchai_magics.jobs.job_handle import Job
from batchai_magics.models.states import ExecutionState
from tests.backends.local.state.test_store_rebuild import lose
from tests.backends.local.test_crashes import end, kernel, up
from tests.backends.local.test_hand_over import GATE, let_go
from tests.patience import PATIENCE_S
from tests.world import World, is_alive, until

pytestmark = pytest.mark.slow


def code(job: Job) -> str:
    """Why a job failed."""
    return job.wait(PATIENCE_S).show().execution.errors[0].code


def test_job_keeps_waiting_for_a_requeued_predecessor(world: World) -> None:
    first = up(world, "j --nodes 2 --processes 2 --requeue 1")
    second = world.submit("second --after j")
    world.supervisor(first).kill()
    until(lambda: first.log().count("up\n") == 4)
    assert second.show().waiting == "j has to succeed first"
    first.cancel()
    assert code(second) == "DependencyFailed"


def test_a_job_starts_after_one_of_another_kernel_although_both_kernels_are_killed(world: World) -> None:
    first = kernel(world, "import time; time.sleep(1)", "first")
    assert first.stdout.readline() == "submitted\n"
    second = kernel(world, "print('second')", "second --after first")
    assert second.stdout.readline() == "submitted\n"
    end(first)
    end(second)
    with world.backend.store.read() as db:  # looks without helping, as `show` would
        until(lambda: db.execute("SELECT count(*) FROM job WHERE state = 'succeeded'").fetchone()[0] == 2)


def test_job_waiting_for_a_predecessor_does_not_block_the_queue(world: World) -> None:
    first = up(world, "first --processes 2")
    waiting = world.submit("waiting --nodes 2 --priority high --after first")
    assert world.run("short").state is ExecutionState.SUCCEEDED
    behind = world.submit("behind --nodes 2")
    assert list(world.backend.jobs_ahead_of(behind.show())) == []
    assert list(world.backend.jobs_ahead_of(waiting.show())) == []
    first.cancel()


def test_a_waiting_job_keeps_its_secrets_and_their_holder_ends_with_it(world: World, monkeypatch) -> None:
    monkeypatch.setenv("TOKEN", "hush-hush")
    first = world.submit("first", GATE)
    code_of_second = "import os; print(len(os.environ['TOKEN']))"
    second = world.submit("second --secret TOKEN --after first", code_of_second)
    third = world.submit("third --secret TOKEN --after second --after first", "raise SystemExit(1)")
    fourth = world.submit("fourth --secret TOKEN --after third", "print('never')")
    holder = world.supervisor(fourth)
    let_go(world)
    assert second.wait(PATIENCE_S).log() == "9\n"
    assert first.state is ExecutionState.SUCCEEDED
    assert code(fourth) == "DependencyFailed"
    until(lambda: not is_alive(holder))
    assert third.exit_code == 1


def test_rebuilt_job_waits_only_for_open_predecessors(world: World, monkeypatch) -> None:
    monkeypatch.setenv("TOKEN", "hush-hush")
    done = world.submit("done", GATE)
    lost = up(world, "lost --processes 2")
    fine = world.submit("fine --secret TOKEN --after lost --after done")
    until(world.backend.layout.job(world.guid(fine)).supervisor.exists)  # who holds its secrets
    let_go(world)
    done.wait(PATIENCE_S)
    world.backend.close()
    lose(world.home)
    again = LocalBackend(LocalSettings(home=world.home))
    with pytest.warns(RuntimeWarning, match="was rebuilt with"):
        assert again.show(fine.id).waiting == "lost has to succeed first"
    again.terminate(lost.id)
    until(lambda: again.reconcile() or again.show(fine.id).state.is_final)
    assert again.show(fine.id).execution.errors[0].code == "DependencyFailed"
    assert again.show(done.id).state is ExecutionState.SUCCEEDED
    again.close()


def test_a_job_whose_predecessor_vanished_with_its_experiment_ends(world: World) -> None:
    first = up(world, "first --processes 2 --experiment other")
    second = world.submit(f"second --after {first.id}")
    with world.backend.store.write() as db:  # as a deletion does that has not seen the second one
        db.execute("DELETE FROM resource WHERE key = ?", (first.id.key,))
    until(lambda: world.backend.reconcile() or second.show().state.is_final)
    assert code(second) == "DependencyFailed"
    assert second.show().lost_predecessor.startswith("first did not succeed")
