"""What stays of a view in the page when its job has ended, was deleted, or is let go."""

import re

import pytest

from batchai_magics.errors import NotFoundError
from batchai_magics.widgets.core.cell_output import SNAPSHOT_INTERVAL_S
from batchai_magics.widgets.core.display import HELLO_S
from batchai_magics.widgets.core.publisher import MAX_FROZEN
from batchai_magics.widgets.job import job_output
from batchai_magics.widgets.job.job_output import LiveJobOutput
from tests.widgets.core.recorded_page import live, say, turns
from tests.widgets.scripted_job import FAILURE, ExecutionState, step_line


def test_only_the_newest_of_many_ended_views_can_come_back(publisher, backend, page, clock):
    backend.finish()
    views = [live(publisher, backend, page, clock) for _ in range(MAX_FROZEN + 2)]
    turns(publisher, clock, 10)
    assert [view.is_closed for view in views] == [True, True] + [False] * MAX_FROZEN
    page.updates = 0
    say(views[-1], kind="ready", have={})
    publisher.step()
    assert page.updates == 2


def test_a_frozen_view_that_is_closed_is_forgotten(publisher, backend, page, clock):
    backend.finish()
    first, second = (live(publisher, backend, page, clock) for _ in range(2))
    turns(publisher, clock, 3)
    first.close()
    publisher.step()
    assert publisher._frozen == [second]


def test_an_ended_job_without_a_page_is_frozen_without_widget_view(publisher, backend, page, clock):
    output = live(publisher, backend, page, clock)
    backend.write("".join(step_line(step, rank) for step in range(10) for rank in range(4)))
    backend.write("<script>alert(1)</script>\n")
    backend.finish(ExecutionState.FAILED, **FAILURE)
    turns(publisher, clock, 2)
    card, chart = page.shown[output.id], page.shown[output.second_id]
    assert set(card) == {"text/html", "text/plain"}
    assert set(chart) == {"image/png", "text/plain"}
    assert "<script" not in card["text/html"]
    assert "resnet failed after 34 s: rank 2: exit code 1" in card["text/plain"]
    assert sum(map(len, [*card.values(), *chart.values()])) < 200_000
    assert publisher.outputs() == []


def test_a_page_that_missed_the_end_gets_it_when_it_comes_back(publisher, backend, page, clock):
    output = live(publisher, backend, page, clock)
    backend.finish()
    turns(publisher, clock, 2)
    page.updates = 0
    turns(publisher, clock, 2)
    assert page.updates == 0
    say(output, kind="ready", have={})
    turns(publisher, clock, 2)
    assert page.updates == 2


def test_a_page_that_was_loaded_again_is_sent_what_replaces_its_outputs(publisher, backend, page, clock):
    output = live(publisher, backend, page, clock)
    backend.finish()
    turns(publisher, clock, 2)
    page.messages.clear()
    say(output, kind="ready", have={})
    turns(publisher, clock, 2)
    contents = [content for content, _ in page.messages]
    card, chart = page.shown[output.id], page.shown[output.second_id]
    assert [content for content in contents if content["kind"] == "outputs"] == [
        {"kind": "outputs", "model_id": output.widget.model_id, "outputs": [card, chart]}
    ]
    assert [content["kind"] for content in contents].index("keep") == 0
    assert "[succeeded]" in card["text/plain"]


def test_a_view_that_is_used_when_its_job_ends_leaves_the_notebook_the_last_picture(
    publisher, backend, page, clock
):
    output = live(publisher, backend, page, clock)
    say(output, kind="ready", have={})
    say(output, kind="hold", on=True)
    turns(publisher, clock, 1)
    assert "[running]" in page.shown[output.second_id]["text/plain"]
    backend.write("the last line\n")
    backend.finish()
    turns(publisher, clock, 3)
    assert not output.is_frozen
    picture = page.shown[output.second_id]["text/plain"]
    assert "[succeeded]" in picture
    assert "the last line" in picture
    page.updates = 0
    turns(publisher, clock, 60)
    assert page.updates == 0


def test_a_deleted_job_ends_its_view_and_says_so(publisher, backend, page, clock):
    output = live(publisher, backend, page, clock)

    def show(id):
        raise NotFoundError("gone", code="JobNotFound")

    backend.show = show
    turns(publisher, clock, 2)
    assert output.is_frozen
    assert output.model.problem == "The job was deleted."


def test_a_detached_view_is_a_card_that_tells_of_what_time_it_is_until_its_job_ends(
    publisher, backend, page, clock
):
    output = live(publisher, backend, page, clock)
    say(output, kind="ready", have={})
    say(output, kind="detach", id="d")
    turns(publisher, clock, 1)
    assert set(page.shown[output.id]) == {"text/html", "text/plain"}
    assert backend.job.state is ExecutionState.RUNNING
    assert re.search(
        r"elapsed +[\d:]+, as of \d{4}-\d\d-\d\d \d\d:\d\d:\d\d", page.shown[output.id]["text/plain"]
    )
    backend.write("a later line\n")
    turns(publisher, clock, int(SNAPSHOT_INTERVAL_S) + 1)
    assert "a later line" in page.shown[output.id]["text/plain"]
    backend.finish()
    turns(publisher, clock, 2)
    assert output.is_frozen
    assert "[succeeded]" in page.shown[output.id]["text/plain"]
    assert "as of" not in page.shown[output.id]["text/plain"]


def test_a_page_that_asked_gets_time_to_say_hello(publisher, backend, page, clock):
    page.is_asking = True
    output = live(publisher, backend, page, clock)
    backend.finish()
    turns(publisher, clock, HELLO_S - 1)
    assert not output.is_frozen
    turns(publisher, clock, 3)
    assert output.is_frozen


def test_a_page_gets_time_to_say_hello_to_the_view_of_the_next_run(publisher, backend, page, clock):
    old = live(publisher, backend, page, clock)
    say(old, kind="ready", have={})
    backend.finish()
    turns(publisher, clock, 4)
    following = LiveJobOutput(old.job, old.model, work=lambda task: task(), clock=clock, id=old.id)
    page.listen(following)
    following.replace(old)
    publisher.add(following)
    turns(publisher, clock, HELLO_S - 1)
    assert not following.is_frozen
    say(following, kind="ready", have={})
    turns(publisher, clock, 4)
    assert following.is_frozen
    assert {"kind": "keep"} in [content for content, _ in page.messages]


def test_a_page_that_keeps_the_view_of_an_ended_job_is_still_answered(publisher, backend, page, clock):
    backend.write("0123456789")
    output = live(publisher, backend, page, clock)
    say(output, kind="ready", have={})
    backend.finish()
    turns(publisher, clock, 4)
    assert output.is_frozen
    assert {"kind": "keep"} in [content for content, _ in page.messages]
    assert f'data-batchai-snapshot="{output.id}"' in page.shown[output.id]["text/html"]
    say(output, kind="read", id="a", file="stdout.txt", offset=3, limit=4)
    turns(publisher, clock, 1)
    assert page.messages[-1][1] == [b"3456"]
    say(output, kind="bye")
    turns(publisher, clock, 1)
    assert output.is_closed


def test_a_page_is_told_to_keep_the_view_when_what_replaces_it_is_ready(
    publisher, backend, page, clock, monkeypatch
):
    def undrawable(model):
        raise MemoryError("no room for a figure")

    monkeypatch.setattr(job_output, "chart_bundle", undrawable)
    output = live(publisher, backend, page, clock)
    say(output, kind="ready", have={})
    backend.finish()
    with pytest.raises(MemoryError):
        output.freeze()
    assert {"kind": "keep"} not in [content for content, _ in page.messages]
