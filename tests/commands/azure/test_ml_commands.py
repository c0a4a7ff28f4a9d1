"""`ml job …`, as tutorials of Azure Machine Learning call it."""

import pytest

from batchai_magics.commands.output.command_progress import LogOutput
from batchai_magics.commands.parsing.command_parser import az_command_words
from batchai_magics.errors import NotFoundError
from batchai_magics.models.states import ExecutionState
from tests.patience import PATIENCE_S
from tests.world import until


def test_a_workspace_without_jobs_has_an_empty_list(do):
    assert do("ml job list").data == []


def test_az_knows_the_commands():
    assert az_command_words(["ml", "job", "list", "-w", "w"]) == ["ml", "job", "list", "-w", "w"]


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
