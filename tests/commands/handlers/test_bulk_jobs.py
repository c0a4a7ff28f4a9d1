"""Many jobs at once."""

import pytest

from batchai_magics.commands.command_runner import run
from batchai_magics.commands.handlers.job_submission import job_files
from batchai_magics.commands.output.command_progress import Operation, run_operation
from batchai_magics.commands.parsing.command_parser import parse
from batchai_magics.errors import BatchAIError, JobFailedError, SpecError, UsageError
from tests.commands.job_json import write_job
from tests.world import until

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("cluster")]


@pytest.fixture
def jobs(tmp_path):
    """A folder with three job files; one of the jobs fails."""
    folder = tmp_path / "jobs"
    folder.mkdir()
    for name, command in {"a": "true", "b": "exit 3", "c": "true"}.items():
        write_job(folder, command).rename(folder / f"{name}.json")
    return folder


def names(result):
    return [job.id.name for job in result]


def test_jobs_of_a_pattern_are_waited_for_run_again_and_deleted_together(do, jobs):
    assert names(do(f"job create -f '{jobs}/*.json'")) == ["a", "b", "c"]
    with pytest.raises(JobFailedError, match=r"1 of 3 jobs did not succeed: b \(failed\)") as caught:
        do("experiment wait -n default")
    assert caught.value.exit_code == 1
    assert sorted(do("job list").table.rows)[1][-2:] == ("failed", 3)
    assert names(do("job resubmit --state failed")) == ["b-2"]
    with pytest.raises(JobFailedError, match="2 of 4"):
        do("experiment wait")
    assert do("job delete --state failed -y").notes == ("2 failed jobs deleted.",)
    assert names(do("job list")) == ["a", "c"]
    assert do("job delete --state succeeded -y").notes == ("2 succeeded jobs deleted.",)


def test_all_jobs_are_waited_for_together(context, do, jobs):
    for name, command in {"a": "sleep 1000", "b": "true"}.items():
        write_job(jobs, command).rename(jobs / f"{name}.json")
    do("cluster resize -n default -t 2")
    do(f"job create -f {jobs}/a.json {jobs}/b.json")
    steps = run(parse(["experiment", "wait"]), context).operation.steps
    until(lambda: next(steps) == 1)  # b has ended, although a, which was made before it, goes on
    assert [job.state.is_final for job in do("job list")] == [False, True]
    do("job terminate -n a -y")
    with pytest.raises(JobFailedError, match=r"1 of 2 jobs did not succeed: a \(cancelled\)"):
        list(steps)


def test_a_job_that_is_deleted_is_waited_for_no_longer(context, do, jobs):
    write_job(jobs, "sleep 1000").rename(jobs / "a.json")
    do(f"job create -n a -f {jobs}/a.json")
    steps = run(parse(["experiment", "wait"]), context).operation.steps
    assert next(steps) == 0
    do("job delete -n a -y")
    assert sum(steps) == 1


def test_several_files_are_numbered_after_a_given_name(do, jobs):
    made = do(f"job create -n run -f {jobs}/a.json {jobs}/c.json -f {jobs}/a.json")
    assert names(made) == ["run-1", "run-2"]
    assert names(do("experiment wait")) == ["run-1", "run-2"]


def test_nothing_is_made_when_one_file_is_bad(do, jobs):
    (jobs / "d.json").write_text('{"properties": {"nodeCount": 0}}')
    with pytest.raises(SpecError):
        do(f"job create -f '{jobs}/*.json'")
    assert len(do("job list")) == 0


def test_several_files_of_the_same_name_need_a_job_name(do, jobs):
    (jobs / "more").mkdir()
    (jobs / "a.json").rename(jobs / "more/b.json")
    with pytest.raises(UsageError, match="several files are called b"):
        do(f"job create -f {jobs}/b.json {jobs}/more/b.json")


def test_a_job_without_a_name_is_named_after_its_file(do, jobs):
    made = do(f"job create -f {jobs}/a.json")
    assert made.value.name == "a"
    assert made.notes == ("The job is called a, after its file; -n sets another name.",)


def test_files_that_are_just_called_job_are_named_after_their_folders(do, jobs):
    for name in ("one", "two"):
        (jobs / name).mkdir()
        write_job(jobs / name, "true")
    assert names(do(f"job create -f '{jobs}/*/job.json'")) == ["one", "two"]


def test_a_pattern_that_nothing_fits_is_refused(jobs):
    with pytest.raises(UsageError, match="no file matches"):
        job_files([f"{jobs}/*.yaml"])


def test_a_job_is_named_in_one_way(do):
    for line in ("job delete -y", "job delete -n x --state failed -y", "job resubmit"):
        with pytest.raises(UsageError, match="--name/-n, or --state"):
            do(line)


def test_an_interrupt_between_two_jobs_says_what_is_there(context, jobs):
    pending = run(parse(["job", "create", "-f", f"{jobs}/*.json"]), context)

    def interrupted():
        yield next(pending.operation.steps)
        raise KeyboardInterrupt

    operation = Operation("Submitting", 3, "job", interrupted(), pending.operation.resume_hint)
    with pytest.raises(BatchAIError, match="The created jobs keep running: batchai job list") as caught:
        run_operation(operation, is_shown=False)
    assert caught.value.exit_code == 130
    pending.operation.steps.close()
