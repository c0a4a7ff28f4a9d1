"""Slurm's answers as its versions give them, from 20.11 to 25.05.

Debian's 22.05 is what runs in the other tests. The samples of the others were written after the manual pages
of their releases (the lists of states of squeue and sinfo, the suffixes of node states), the release notes
(states that were added, fields that were moved), and logs that people put into public issues. Only the shape
is theirs: names, numbers and times are made up.
"""

from datetime import datetime, timezone

import pytest

from batchai_magics.backends.slurm import parse
from batchai_magics.backends.slurm.node import allocation
from batchai_magics.backends.slurm.node.attempt_ends import EndState, end_state_of, outcome_of
from batchai_magics.backends.slurm.parse import JOB_FIELDS, NODE_FIELDS
from batchai_magics.errors import CapabilityError
from batchai_magics.models.states import NodeState

NOW = datetime(2026, 11, 22, tzinfo=timezone.utc).timestamp()
SIGN = "\x1f"


def rows(text: str, count: int) -> str:
    """A sample with the separator in place of `|`."""
    lines = text.strip().splitlines()
    assert all(line.count("|") in (count - 1, 0) for line in lines)
    return "\n".join(line.replace("|", SIGN) for line in lines)


# `slurm` of SchedMD's own builds, `slurm-wlm` of Debian's and Ubuntu's packages up to 21.08; candidates have
# a tail.
@pytest.mark.parametrize(
    "text",
    ["slurm 20.11.9", "slurm-wlm 21.08.5", "slurm 23.02.0-0rc1", "slurm 25.11.0", "a site's own words"],
)
def test_every_version_from_20_11_on_is_taken(text):
    parse.check_version(f"{text}\n")


@pytest.mark.parametrize("text", ["slurm 20.02.7", "slurm-wlm 19.05.5", "slurm 17.11.2", "slurm 2.6.5"])
def test_an_older_one_is_refused_with_the_one_that_is_needed(text):
    with pytest.raises(CapabilityError, match=f"this Slurm is too old: {text}") as caught:
        parse.check_version(f"{text}\n")
    assert "20.11 or newer" in caught.value.hint


# squeue: 20.11 has the pending reasons of old; 21.08 says PLANNED nodes; since 23.02 a comment may be
# `(null)`; 24.05 and later add RESV_DEL_HOLD's own reason, 25.05 tells of nodes in brackets with steps.
JOBS = {
    "20.11": """
7|PENDING|Resources|2026-11-22T14:05:59||guid-7
8|PENDING|ReqNodeNotAvail, UnavailableNodes:n[1-2,9]|N/A||guid-8
9|RUNNING|None|2026-11-22T09:00:00|n[1-2]|guid-9
""",
    "21.08": """
7|PENDING|Nodes required for job are DOWN, DRAINED or reserved for other jobs|N/A||guid-7
8|CONFIGURING|None|2026-11-22T09:00:00|cloud[1-2]|guid-8
9|REQUEUE_HOLD|launch failed requeued held|N/A||guid-9
""",
    "22.05": """
7|PENDING|BeginTime|2026-11-22T14:16:04||guid-7
8|PENDING|job requeued in held state|N/A||guid-8
9|OUT_OF_MEMORY|OutOfMemory|2026-11-22T09:00:00|n1|guid-9
""",
    "23.11": """
CLUSTER: alpha
7|PENDING|QOSMaxJobsPerUserLimit|N/A||guid-7
8|COMPLETING|None|2026-11-22T09:00:00|n1|guid-8
9|NODE_FAIL|NodeDown|2026-11-22T09:00:00|n1|(null)
""",
    "25.05": """
7|PENDING|AssocGrpGRESRunMinutes|N/A||guid-7
8|RESV_DEL_HOLD|ReservationDeleted|N/A||guid-8
9|PREEMPTED|None|2026-11-22T09:00:00|n[01-02,10]|guid-9
""",
}
WORDS = {
    "20.11": ("too few of its nodes are free; Slurm expects", "nodes that it needs cannot be used now", None),
    "21.08": ("nodes that it needs are down", "its nodes are being started", None),
    "22.05": ("the time at which it may begin", "it was queued again and is held", EndState.OUT_OF_MEMORY),
    "23.11": ("a limit of your QOS is reached (QOSMaxJobsPerUserLimit)", "", EndState.NODE_FAIL),
    "25.05": (
        "a limit of your account is reached (AssocGrpGRESRunMinutes)",
        "its reservation was deleted",
        EndState.PREEMPTED,
    ),
}


@pytest.mark.parametrize("version", JOBS)
def test_jobs_are_understood(version):
    found = parse.jobs(rows(JOBS[version], len(JOB_FIELDS)))
    first, second, ending = WORDS[version]
    assert list(found) == ["7", "8", "9"]
    assert parse.pending_reason(found["7"]).startswith(first)
    assert parse.pending_reason(found["8"]).startswith(second)
    assert end_state_of(found["9"].state) is ending


# sinfo: before 21.08 a node that Slurm stops is `%` and one that it stopped `~`, without a state of its own;
# 21.08 adds `!` (to be powered down), `^` and `@` (reboots), `-` and `planned`; 23.11 adds `blocked`,
# 24.05 `invalid` registrations; `$` is a maintenance reservation in all of them.
NODES = {
    "20.11": """
n1|gpu*|idle|64|1-00:00:00|none|a100|gpu:4(S:0-1)|1-infinite
n2|gpu*|allocated#|64|1-00:00:00|none|(null)|(null)|1-infinite
n3|gpu*|idle~|64|1-00:00:00|none|(null)|(null)|1-infinite
n4|gpu*|idle%|64|1-00:00:00|none|(null)|(null)|1-infinite
n5|gpu*|drained*|64|1-00:00:00|Not responding|(null)|(null)|1-infinite
""",
    "21.08": """
n1|gpu*|idle-|64|infinite|none|a100,nvlink|gpu:a100:4(S:0-1)|1-4
n2|gpu*|mixed#|64|infinite|none|(null)|(null)|1-4
n3|gpu*|planned|64|infinite|none|(null)|(null)|1-4
n4|gpu*|idle!|64|infinite|none|(null)|(null)|1-4
n5|gpu*|maint$|64|infinite|kernel, then firmware|(null)|(null)|1-4
""",
    "23.11": """
n1|gpu*|idle|64|infinite|none|a100|gpu:a100:4(S:0-1),mps:400|1-4
n2|gpu*|idle#|64|infinite|none|(null)|(null)|1-4
n3|gpu*|idle~|64|infinite|none|(null)|(null)|1-4
n4|gpu*|mixed%|64|infinite|none|(null)|(null)|1-4
n5|gpu*|down~|64|infinite|ResumeTimeout reached|(null)|(null)|1-4
""",
    "25.05": """
n1|gpu*|idle|64|infinite|none|a100|gpu:a100:4(S:0-1),shard:a100:16|1-4
n2|gpu*|allocated#|64|infinite|none|(null)|(null)|1-4
n3|gpu*|idle@|64|infinite|none|(null)|(null)|1-4
n4|gpu*|powering_down|64|infinite|none|(null)|(null)|1-4
n5|gpu*|inval|64|infinite|gres/gpu count reported lower than configured (0 < 4)|(null)|(null)|1-4
""",
}
IN_ORDER = [NodeState.IDLE, NodeState.PREPARING, NodeState.IDLE, NodeState.LEAVING, NodeState.UNUSABLE]


@pytest.mark.parametrize("version", NODES)
def test_nodes_are_understood(version):
    found = parse.nodes(rows(NODES[version], len(NODE_FIELDS)))
    assert [parse.node_state(line.state) for line in found] == IN_ORDER
    assert all(line.is_default and line.partition == "gpu" and line.cores == 64 for line in found)
    assert found[0].gres.startswith("gpu:")
    assert found[-1].reason != "none"


# scontrol show job --oneliner: 23.02 and later put AllocTRES and ReqTRES in place of TRES, 25.11 begins with
# an SLUID; the state of a job that is queued again is COMPLETING at first, and Restarts is higher by then.
SHOWN = {
    "20.11": "JobId=7 JobName=batchai-r UserId=me(1) JobState=COMPLETING Reason=None Dependency=(null)"
    " Requeue=1 Restarts=1 BatchFlag=1 TRES=cpu=1,node=1 Comment=a guid Power=",
    "23.11": "JobId=7 JobName=batchai-r UserId=me(1) JobState=COMPLETING Reason=None Dependency=(null)"
    " Requeue=1 Restarts=1 BatchFlag=1 ReqTRES=cpu=1 AllocTRES=cpu=1,node=1 Comment=a guid",
    "25.11": "JobId=7 SLUID=s4Q2 JobName=batchai-r UserId=me(1) JobState=COMPLETING Reason=None"
    " Dependency=(null) Requeue=1 Restarts=1 BatchFlag=1 ReqTRES=cpu=1 AllocTRES=cpu=1,node=1 Comment=a guid",
}


@pytest.mark.parametrize("version", SHOWN)
def test_a_jobs_own_fields_are_understood(version):
    found = allocation.fields_of(SHOWN[version])
    assert (found["JobState"], found["Restarts"]) == ("COMPLETING", "1")
    assert end_state_of(found["JobState"]) is None


@pytest.mark.parametrize(
    "words",
    [
        "slurm_load_jobs error: Unable to contact slurm controller (connect failure)",  # all
        "sbatch: error: Batch job submission failed: Socket timed out on send/recv operation",  # 20.11
        "squeue: error: slurm_receive_msg: Zero Bytes were transmitted or received",  # until 23.02
        "sinfo: error: [[head]:6817] failed: Zero Bytes were transmitted or received",  # 24.11
    ],
)
def test_a_controller_that_is_silent_has_refused_nothing(words):
    error = parse.service_error("sbatch", words)
    assert (error.code, "Nothing was submitted" in error.hint) == ("SlurmUnavailable", False)


# what no version has a sample of


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
    job = parse.SlurmJob("7", "PENDING", reason, start, "", "guid", reported=NOW)
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
