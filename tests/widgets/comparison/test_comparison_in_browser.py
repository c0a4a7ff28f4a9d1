"""Runs side by side in a real JupyterLab: they grow before one's eyes; a table and a figure are saved."""

import json
import re

import pytest
from playwright.sync_api import expect

from tests.widgets.axe import violations
from tests.widgets.browser.test_looks import NOTHING_MOVES
from tests.world import until

pytestmark = [pytest.mark.slow, pytest.mark.browser]

LONG = "one-with-a-name-that-is-longer-than-most"
SETUP = """
%load_ext batchai_magics
import dataclasses
from batchai_magics import compare, scaling
from batchai_magics.jobs.job_handle import Job
from tests.widgets.scripted_cluster import EXPERIMENT, ExecutionState, Kind, ScriptedCluster
from tests.widgets.scripted_job import step_line
world = ScriptedCluster("{folder}")
world.run("{long}", rates=[100] * 6)
world.run("two")
jobs = [Job(world, EXPERIMENT.child(Kind.JOB, name)) for name in ("{long}", "two")]
"""
GROW = """
for step in range(1, 7):
    for rank in range(4):
        world.tell("two", step_line(step * 10, rank, 45))
"""
END = """
for name, job in world.jobs.items():
    world.jobs[name] = dataclasses.replace(job, state=ExecutionState.SUCCEEDED)
"""


@pytest.fixture
def setup_cell(tmp_path):
    return SETUP.format(folder=tmp_path / "cluster", long=LONG)


def rows(page, place):
    """The rows of a view's table."""
    return page.locator(".ba-dashboard").nth(place).locator("tbody tr")


def speeds(page, place, text):
    page.locator(".ba-dashboard").nth(place).get_by_role("cell", name=text, exact=False).first.wait_for()


def test_an_overlay_and_a_study_grow_out_of_sight_fit_any_width_come_back_and_are_saved(lab, setup_cell):
    lab.open("side", setup_cell, "compare(jobs)", "scaling(jobs)", GROW, END)
    for index in range(3):
        lab.run(index)
    page = lab.page
    speeds(page, 0, "100.0 ±")
    expect(rows(page, 0).nth(1)).to_contain_text("–")
    page.locator(".ba-dashboard").get_by_text("No images/sec yet: two.").wait_for()
    for index in (1, 2):
        chart = (
            page.locator(".jp-CodeCell").nth(index).get_by_role("img", name=re.compile("latest: .* 100.0"))
        )
        chart.first.wait_for()
    with lab.out_of_sight(1), lab.out_of_sight(2):
        lab.run(3)
        for place in (0, 1):
            expect(rows(page, place).nth(1)).to_contain_text("180.0 ±")
    show_all(page)
    fit_and_have_no_violation(lab)
    lab.save()
    lab.reload_views(2)
    show_all(page)
    expect(page.locator("[data-batchai-snapshot]").first).to_be_hidden()
    for index in (1, 2):  # what was shown before it was loaded again is updated no more
        lab.run(index)
    page.get_by_role("img", name="efficiency, latest").press("ArrowRight")
    page.get_by_role("img", name="efficiency at 2 processes: model 100.0 %", exact=True).wait_for()
    lab.run(4)
    for place in (0, 1):
        page.locator(".ba-dashboard").nth(place).get_by_text("all runs have ended", exact=True).wait_for()
        page.locator(".jp-CodeCell").nth(place + 1).locator("img").wait_for(state="attached")
        expect(page.locator(".ba-dashboard").nth(place)).to_be_visible()
        expect(page.locator(".jp-CodeCell").nth(place + 1).locator("[data-batchai-snapshot]")).to_be_hidden()
    saved = lab.save()
    kinds = [set(output["data"]) for cell in saved["cells"][1:3] for output in cell["outputs"]]
    live = {"application/vnd.jupyter.widget-view+json", "text/plain"}
    assert kinds == [live, {"text/html", "text/plain"}, {"image/png", "text/plain"}] * 2
    assert "180.0" in saved["cells"][1]["outputs"][1]["data"]["text/html"][0]
    assert len(json.dumps(saved)) < 400_000
    assert lab.errors == []


def show_all(page):
    page.get_by_role("img", name=f"images/sec, latest: {LONG} 100.0, two 180.0", exact=True).wait_for()
    page.get_by_role("img", name="efficiency, latest: model 90.0 %", exact=True).wait_for()


WHITE = """(canvas) => {
  const { data } = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height);
  if (!data.some((value) => value > 0)) return -1;  // it has not been drawn yet
  let count = 0;
  for (let i = 0; i < data.length; i += 4) count += Number(Math.min(...data.slice(i, i + 4)) === 255);
  return count;
}"""
CUT_OFF = """() => [...document.querySelectorAll('.ba-view, .ba-view .ba-scroller')]
  .filter((box) => box.scrollWidth > box.clientWidth + 1).length"""


def fit_and_have_no_violation(lab):
    """At each width and in both themes."""
    page = lab.page
    page.locator(".ba-plot[data-along=step] canvas").nth(1).wait_for()
    page.locator(".ba-plot[data-along=processes] canvas").nth(1).wait_for()
    wide = page.viewport_size
    for width in (1400, 760, 504):
        page.set_viewport_size({"width": width, "height": 1400})
        page.wait_for_function(f"({CUT_OFF})() === 0")
    page.mouse.move(1, 1)
    for theme in ("JupyterLab Light", "JupyterLab Dark"):
        lab.theme(theme)
        page.wait_for_function(NOTHING_MOVES)
        assert violations(page, ".ba-view", is_recoloured="Dark" in theme) == []
    canvases = page.locator(".ba-plot[data-along=processes] canvas")
    until(lambda: {canvas.evaluate(WHITE) for canvas in canvases.all()} == {0})  # no white points in the dark
    page.set_viewport_size(wide)
    ideal = page.locator(".ba-readout").get_by_role("button", name="ideal")
    expect(ideal).to_have_count(2)
    ideal.first.click()
    expect(ideal.first).to_have_attribute("aria-pressed", "false")
