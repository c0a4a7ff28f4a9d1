import html
from dataclasses import replace
from datetime import timedelta
from html.parser import HTMLParser

import pytest

from batchai_magics.cards import card_parts
from batchai_magics.cards.job_card import to_html, to_text
from batchai_magics.cards.job_list_card import job_list_card
from batchai_magics.cards.job_list_card import to_html as list_html
from batchai_magics.jobs.job_overview import JobOverview
from batchai_magics.jobs.listed_job import ListedJob
from batchai_magics.jobs.log_tail import MAX_LINE_LENGTH, MAX_LINES, clean_lines, recent_lines
from batchai_magics.models.cluster_spec import NodeStateCounts
from batchai_magics.models.error_details import ErrorDetail
from batchai_magics.models.job_execution import Attempt
from batchai_magics.models.response_object import Provisioning
from batchai_magics.models.states import ExecutionState
from batchai_magics.records.job_error import JobError
from tests.widgets.scripted_job import FAILURE, START, resource

NOW = START + timedelta(hours=1, minutes=2, seconds=3)


class Tags(HTMLParser):
    def __init__(self, text):
        super().__init__()
        self.names, self.open = set(), []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.names.add(tag)
        self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def test_a_card_says_state_size_and_time():
    text = to_text(JobOverview(resource(), NOW, processes=4))
    assert "[running] resnet   nc6 · 2 nodes × 2 processes" in text
    assert "1:02:03" in text


def test_a_failed_card_says_what_failed_first():
    error = JobError("resnet", "KeyError: 'x'", 34, rank=2, place="train.py:3", lines=("boom",))
    card = JobOverview(resource(ExecutionState.FAILED, **FAILURE), NOW, error=error)
    for text in (to_html(card), to_text(card)):
        assert "resnet failed after 34 s: rank 2, train.py:3: KeyError: " in text
        assert "non-zero exit code" not in text  # it is said once
        assert "boom" in text


def test_a_card_says_what_a_job_waits_for_and_what_became_of_its_attempts():
    attempts = (Attempt(1, ("n1",), START, NOW, "Slurm lost a node of it"), Attempt(2, ("n2",), NOW))
    job = replace(resource(), attempts=attempts, waiting="too few of its nodes are free")
    for text in (to_text(JobOverview(job, NOW)), to_html(JobOverview(job, NOW))):
        assert "attempt 1 on n1: Slurm lost a node of it" in text
        assert "too few of its nodes are free" in text


CANCELLED = {"exit_code": None, "errors": [ErrorDetail(code="JobTerminated", message="by the user")]}


def test_a_cancelled_job_is_no_failure():
    job = resource(ExecutionState.FAILED, **CANCELLED)
    card = JobOverview(job, NOW, lines=("last",))
    assert "[cancelled] resnet" in to_text(card)
    assert "fail" not in to_text(card) + to_html(card)
    assert card_parts.JOB_COLOURS["cancelled"] in to_html(card)
    assert card_parts.JOB_COLOURS["failed"] not in to_html(card)
    assert job.to_wire()["properties"]["executionState"] == "failed"
    jobs = [ListedJob(job), ListedJob(resource(ExecutionState.FAILED, **FAILURE))]
    assert job_list_card("e", jobs, NOW).title == "1 failed, 1 cancelled"


def test_a_list_tells_why_a_job_failed():
    job, why = resource(ExecutionState.FAILED, **FAILURE), "rank 2: KeyError: 'labels'"
    jobs = [ListedJob(job, failure=why)]
    card = job_list_card("e", jobs, NOW)
    assert why in card_parts.table_card_text(card)
    assert html.escape(why) in list_html(card, jobs)


@pytest.mark.parametrize(
    "code",
    [
        "ExportIncomplete",
        "FilesLeftBehind",
        "JobNotRequeued",
        "MpiNotUsed",
        "RayUnavailable",
        "StopConditionNotChecked",
    ],
)
def test_card_shows_the_warnings_of_a_succeeded_job(code: str):
    errors = [ErrorDetail(code=code, message="none of the 2 processes joined the MPI of this job")]
    card = JobOverview(resource(ExecutionState.SUCCEEDED, exit_code=0, errors=errors), NOW)
    assert "  warning: none of the 2 processes joined the MPI of this job" in to_text(card).splitlines()
    html = to_html(card)
    assert html.count("Warning: none of the 2 processes joined the MPI of this job") == 1
    assert card_parts.AMBER in html
    assert card_parts.RED not in html


def test_a_failed_job_shows_its_failure_and_its_warning_apart():
    errors = [
        ErrorDetail(code="JobTerminated", message="too long"),
        ErrorDetail(code="MpiNotUsed", message="none joined"),
    ]
    card = JobOverview(resource(ExecutionState.FAILED, errors=errors, exit_code=None), NOW)
    assert card.warnings == ["none joined"]
    assert "none joined" not in "".join(card.problems)


def test_a_card_has_no_script_and_no_image_and_is_well_formed():
    card = JobOverview(
        resource(),
        NOW,
        lines=("<script>x</script><img src=x>", "a & b"),
        reopen_command="<b>",
        metrics={"<i>": "<u>"},
    )
    tags = Tags(to_html(card))
    assert tags.names <= {"div", "span", "strong", "table", "tbody", "tr", "th", "td", "pre", "code"}
    assert tags.open == []


def test_a_card_needs_no_style_that_jupyterlab_takes_long_to_check():
    """Its expression for `background` takes 60 ms to compile, that for `background-color` none."""
    jobs = [ListedJob(resource())]
    for text in (
        to_html(JobOverview(resource(), NOW, lines=("a line",))),
        list_html(job_list_card("e", jobs, NOW), jobs),
    ):
        assert "background-color:" in text
        assert "background:" not in text


def test_lines_are_shown_as_a_terminal_leaves_them():
    card = JobOverview(resource(), NOW, lines=("10%\r20%\r100%\r\n", "\x1b[31mred\x1b[0m", "x" * 5000))
    text = to_text(card)
    assert "100%\nred\n" in text
    assert "20%" not in text
    assert len(text) < 1000


def test_no_control_character_of_a_line_is_left_and_nothing_is_concealed():
    card = JobOverview(resource(), NOW, lines=("a\x9b31m\x9d0;t\x07b\b\b", "\x1b[8mshown\x1b[0m"))
    for text in (to_html(card), to_text(card)):
        assert "a31m0;tb" in text
        assert "shown" in text
        assert not [sign for sign in text if (sign < " " and sign != "\n") or "\x7f" <= sign <= "\x9f"]


def test_only_the_last_lines_are_shown_and_the_long_ones_cut():
    card = JobOverview(resource(), NOW, lines=tuple(f"line {number}" for number in range(MAX_LINES + 1)))
    assert to_text(card).splitlines()[-MAX_LINES - 1 :][:2] == ["-- last lines --", "line 1"]
    assert clean_lines(("x" * MAX_LINE_LENGTH, "x" * (MAX_LINE_LENGTH + 1))) == [
        "x" * MAX_LINE_LENGTH,
        "x" * MAX_LINE_LENGTH + " …",
    ]


def test_the_clock_of_a_card_stops_with_its_job():
    assert JobOverview(resource(ExecutionState.SUCCEEDED, seconds=34), NOW).elapsed == "0:34"
    late = replace(resource(ExecutionState.QUEUED), provisioning=Provisioning(NOW, NOW))
    assert JobOverview(late, NOW + timedelta(seconds=5)).elapsed == "0:05"
    waited = resource()
    began = replace(waited.execution, started=START + timedelta(hours=1))
    assert JobOverview(replace(waited, execution=began), NOW).elapsed == "2:03"


def test_card_of_an_ended_job_does_not_show_nodes():
    counts = NodeStateCounts(idle_node_count=2)
    assert "nodes" not in JobOverview(resource(ExecutionState.SUCCEEDED), NOW, counts=counts).details
    assert JobOverview(resource(), NOW, counts=NodeStateCounts()).details["nodes"] == "none yet"


@pytest.mark.parametrize(
    ("state", "colour"), [(ExecutionState.RUNNING, card_parts.BLUE), (ExecutionState.FAILED, card_parts.RED)]
)
def test_a_card_has_the_colour_of_its_state(state, colour):
    assert card_parts.badge(state.value, colour) in to_html(JobOverview(resource(state), NOW))


def test_quotes_cannot_end_an_attribute():
    assert card_parts.escaped("\"'<&") == "&quot;&#x27;&lt;&amp;"


def test_a_waiting_card_says_what_the_nodes_do():
    counts = NodeStateCounts(preparing_node_count=2)
    assert "2 preparing" in to_text(JobOverview(resource(ExecutionState.QUEUED), NOW, counts=counts))


def test_a_card_says_what_a_job_does_that_has_printed_nothing():
    card = JobOverview(resource(ExecutionState.QUEUED), NOW, activity="Waiting for 2 nodes: one has them.")
    assert card.details["now"] == "Waiting for 2 nodes: one has them."
    waiting = replace(card.job, waiting="a limit is reached")
    assert "now" not in replace(card, job=waiting).details, "it is said once"


def test_an_odd_number_of_processes_is_not_divided():
    assert "2 nodes, 3 processes" in JobOverview(resource(), NOW, processes=3).title
    assert JobOverview(resource(), NOW, processes=1).title.endswith("2 nodes, 1 process")


def test_a_card_names_a_node_as_the_view_does():
    error = JobError("resnet", "exit code 1", rank=1, node="node 2")
    card = JobOverview(resource(ExecutionState.FAILED, exit_code=1), START, error=error)
    for text in (to_html(card), to_text(card)):
        assert "1 (rank 1 on node 2)" in text
        assert "tvm-" not in text


def test_lines_of_log_leave_room_for_what_else_was_printed():
    records = tuple(f'{{"time": 1700000000.5, "rank": 0, "step": {step}, "loss": 0.5}}' for step in range(90))
    shown = recent_lines(("begin", *records, "saved", records[0], "end"), 4)
    assert shown == ("… 90 log() records", "saved", "… 1 log() record", "end")
