"""Runs side by side over the publisher when they end: the table and the figure stay."""

import dataclasses

import pytest

from batchai_magics import widgets
from batchai_magics.metrics import compare
from batchai_magics.models.error_details import ErrorDetail
from batchai_magics.models.job_execution import ExecutionInfo
from batchai_magics.models.states import TERMINATED
from batchai_magics.widgets.comparison import comparison_output as comparisons
from batchai_magics.widgets.core.display import HELLO_S
from batchai_magics.widgets.dashboards.dashboard_output import IDLE_S
from tests.widgets.comparison.opened_comparisons import WAYS, WIDGET, end, jobs, opened
from tests.widgets.core.recorded_page import say, turns
from tests.widgets.scripted_cluster import START, ExecutionState
from tests.widgets.scripted_job import step_line


@pytest.mark.parametrize(("ui", "kind"), [("auto", "scaling"), ("widget", "compare"), ("html", "scaling")])
def test_when_all_have_ended_and_the_page_is_gone_the_table_and_the_figure_stay(
    publisher, clock, place, page, kind, ui
):
    shown = opened(publisher, place, page, kind, ui=ui)
    turns(publisher, clock, 2)
    place.tell("two", "".join(step_line(10, rank, 40) for rank in range(4)))
    end(place)
    turns(publisher, clock, 4)
    close_page(shown, clock)
    turns(publisher, clock, 1)
    assert shown.is_frozen
    assert set(page.shown[shown.id]) == {"text/html", "text/plain"}
    assert "160.0" in page.shown[shown.id]["text/plain"]
    assert page.shown[figure_id(shown)]["image/png"].startswith("iVBOR")
    assert "running" not in page.shown[shown.id]["text/plain"]


def figure_id(shown):
    return getattr(shown, "figure_id", shown.second_id)


def close_page(shown, clock):
    """Has the page go that shows a live view."""
    if hasattr(shown, "view"):
        clock.now += HELLO_S
        say(shown, kind="bye", page="", turn=1)


@pytest.mark.parametrize("kind", WAYS)
def test_a_page_keeps_the_live_view_with_the_final_table_and_figure_beside_it(
    publisher, clock, place, page, kind
):
    shown = opened(publisher, place, page, kind)
    turns(publisher, clock, 2)
    place.tell("two", "".join(step_line(10, rank, 40) for rank in range(4)))
    end(place)
    turns(publisher, clock, 4)
    clock.now += HELLO_S
    turns(publisher, clock, 2)
    assert not shown.is_frozen
    assert WIDGET in page.shown[shown.id]
    assert "160.0" in page.shown[shown.second_id]["text/html"]
    assert "image/png" in page.shown[shown.figure_id]
    assert shown.view.state["facts"]["going"] == 0
    updates = page.updates
    turns(publisher, clock, 5)
    assert page.updates == updates


def test_a_page_that_is_loaded_again_is_sent_what_is_below_its_view(publisher, clock, place, page):
    shown = opened(publisher, place, page)
    end(place)
    turns(publisher, clock, 4)
    assert replacements(page) == []
    say(shown, kind="ready", page="loaded again", turn=1)
    turns(publisher, clock, 2)
    below = [page.shown[shown.second_id], page.shown[shown.figure_id]]
    assert replacements(page) == [[None, *below]]
    assert "running" not in below[0]["text/plain"]


def test_a_page_that_is_loaded_again_after_the_end_gets_the_table_and_the_figure(
    publisher, clock, place, page
):
    shown = opened(publisher, place, page)
    end(place)
    close_page(shown, clock)
    turns(publisher, clock, 4)
    assert shown.is_frozen
    say(shown, kind="ready", page="loaded again", turn=1)
    turns(publisher, clock, 2)
    outputs = [page.shown[id] for id in (shown.id, shown.second_id, shown.figure_id)]
    assert replacements(page) == [outputs]


def replacements(page):
    """What has replaced outputs of the page."""
    return [content["outputs"] for content, _ in page.messages if content["kind"] == "outputs"]


def test_view_unused_for_long_is_frozen(publisher, clock, place, page):
    shown = opened(publisher, place, page)
    end(place)
    turns(publisher, clock, 4)
    for _ in range(int(IDLE_S // 60) + 1):
        clock.now += 60
        say(shown, kind="alive", page="")
        turns(publisher, clock, 0.2)
    assert shown.is_frozen
    assert "image/png" in page.shown[shown.figure_id]


def test_runs_that_have_ended_are_shown_live_to_a_page_that_asks(publisher, clock, place, page, monkeypatch):
    end(place)
    monkeypatch.setattr(widgets, "_publisher", lambda: publisher)
    widgets.show_comparison(compare(jobs(place)))
    (shown,) = publisher.outputs()
    page.listen(shown)
    say(shown, kind="ready")
    turns(publisher, clock, 1)
    assert (not shown.is_frozen, shown.view.state["facts"]["going"]) == (True, 0)


@pytest.mark.parametrize("kind", WAYS)
def test_as_text_the_table_is_replaced_by_the_final_one(publisher, clock, place, page, kind):
    shown = opened(publisher, place, page, kind, ui="text")
    assert "two: queued" in page.shown[shown.id]["text/plain"]
    turns(publisher, clock, 10)
    assert page.updates == 0
    place.tell("two", step_line(10, 0, 77))
    end(place)
    turns(publisher, clock, 4)
    assert set(page.shown[shown.id]) == {"text/plain"}
    assert "77.0" in page.shown[shown.id]["text/plain"]
    assert (page.updates, shown.is_frozen) == (1, True)


def test_as_text_a_final_table_is_printed_once(publisher, clock, place, page):
    end(place)
    shown = opened(publisher, place, page, ui="text")
    turns(publisher, clock, 4)
    assert (page.updates, shown.is_frozen) == (0, True)


def test_a_deleted_job_ends_alone(publisher, clock, place, page):
    shown = opened(publisher, place, page)
    turns(publisher, clock, 2)
    del place.jobs["one"]
    turns(publisher, clock, 2)
    assert [row["state"] for row in shown.view.state["rows"]] == ["deleted", "queued"]
    assert shown.view.state["rows"][0]["images_per_sec"] == 130
    end(place, "two")
    close_page(shown, clock)
    turns(publisher, clock, 3)
    assert shown.is_frozen
    assert "one: deleted." in page.shown[shown.id]["text/plain"]


def test_final_table_names_failed_jobs(publisher, clock, place, page):
    shown = opened(publisher, place, page, "scaling")
    end(place, "one")
    end(place, "two", state=ExecutionState.FAILED)
    close_page(shown, clock)
    turns(publisher, clock, 4)
    told = page.shown[shown.id]["text/plain"]
    assert "two: failed." in told
    assert "No images/sec: two." in told
    assert not shown.model.value.is_running


def test_cancelled_job_counts_as_ended(publisher, clock, place, page):
    shown = opened(publisher, place, page)
    ended_by_hand = ErrorDetail(code=TERMINATED, message="terminated")
    execution = ExecutionInfo(START, START, None, (ended_by_hand,))
    job = dataclasses.replace(place.jobs["one"], state=ExecutionState.FAILED, execution=execution)
    place.jobs["one"] = job
    turns(publisher, clock, 2)
    assert shown.view.state["rows"][0]["state"] == "cancelled"
    assert shown.view.state["facts"]["going"] == 1


def test_without_a_page_the_figure_comes_with_the_cell_in_which_the_jobs_end(publisher, clock, place, page):
    comparisons.show(compare(jobs(place)), publisher, ui="auto")
    shown = publisher.outputs()[-1]
    clock.now += HELLO_S
    shown.on_cell_end(lambda is_met: pytest.fail("nothing to wait for"))
    end(place)
    shown.on_cell_end(lambda is_met: turns(publisher, clock, 3) or is_met())
    assert "image/png" in page.shown[shown.figure_id]
