"""A sweep in a real JupyterLab: its trials grow before one's eyes; a table and a figure are saved."""

import re

import pytest
from playwright.sync_api import expect

from tests.widgets.axe import violations
from tests.widgets.browser.test_looks import NOTHING_MOVES
from tests.world import until

pytestmark = [pytest.mark.slow, pytest.mark.browser]

SETUP = """
%load_ext batchai_magics
from batchai_magics import widgets
from batchai_magics.metrics.reading.progress_reader import Progress
from tests.widgets.comparison.scripted_sweep import ScriptedSweep
from tests.widgets.scripted_cluster import ExecutionState, ScriptedCluster
world = ScriptedCluster("{folder}")
sweep = ScriptedSweep(world, {count})
def end(first, last):
    for trial in sweep.trials[first:last]:
        world.run(trial.name, ExecutionState.SUCCEEDED)
        sweep.run(trial)
end(0, 4)
sweep.trials[5].become(ExecutionState.RUNNING)
sweep.trials[6].become(ExecutionState.RUNNING, loss=2.0, progress=Progress(0.25, "epoch 1/4"))
"""
MORE = "end(4, 9); sweep.trials[4].become(ExecutionState.FAILED, loss=3.0)"
END = "end(0, len(sweep.trials)); sweep.state = 'finished'"
MANY = "many = ScriptedSweep(world, 240); many.name = 'many'; widgets.show_sweep(many)"


HEADS_OFF_THEIR_NUMBERS = """view => {
  const end = (element) => {
    const range = document.createRange();
    range.selectNodeContents(element);
    return range.getBoundingClientRect().right;
  };
  const row = view.querySelector('tbody tr');
  return [...view.querySelectorAll('th[data-kind]')].flatMap((head) => {
    const cell = row.querySelector(`td[data-column="${head.dataset.column}"]`);
    const gap = end(head.firstChild) - end(cell);
    return Math.abs(gap) > 0.5 ? [`${head.dataset.column} ${gap}`] : [];
  });
}"""


def test_a_sweep_grows_names_its_best_trial_opens_it_and_is_saved(lab, tmp_path):
    setup = SETUP.format(folder=tmp_path / "cluster", count=12)
    lab.open("sweep", setup, "widgets.show_sweep(sweep)", MORE, END, MANY)
    lab.run(0)
    lab.run(1)
    view = lab.page.locator(".ba-dashboard").first
    expect(view.locator("tbody tr")).to_have_count(12)
    expect(view.get_by_text("★ best loss 0.421: lr-t3 with lr 0.0114, batch 128")).to_be_visible()
    view.get_by_role("img", name=re.compile("^best loss, latest: trial .*, best so far 0.421$")).wait_for()
    has_progress_metrics_and_curves_below_their_heads(lab.page, view)
    lab.run(2)
    expect(view.get_by_role("img", name="8 succeeded, 1 failed, 3 waiting")).to_be_visible()
    expect(view.locator("tr:has(td[data-best])")).to_have_count(1)
    view.get_by_label("Draw over").select_option("lr")
    view.locator(".ba-plot[data-along=lr] canvas").first.wait_for()
    view.locator("th[data-column=number] button").click()
    expect(view.locator("tbody tr").first).to_contain_text("lr-t1")
    view.get_by_role("button", name="▸ lr-t1", exact=True).click()
    expect(view.locator(".ba-opened .ba-view")).to_contain_text("lr-t1")
    lab.run(3)
    expect(view.locator(".ba-badge").first).to_have_text("finished")
    expect(view.locator(".ba-progress:visible")).to_have_text("exit code None")  # of the trial that failed
    expect(view.locator(".ba-trials .ba-spark:visible")).to_have_count(12)
    is_saved(lab)
    selects_a_range_and_marks_rows_and_lines_together(lab.page, view)
    has_no_violation_in_either_theme(lab)
    has_lines_as_wide_as_their_box(view)
    lab.run(4)
    shows_the_first_hundred_trials_and_more_on_request(lab.page.locator(".ba-dashboard").last)
    assert lab.errors == []


def has_progress_metrics_and_curves_below_their_heads(page, view):
    expect(view.locator("tbody tr:first-child:has(td[data-best])")).to_have_count(1)
    running = view.locator("tbody tr", has_text="lr-t7")
    expect(running.get_by_role("progressbar")).to_have_attribute("aria-valuenow", "25")
    expect(running.get_by_role("img", name="loss from 8.000 to 2.100")).to_be_visible()
    expect(running.locator("td[data-column='metric:accuracy']")).to_have_text("0.333")
    expect(view.get_by_role("progressbar")).to_have_count(1)
    view.locator("th[data-column='metric:accuracy'] button").click()
    expect(view.locator("th[data-column='metric:accuracy']")).to_have_attribute("aria-sort", "descending")
    expect(view.locator("tbody tr").first).to_contain_text("lr-t3")
    expect(view.locator("tbody tr").nth(4)).to_contain_text("lr-t7")
    until(lambda: view.evaluate(HEADS_OFF_THEIR_NUMBERS) == [])
    wide = page.viewport_size
    page.set_viewport_size({"width": 900, "height": 1000})
    expect(view.locator("td[data-column=progress]:visible")).to_have_count(1)  # without gaps in other rows
    page.set_viewport_size(wide)


def is_saved(lab):
    lab.page.locator(".jp-CodeCell").nth(1).locator("img").wait_for(state="attached")
    outputs = lab.save()["cells"][1]["outputs"]
    assert [set(output["data"]) for output in outputs[-2:]] == [
        {"text/html", "text/plain"},
        {"image/png", "text/plain"},
    ]
    assert "★" in "".join(outputs[-2]["data"]["text/plain"])


def selects_a_range_and_marks_rows_and_lines_together(page, view):
    lines = view.get_by_role("group", name="12 trials over lr, batch, best loss, accuracy")
    lines.scroll_into_view_if_needed()
    axis, front = lines.locator(".ba-parallel-axis").nth(1), view.locator(".ba-parallel-front")
    view.locator("tbody tr").first.hover()
    expect(front).to_have_attribute("d", re.compile("^M"))
    lines.scroll_into_view_if_needed()
    box, at = lines.bounding_box(), axis.bounding_box()
    page.mouse.move(at["x"], at["y"] - 3)  # the largest batch size
    page.mouse.down()
    page.mouse.move(at["x"], at["y"] + 10, steps=3)
    page.mouse.up()
    expect(view.locator("tbody tr")).to_have_count(4)
    assert set(view.locator("td[data-column='parameter:batch']").all_inner_texts()) == {"128"}
    page.mouse.move((box["x"] + at["x"]) / 2, at["y"] + 40)
    page.mouse.move(at["x"] - 12, at["y"] + 2)
    expect(view.locator("tbody tr[data-marked]")).to_have_count(1)
    view.get_by_role("button", name="Show all trials").click()
    expect(view.locator("tbody tr")).to_have_count(12)
    selects_a_range_with_keys(page, view)


def selects_a_range_with_keys(page, view):
    sizes = view.get_by_role("slider", name="batch, from")
    view.get_by_role("slider", name="lr, from").focus()
    for _ in range(2):
        page.keyboard.press("ArrowRight")
    expect(sizes).to_be_focused()
    page.keyboard.press("End")
    expect(view.locator("tbody tr")).to_have_count(4)
    expect(sizes).to_have_attribute("aria-valuetext", "128")
    expect(sizes).to_be_focused()
    page.keyboard.press("Escape")
    expect(view.locator("tbody tr")).to_have_count(12)


def has_no_violation_in_either_theme(lab):
    lab.page.mouse.move(1, 1)
    for theme in ("JupyterLab Light", "JupyterLab Dark"):
        lab.theme(theme)
        lab.page.wait_for_function(NOTHING_MOVES)
        assert violations(lab.page, ".ba-dashboard", is_recoloured="Dark" in theme) == []


def has_lines_as_wide_as_their_box(view):
    lines = view.locator(".ba-parallel-lines")
    until(lambda: lines.evaluate("lines => lines.clientWidth === lines.parentElement.clientWidth"))


def shows_the_first_hundred_trials_and_more_on_request(view):
    expect(view.get_by_text("100 of 240 trials")).to_be_visible()
    expect(view.locator("tbody tr")).to_have_count(100)
    view.get_by_role("button", name="Show 100 more").click()
    expect(view.locator("tbody tr")).to_have_count(200)
