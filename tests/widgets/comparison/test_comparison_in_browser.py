"""Runs side by side in a real JupyterLab: they grow before one's eyes; a table and a figure are saved."""

import json
import re

import pytest
from playwright.sync_api import expect

from tests.widgets.axe import violations
from tests.widgets.browser.test_looks import NOTHING_MOVES
from tests.world import until

pytestmark = [pytest.mark.slow, pytest.mark.browser]

SETUP = """
%load_ext batchai_magics
import dataclasses
from batchai_magics import compare, scaling
from batchai_magics.jobs.job_handle import Job
from tests.widgets.scripted_cluster import EXPERIMENT, ExecutionState, Kind, ScriptedCluster
from tests.widgets.scripted_job import step_line
world = ScriptedCluster("{folder}")
world.run("one", rates=[100] * 6)
world.run("two")
jobs = [Job(world, EXPERIMENT.child(Kind.JOB, name)) for name in ("one", "two")]
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
JOB = """%%batchai_job {name} --nodes 1 --processes {ranks}
import time
from pathlib import Path
from mpi4py import MPI
ranks = MPI.COMM_WORLD.size
print("Model:       lenet")
print(f"Batch size:  {{8 * ranks}} global")
print("             8 per device")
print(f"Devices:     {{[f'horovod/cpu:{{rank}}' for rank in range(ranks)]}}", flush=True)
step = 0
while not Path("{flag}").exists() or step < 50:
    step += 10
    loss = 3 - min(step, 2000) / 1000
    print(f"{{step}}\\timages/sec: 50.0 +/- 0.5 (jitter = 1.0)\\t{{loss:.3f}}", flush=True)
    time.sleep(0.05)
"""


@pytest.fixture
def setup_cell(tmp_path):
    return SETUP.format(folder=tmp_path / "cluster")


def rows(page, place):
    """The rows of a view's table."""
    return page.locator(".ba-dashboard").nth(place).locator("tbody tr")


def speeds(page, place, text):
    page.locator(".ba-dashboard").nth(place).get_by_role("cell", name=text, exact=False).first.wait_for()


def test_an_overlay_and_a_study_grow_out_of_sight_come_back_and_are_saved(lab, setup_cell):
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
    page.get_by_role("img", name="images/sec, latest: one 100.0, two 180.0", exact=True).wait_for()
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


RESULTS = """
for name, share in (("first", 91.5), ("second", 93.1)):
    world.run(name, ExecutionState.SUCCEEDED)
    world.tell(name, f"Test accuracy: {share}%\\n")
results = [Job(world, EXPERIMENT.child(Kind.JOB, name)) for name in ("first", "second")]
"""


def test_no_column_is_cut_off_each_axis_says_what_it_counts_and_axe_finds_nothing_wrong(lab, setup_cell):
    long = "one-with-a-name-that-is-longer-than-most"
    setup = setup_cell.replace('"one"', f'"{long}"') + RESULTS
    lab.open("wide", setup, "compare(jobs)", "scaling(jobs)", GROW, "compare(results)")
    for index in range(5):
        lab.run(index)
    page = lab.page
    are_numbered_and_called_no_steps(page.locator(".ba-dashboard").nth(2))
    speeds(page, 1, "180.0 ±")
    page.locator(".ba-plot[data-along=step] canvas").nth(1).wait_for()
    page.locator(".ba-plot[data-along=processes] canvas").nth(1).wait_for()
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
    ideal = page.locator(".ba-readout").get_by_role("button", name="ideal")
    expect(ideal).to_have_count(2)
    ideal.first.click()
    expect(ideal.first).to_have_attribute("aria-pressed", "false")


def are_numbered_and_called_no_steps(view):
    """Values that were printed without a position."""
    view.locator(".ba-plot[data-along=value] canvas").first.wait_for()
    expect(view.locator(".ba-plot[data-along=step]")).to_have_count(0)


SWEEP = """
from batchai_magics.models.runs.labels import Labels
class Trial(Job):
    def labels(self):
        return Labels(("baseline",) if self.name == "t-0" else (), parameters={{"rate": RATES[self.name]}})
RATES = {{f"t-{{n}}": 10.0 ** -(n % 3) for n in range({count})}}
for n, name in enumerate(RATES):
    world.run(name, ExecutionState.RUNNING)
    lines = [f"step {{s}} loss {{1 / s + n}} acc {{s / 100}}\\n" for s in range(1, {steps} + 1)]
    world.tell(name, "".join(lines))
trials = [Trial(world, EXPERIMENT.child(Kind.JOB, name)) for name in RATES]
"""
WORSE = 'world.tell("t-0", "step 51 loss 0.5\\n")'
NAMES = "(rows) => rows.map((row) => row.querySelector('.ba-run-name').textContent)"


LABELLED = """
from tests.widgets.scripted_cluster import ScriptedLabels
world.records = ScriptedLabels()
for name, last in (("one", 2.0), ("two", 3.0)):
    world.tell(name, "".join(f"step {s} loss {last if s % 2 else 1.0}\\n" for s in range(101, 162)))
"""
BASELINE = 'world.records.tag("{}", "baseline")'


def test_runs_have_a_baseline_and_many_are_sorted_grouped_and_drawn_against_a_parameter(lab, setup_cell):
    setup = setup_cell + LABELLED + SWEEP.format(count=24, steps=50)
    move = f"world.records.tag('one'); {BASELINE.format('two')}"
    lab.open("runs", setup, "compare(jobs)", BASELINE.format("one"), move, "compare(trials)", WORSE)
    lab.run(0)
    lab.run(1)
    has_a_baseline_that_moves(lab, lab.page.locator(".ba-dashboard"))
    lab.run(4)
    is_sorted_grouped_and_drawn_against_a_parameter(lab, lab.page.locator(".ba-dashboard").nth(1))
    assert lab.errors == []


def has_a_baseline_that_moves(lab, view):
    view.get_by_role("img", name="loss, latest: one 2.000, two 3.000", exact=True).wait_for()
    expect(view.locator("tr[data-baseline]")).to_have_count(0)
    loss = "td[data-column='metric:loss']"
    for cell, baseline, other, change in ((2, "one", "two", "+50.0 %"), (3, "two", "one", "−33.3 %")):
        lab.run(cell)
        expect(view.locator("tr[data-baseline]")).to_have_count(1)
        expect(view.locator("tr[data-baseline] .ba-run-name")).to_have_text(baseline)
        row = view.locator("tbody tr", has=lab.page.get_by_text(other, exact=True))
        expect(row.locator(loss)).to_contain_text(f"({change})")
    # what is chosen in the page counts more than a tag, and stays
    view.get_by_label("Baseline").select_option("against one")
    expect(view.locator("tr[data-baseline] .ba-run-name")).to_have_text("one")
    expect(
        view.locator("tbody tr", has=lab.page.get_by_text("two", exact=True)).locator(loss)
    ).to_contain_text("(+50.0 %)")
    view.get_by_label("Baseline").select_option("no baseline")
    expect(view.locator("tr[data-baseline]")).to_have_count(0)
    expect(view.locator("tbody")).not_to_contain_text("%")
    view.get_by_label("Smoothing").fill("8")
    view.get_by_role("img", name=re.compile(r"^loss, latest: one 1\.\d+, two [12]\.\d+$")).wait_for()


def is_sorted_grouped_and_drawn_against_a_parameter(lab, view):
    expect(view.locator("tbody tr")).to_have_count(24)
    view.locator(".ba-plot canvas").nth(1).wait_for()
    best = view.locator("td[data-best]")
    expect(best.first).to_have_text("0.020")
    lab.run(5)
    expect(best.first).to_have_text(re.compile(r"^0\.5\d* \(best 0\.020\d*\)$"))
    head = view.locator("th[data-column='metric:loss']")
    head.get_by_role("button").click()
    expect(head).to_have_attribute("aria-sort", "ascending")
    assert view.locator("tbody tr").evaluate_all(NAMES)[:3] == ["t-0", "t-1", "t-2"]
    head.get_by_role("button").click()
    assert view.locator("tbody tr").evaluate_all(NAMES)[0] == "t-23"
    view.get_by_label("Draw over").select_option("parameter:rate")
    view.locator(".ba-plot[data-along=rate] canvas").first.wait_for()
    view.get_by_label("Draw over").select_option("step")
    view.get_by_label("Group by").select_option("rate")
    expect(view.locator("tbody tr")).to_have_count(3)
    expect(view.locator("tbody tr").first).to_contain_text("±")
    view.get_by_role("img", name=re.compile("^loss, latest: rate 0.01 .*rate 0.1 .*rate 1 ")).wait_for()


def test_real_jobs_are_followed_by_the_magic_to_their_ends(lab, tmp_path):
    flag = tmp_path / "enough"
    starts = [JOB.format(name=f"side-{ranks}", ranks=ranks, flag=flag) for ranks in (1, 2)]
    lab.open("magic", "%load_ext batchai_magics", *starts, "%batchai scaling side-1 side-2")
    for index in range(4):
        lab.run(index)
    page = lab.page
    study = page.locator(".jp-CodeCell").nth(3)
    live = study.locator(".ba-dashboard")
    live.get_by_text("weak scaling, batch of 8 per process. From 1 to 2 processes 2.00 times").wait_for()
    flag.touch()
    live.get_by_text("all runs have ended", exact=True).wait_for()
    study.locator("img").wait_for(state="attached")
    expect(study.locator("[data-batchai-snapshot]")).to_contain_text("100.0 % ± ")
    assert lab.errors == []
