"""What Slurm answers, by answers as its versions give them."""

from datetime import datetime, timezone

import pytest

from batchai_magics.backends.slurm import parse
from batchai_magics.backends.slurm.node.attempt_ends import EndState, end_state_of, outcome_of
from batchai_magics.models.states import NodeState

NOW = datetime(2026, 11, 22, tzinfo=timezone.utc).timestamp()
SIGN = "\x1f"


@pytest.mark.parametrize(
    ("text", "state"),
    [
        ("allocated", NodeState.RUNNING),
        ("mixed", NodeState.RUNNING),
        ("completing", NodeState.RUNNING),
        ("idle*", NodeState.UNUSABLE),
        ("down*", NodeState.UNUSABLE),
        ("down", NodeState.UNUSABLE),
        ("draining", NodeState.UNUSABLE),
        ("a_state_of_next_year", NodeState.UNUSABLE),
    ],
)
def test_a_nodes_state_is_read_also_where_no_version_has_a_sample(text, state):
    assert parse.node_state(text) is state


@pytest.mark.parametrize(("text", "number"), [("12\n", "12"), ("12;cluster\n", "12"), ("note\n7\n", "7")])
def test_a_jobs_number_is_found_in_what_sbatch_says(text, number):
    assert parse.job_number(text) == number


@pytest.mark.parametrize(("cores", "count"), [("64", 64), ("64+", 64), ("", 1), ("n/a", 1)])
def test_a_node_has_one_core_at_least(cores, count):
    row = ("n1", "gpu*", "idle", cores, "infinite", "none", "(null)", "(null)", "1-infinite")
    assert [node.cores for node in parse.nodes(SIGN.join(row))] == [count]


@pytest.mark.parametrize(
    ("reason", "start", "words"),
    [
        ("Resources", "N/A", "too few of its nodes are free"),
        ("Priority", "N/A", "other jobs are ahead of it in Slurm's queue"),
        ("NewInSlurm30", "N/A", "Slurm says NewInSlurm30"),
        ("None", "N/A", ""),
        ("", "N/A", ""),
        (
            "Resources",
            "2026-11-22T14:05:59",
            "too few of its nodes are free; Slurm expects it to start on 2026-11-22 at 14:05:59",
        ),
        (
            "Priority",
            "2027-11-20T14:05:59",
            "other jobs are ahead of it in Slurm's queue; when it starts is not known: a job ahead of it has"
            " no time limit",
        ),
    ],
)
def test_why_a_job_waits_is_told_in_words(reason, start, words):
    job = parse.SlurmJob("7", "PENDING", reason, start, "", "guid", asked=NOW)
    assert parse.pending_reason(job) == words


@pytest.mark.parametrize(
    "state", ["REQUEUED", "REQUEUE_HOLD", "REQUEUE_FED", "SPECIAL_EXIT", "RESV_DEL_HOLD"]
)
def test_a_job_that_waits_for_another_time_says_why(state):
    line = parse.SlurmJob("7", state, "job requeued in held state", "N/A", "", "guid")
    assert parse.pending_reason(line) == "it was queued again and is held: use scontrol release"


@pytest.mark.parametrize("state", ["RUNNING", "COMPLETING", "COMPLETED"])
def test_a_job_that_waits_no_longer_says_nothing(state):
    line = parse.SlurmJob("7", state, "Resources", "2026-11-22T14:05:59", "n1", "guid")
    assert parse.pending_reason(line) == ""


@pytest.mark.parametrize(
    ("limit", "count"),
    [("1-00:00:00", 1440), ("30:00", 30), ("1:30:00", 90), ("infinite", None), ("n/a", None)],
)
def test_a_time_limit_is_read_in_minutes(limit, count):
    assert parse.minutes(limit) == count


def test_a_refusal_is_told_in_slurms_words():
    words = "sbatch: error: invalid partition specified: nope\nsbatch: error: Batch job submission failed\n"
    error = parse.service_error("sbatch", words)
    assert "invalid partition specified: nope; Batch job submission failed" in error.message
    assert error.code == "SlurmRefused"


@pytest.mark.parametrize(
    ("state", "ending"),
    [
        ("CANCELLED by 1000", EndState.CANCELLED),
        ("CANCELLED+", EndState.CANCELLED),
        ("OUT_OF_MEMORY", EndState.OUT_OF_MEMORY),
        ("NODE_FAIL", EndState.NODE_FAIL),
        ("PENDING", None),
        ("COMPLETING", None),
    ],
)
def test_a_jobs_state_says_whether_and_how_it_ended(state, ending):
    assert end_state_of(state) is ending


@pytest.mark.parametrize("ending", EndState)
def test_every_ending_has_a_code_and_words(ending):
    (error,) = outcome_of(ending).errors
    assert error["code"]
    assert error["message"].strip(".") == error["message"]


def test_a_job_that_was_asked_to_end_ends_for_that_reason():
    (error,) = outcome_of(EndState.CANCELLED, reason="The cluster c was deleted").errors
    assert error["message"] == "The cluster c was deleted"
