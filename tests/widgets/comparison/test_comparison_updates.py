"""Runs side by side over the publisher while they run: lines, tables, what that costs."""

import dataclasses
import json
from types import SimpleNamespace

import pytest

from batchai_magics import widgets
from batchai_magics.follow.metric_streams import METRICS_FILES
from batchai_magics.metrics import compare, read_metrics
from batchai_magics.metrics.runs.run_metrics import Curve
from batchai_magics.models.job_execution import RankExit
from batchai_magics.models.runs.labels import Labels
from batchai_magics.widgets.comparison import comparison_output as comparisons
from batchai_magics.widgets.comparison.comparison_view import (
    LABELS_INTERVAL_S,
    MAX_INTERVAL_S,
    MAX_POINTS,
    ComparisonModel,
    ComparisonStream,
    line_columns,
)
from tests.widgets.comparison.opened_comparisons import WAYS, WIDGET, end, jobs, lines, opened
from tests.widgets.core.recorded_page import say, turns
from tests.widgets.scripted_cluster import ExecutionState
from tests.widgets.scripted_job import step_line


@pytest.mark.parametrize(("processor_s", "pause_s"), [(0.0, 0.0), (0.25, 5.0), (60.0, MAX_INTERVAL_S)])
def test_runs_are_summarized_again_depending_on_the_cpu_time_of_the_last_summary(place, processor_s, pause_s):
    now, spent, busy_s = [0.0], [0.0], [1000.0]  # the machine is busy with something else

    def busy_clock():
        now[0] += busy_s[0]
        return now[0]

    def processor():
        spent[0] += processor_s
        return spent[0]

    model = ComparisonModel(compare(jobs(place)).runs, clock=busy_clock, cpu_time=processor)
    model.poll()
    now[0], busy_s[0] = now[0] + pause_s, 0.0
    version, line_version = model.version, model.line_versions[0]
    place.tell("one", step_line(50, 0, 65) + step_line(50, 1, 65))
    model.poll()
    assert (model.version, model.line_versions[0]) == (version + 1, line_version + 1)


@pytest.mark.parametrize("kind", WAYS)
def test_a_live_view_comes_with_a_table_for_the_saved_notebook(publisher, place, page, kind):
    shown = opened(publisher, place, page, kind)
    assert WIDGET in page.shown[shown.id]
    snapshot = page.shown[shown.second_id]
    assert f'data-batchai-snapshot="{shown.id}"' in snapshot["text/html"]
    assert "image" not in json.dumps(list(snapshot))


def test_only_the_lines_of_a_job_that_grew_are_sent(publisher, clock, place, page):
    opened(publisher, place, page)
    turns(publisher, clock, 2)
    assert {content["run"] for content in lines(page)} == {0, 1}
    page.messages.clear()
    place.tell("two", step_line(10, 0, 75) + step_line(10, 1, 75))
    turns(publisher, clock, 2)
    (grown,) = lines(page)
    assert grown["run"] == 1
    assert grown["metrics"] == {"images_per_sec": [["", [10], [150], {}]], "loss": [["", [10], [2], {}]]}


@pytest.mark.parametrize(
    ("text", "axis"),
    [("Test accuracy: 93.1%\n", "order"), ("Epoch 1: loss 0.5\n", "epoch"), ("step 1: loss 0.5\n", "step")],
)
def test_the_axis_suits_the_positions_that_the_logs_tell(publisher, clock, place, page, text, axis):
    for name in ("one", "two"):
        place.run(name)
        end(place, name, state=ExecutionState.RUNNING)
        place.tell(name, text)
    shown = opened(publisher, place, page)
    turns(publisher, clock, 1)
    assert shown.view.state["facts"]["axis"] == axis


def test_a_page_is_sent_the_metrics_that_it_draws_beside_the_first_ones(publisher, clock, place, page):
    for step in (1, 2):
        place.tell("one", f"step {step} loss {1 / step} val_acc {step / 10} lr 0.1\n")
    shown = opened(publisher, place, page)
    turns(publisher, clock, 1)
    assert all("lr" not in told["metrics"] for told in lines(page))
    page.messages.clear()
    say(shown, kind="draw", metrics=["lr"])
    turns(publisher, clock, 1)
    assert [told["metrics"] for told in lines(page)] == [{"lr": [["", [1, 2], [0.1, 0.1], {}]]}, {"lr": []}]


def test_a_line_takes_the_name_of_the_metric_in_an_earlier_run_once_that_prints_it(
    publisher, clock, place, page
):
    place.run("one")
    end(place, state=ExecutionState.RUNNING)
    shown = opened(publisher, place, page)
    place.tell("two", "step 5/10 train/acc 0.5\n")
    turns(publisher, clock, 3)
    ((name, _),) = [metric for told in lines(page) for metric in told["metrics"].items() if metric[1]]
    assert name in shown.view.state["rows"][1]["values"]
    place.tell("one", "step 5/10 acc 0.6\n")
    turns(publisher, clock, 3)
    assert shown.view.state["rows"][1]["values"] == {"acc": [0.5, 0.5, None]}
    assert {told["run"]: told["metrics"]["acc"] for told in lines(page) if "acc" in told["metrics"]} == {
        0: [["", [5], [0.6], {}]],
        1: [["", [5], [0.5], {}]],
    }


def test_rows_have_the_metrics_the_progress_and_the_labels_of_runs(publisher, clock, place, page):
    labels = {}
    place.records = SimpleNamespace(
        labels=lambda ids: {id.key: labels[id.name] for id in ids if id.name in labels}
    )
    for name, rate in (("one", 0.1), ("two", 0.5)):
        labels[name] = Labels(parameters={"rate": rate})
    place.run("one")
    end(place, state=ExecutionState.RUNNING)
    shown = opened(publisher, place, page)
    for number, name in enumerate(("one", "two"), 1):
        place.tell(name, f"step 5/10 loss {number} val_loss {number / 2} tok/s 70\n")
    turns(publisher, clock, 3)
    first, second = shown.view.state["rows"]
    assert (first["parameters"], second["parameters"]) == ({"rate": 0.1}, {"rate": 0.5})
    assert (second["values"]["val_loss"][0], second["progress"]["fraction"]) == (1, 0.5)
    assert shown.view.state["facts"]["metrics"][0] == {
        "name": "val_loss", "label": "val_loss", "direction": "falls", "best": 0
    }  # fmt: skip
    labels["two"] = Labels(("baseline",), parameters={"rate": 0.5})
    turns(publisher, clock, LABELS_INTERVAL_S + 3)
    assert (shown.view.state["facts"]["baseline"], shown.view.state["rows"][1]["tags"]) == (1, ["baseline"])


def test_the_table_tells_states_and_speeds_as_they_change(publisher, clock, place, page):
    shown = opened(publisher, place, page)
    assert [row["state"] for row in shown.view.state["rows"]] == ["running", "queued"]
    end(place, "two", state=ExecutionState.RUNNING)
    place.tell("two", step_line(10, 0, 75))
    turns(publisher, clock, 3)
    first, second = shown.view.state["rows"]
    assert (second["state"], second["images_per_sec"], second["speedup"]) == ("running", 75, 0.576923)
    assert (first["workers"], shown.view.state["facts"]["going"]) == (2, 2)


def test_a_page_that_comes_back_gets_all_lines_anew(publisher, clock, place, page):
    shown = opened(publisher, place, page)
    turns(publisher, clock, 2)
    page.messages.clear()
    say(shown, kind="ready")
    turns(publisher, clock, 1)
    assert [content["run"] for content in lines(page)] == [0, 1]


def test_html_figure_is_drawn_again_only_after_new_records(publisher, clock, place, page):
    shown = opened(publisher, place, page, ui="html")
    turns(publisher, clock, 6)
    before = page.updates
    turns(publisher, clock, 30)
    assert page.updates == before
    first = page.shown[shown.second_id]
    place.tell("one", step_line(50, 0, 70) + step_line(50, 1, 70))
    turns(publisher, clock, 6)
    assert page.shown[shown.second_id] != first


def test_static_text_names_the_jobs_that_still_run(place, page):
    page.has_kernel = False
    widgets.show_comparison(compare(jobs(place)))
    assert set(page.shown[""]) == {"text/plain"}
    assert "Still running: one, two." in page.shown[""]["text/plain"]


def test_a_job_that_waits_for_hours_keeps_the_view(publisher, clock, place, page):
    shown = opened(publisher, place, page)
    clock.now += 7200
    turns(publisher, clock, 2)
    assert not shown.is_frozen


def test_truncated_log_drops_its_earlier_records(publisher, clock, place, page):
    shown = opened(publisher, place, page)
    turns(publisher, clock, 2)
    (place.folder / "one" / "stdout.txt").write_text(step_line(10, 0, 5))
    turns(publisher, clock, 3)
    assert (shown.view.state["rows"][0]["images_per_sec"], shown.view.state["rows"][0]["steps"]) == (5, 10)


def test_scaling_study_is_updated_from_no_runs_to_several(publisher, clock, place, page):
    place.run("one", ExecutionState.QUEUED)
    shown = opened(publisher, place, page, "scaling")
    assert shown.view.state["facts"]["curves"] == []
    place.tell("one", step_line(10, 0, 50))
    place.tell("two", step_line(10, 0, 40) + step_line(10, 1, 40))
    turns(publisher, clock, 3)
    (curve,) = shown.view.state["facts"]["curves"]
    assert (curve["processes"], curve["rates"], curve["ideals"]) == ([1, 2], [50, 80], [50, 100])
    assert curve["percents"] == [100, 80]
    assert [row["curve"] for row in shown.view.state["rows"]] == [0, 0]


def test_logs_and_ended_jobs_stand_beside_running_ones(publisher, clock, place, page):
    place.run("old", ExecutionState.SUCCEEDED, rates=[10, 20])
    log = read_metrics(step_line(10, 0, 33).encode())
    value = compare({"log": log, "old": jobs(place, "old")[0], "new": jobs(place, "one")[0]})
    comparisons.show(value, publisher, ui="html")
    shown = publisher.outputs()[-1]
    assert shown.model.states == ["log", "succeeded", "running"]
    end(place, "one")
    turns(publisher, clock, 3)
    assert shown.is_frozen
    assert "33.0" in page.shown[shown.id]["text/plain"]


def test_no_text_of_any_log_is_in_the_widget(publisher, clock, place, page):
    shown = opened(publisher, place, page)
    place.tell("one", "the password is swordfish\n")
    turns(publisher, clock, 3)
    assert "swordfish" not in json.dumps(shown.view.state) + str(page.messages)


def test_shared_polls_read_each_log_at_most_once_a_second(publisher, clock, place, page):
    opened(publisher, place, page)
    turns(publisher, clock, 2)
    reads = []
    place.read = lambda *where, read=place.read: reads.append(where) or read(*where)
    turns(publisher, clock, 10)
    assert len(reads) <= 2 * len(METRICS_FILES) * 11  # of each job


def test_a_long_line_is_thinned_and_ends_where_the_run_is():
    text = "".join(step_line(step, 0, 50 + step / 1000) for step in range(1, 10_001))
    (run,) = ComparisonModel(compare([read_metrics(text.encode())]).runs).lines
    told = line_columns(run, ["loss", "images_per_sec"], MAX_POINTS)
    ((_, steps, rates, _),) = told["metrics"]["images_per_sec"]
    assert MAX_POINTS / 2 < len(steps) == len(rates) <= MAX_POINTS + 1
    assert (steps[-1], rates[-1]) == (10_000, 60)
    assert len(json.dumps(told)) < 20_000


def test_last_of_many_segments_of_a_metric_is_shown():
    (run,) = ComparisonModel(compare([read_metrics(step_line(1, 0, 50).encode())]).runs).lines
    curves = [Curve([1], [number], f"fold {number}") for number in range(25)]
    run = dataclasses.replace(run, metrics=dict.fromkeys(run.metrics, curves))
    told = line_columns(run, ["loss"], MAX_POINTS)["metrics"]["loss"]
    assert [name for name, *_ in told] == [f"fold {number}" for number in (*range(19), 24)]


def test_points_stay_where_they_are_while_a_line_grows():
    told = []
    for last in (900, 950):
        text = "".join(step_line(step, 0, 50) for step in range(1, last + 1))
        (run,) = ComparisonModel(compare([read_metrics(text.encode())]).runs).lines
        told.append(line_columns(run, ["loss"], MAX_POINTS)["metrics"]["loss"][0][1])
    assert set(told[0][:-1]) <= set(told[1])


def test_many_runs_are_sent_in_few_messages(publisher, clock, place, page):
    names = [f"run-{number}" for number in range(40)]
    for name in names:
        place.run(name, rates=[100] * 50)
    comparisons.show(compare(jobs(place, *names)), publisher, ui="auto")
    shown = publisher.outputs()[-1]
    page.listen(shown)
    say(shown, kind="ready")
    turns(publisher, clock, 1)
    assert len(lines(page)) == 40
    assert len(page.messages) <= 4


def test_two_cells_that_show_the_same_runs_follow_them_once(publisher, clock, place, page):
    first, second = opened(publisher, place, page), opened(publisher, place, page)
    assert first.model is second.model
    assert isinstance(first.view, ComparisonStream)
    older, newer = opened(publisher, place, page, ui="html"), opened(publisher, place, page, ui="html")
    assert (older.is_closed, newer.is_closed) == (True, False)


def test_a_job_that_has_ended_tells_its_processes_where_rank_0_alone_prints(place):
    model = ComparisonModel(compare(jobs(place)).runs)
    ranks = tuple(RankExit(rank, "node-0", 0) for rank in range(4))
    ended = dataclasses.replace(place.jobs["two"], state=ExecutionState.SUCCEEDED, ranks=ranks)
    place.jobs["two"] = ended
    model.poll()
    assert model.rows()[1]["workers"] == 4
