"""What narrow and dark pages show of views that wait, fail, are compared or have lost their kernel."""

import re

import pytest
from playwright.sync_api import expect

from tests.widgets.browser.test_looks import NARROW, SETUP
from tests.widgets.browser.test_widths import DASHBOARD, FOLDED, MORE, RUNS, SHOWS
from tests.world import until

pytestmark = [pytest.mark.slow, pytest.mark.browser]

FAILED = "widgets.show(Job(failed, failed.job.id), ui='widget')"
RUNNING = "widgets.show(Job(running, running.job.id), ui='widget')"
STUDY = """
%load_ext batchai_magics
from batchai_magics import compare, scaling
names = ["one", "two", "four"]
for name, ranks in zip(names, (1, 2, 4)):
    world.run(name, S.{state}, seconds=90)
    sizes = "Batch size:  %d global\\n             32 per device\\n" % (32 * ranks)
    world.tell(name, "Model:       resnet50\\n" + sizes)
    world.tell(name, "Devices:     %r\\n" % [f"horovod/gpu:{{each}}" for each in range(ranks)])
    for step in range(10, 400, 10):
        for rank in range(ranks):
            rate = 100 - 5 * ranks + random.gauss(0, 1)
            world.tell(name, scripted_job.step_line(step, rank, rate, 5 - step / 100))
jobs = [Job(world, scripted_cluster.EXPERIMENT.child(scripted_cluster.Kind.JOB, name)) for name in names]
"""
LEFT = MORE + "world.tell('resnet50-lr-warmup', 'step 121/500\\n')\n"
# What does not fit: words that are cut off, tabs and buttons out of sight.
LACKING = """(view) => [...view.querySelectorAll('.ba-problem, .ba-tabs, .ba-status, .ba-progress-words')]
  .filter((one) => one.checkVisibility())
  .filter((one) => one.scrollWidth > one.clientWidth + 1 || one.scrollHeight > one.clientHeight + 1
    || one.getBoundingClientRect().right > view.getBoundingClientRect().right)
  .map((one) => `${one.className}: ${one.textContent}`)"""
LINES = """(one) => Math.round(
  one.getBoundingClientRect().height / parseFloat(getComputedStyle(one).lineHeight))"""
TOP = "(one) => Math.round(one.getBoundingClientRect().top)"
WITHIN = """(one) => getComputedStyle(one.parentElement).overflowX === 'auto'
  && one.parentElement.getBoundingClientRect().right <= innerWidth"""
WHITE = """(canvas) => {
  const { data } = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height);
  if (!data.some((value) => value > 0)) return -1;  // it has not been drawn yet
  let count = 0;
  for (let i = 0; i < data.length; i += 4) count += Number(Math.min(...data.slice(i, i + 4)) === 255);
  return count;
}"""


def opened_page(lab, folder, *cells, more=MORE):
    """Runs the cells, and gives the page."""
    lab.open("narrow", SETUP.format(folder=folder) + more, *cells)
    lab.page.evaluate(FOLDED)
    for index in range(len(cells) + 1):
        lab.run(index)
    return lab.page


def narrow(page):
    page.set_viewport_size({"width": NARROW, "height": 1400})
    page.wait_for_function("(width) => innerWidth === width", arg=NARROW)
    page.evaluate("() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")


def test_a_narrow_view_tells_all_of_why_a_job_failed(lab, tmp_path):
    page = opened_page(lab, tmp_path, "failed.write('step 120/500\\n', rank=0)\n" + FAILED)
    page.locator(".ba-words", has_text="NCCL").wait_for()
    page.locator(".ba-progress", has_text="failed at step 120/500").wait_for()
    narrow(page)
    view = page.locator(".ba-view")
    expect(view.locator(".ba-problem")).to_have_text("Rank 2: exit code 1: RuntimeError: NCCL is gone")
    until(lambda: view.evaluate(LACKING) == [])


def test_a_view_that_lost_its_kernel_says_so_whatever_the_reader_does(lab, tmp_path):
    page = opened_page(lab, tmp_path, RUNNING, DASHBOARD, more=LEFT)
    page.locator(".ba-row").first.wait_for()
    page.locator(".ba-dashboard .ba-progress-time", has_text="left").wait_for()
    lab.restart_kernel()
    note = page.locator(".ba-note", has_text="Run the cell to see the job again.")
    note.wait_for()
    view = page.locator(".ba-view").first
    view.hover()
    page.mouse.move(1, 1)
    view.get_by_role("tab", name="Files").click()
    narrow(page)
    expect(note).to_be_visible()
    until(lambda: view.evaluate(LACKING) == [])
    page.locator(".ba-dashboard .ba-progress-time", has_text="left").wait_for(state="detached")


def test_a_narrow_list_tells_the_time_left_in_one_line(lab, tmp_path):
    page = opened_page(lab, tmp_path, DASHBOARD, more=LEFT)
    left = page.locator(".ba-dashboard tr", has_text="resnet50-lr-warmup").locator(".ba-progress-left")
    left.get_by_text("left").wait_for()
    narrow(page)
    left.get_by_text("%").wait_for(state="hidden")
    expect(left).to_have_text(re.compile("left$"), use_inner_text=True)
    until(lambda: left.evaluate(LINES) == 1)
    until(lambda: left.evaluate("(one) => one.scrollWidth <= one.closest('td').clientWidth"))


def test_a_study_names_its_ideal_line_and_has_no_white_points_in_the_dark(lab, tmp_path):
    page = opened_page(lab, tmp_path, "scaling(jobs)", more=STUDY.format(state="RUNNING"))
    lab.theme("JupyterLab Dark")
    legends = page.locator(".ba-dashboard .ba-readout")
    legends.filter(has_text="resnet50").nth(1).wait_for()
    expect(legends.filter(has_text="ideal")).to_have_count(2)
    canvases = page.locator(".ba-dashboard .ba-plot canvas")
    expect(canvases).to_have_count(2)
    until(lambda: [canvas.evaluate(WHITE) for canvas in canvases.all()] == [0, 0])
    dashed = legends.first.get_by_role("button", name="ideal")
    dashed.click()
    expect(dashed).to_have_attribute("aria-pressed", "false")


def test_charts_side_by_side_begin_alike_with_a_legend_of_one_line(lab, tmp_path):
    page = opened_page(lab, tmp_path, RUNS)
    page.set_viewport_size({"width": 1400, "height": 1000})
    page.wait_for_function(SHOWS, arg=1400)
    plots, legends = page.locator(".ba-dashboard .ba-plot"), page.locator(".ba-dashboard .ba-readout")
    legends.filter(has_text="warmup").nth(1).wait_for()
    until(lambda: plots.nth(0).evaluate(TOP) == plots.nth(1).evaluate(TOP))
    until(lambda: max(heights(legends)) < 20)
    before = heights(legends)
    plots.nth(1).hover()
    expect(plots.nth(1)).to_have_attribute("aria-label", re.compile(r" at step \d"))
    assert heights(legends) == before


def heights(elements):
    return [one.evaluate("(one) => one.clientHeight") for one in elements.all()]


def test_still_tables_of_three_runs_stay_within_a_narrow_page(lab, tmp_path):
    cells = (f"widgets.show_comparison({kind}(jobs), ui='html')" for kind in ("compare", "scaling"))
    page = opened_page(lab, tmp_path, *cells, more=STUDY.format(state="SUCCEEDED"))
    tables = page.locator(".jp-OutputArea table", has_text="four")
    tables.nth(1).wait_for()
    narrow(page)
    expect(page.locator(".ba-view")).to_have_count(0)
    # with a column for each metric: it scrolls in its own frame
    until(lambda: tables.nth(0).evaluate(WITHIN))
    fits = "(one) => one.parentElement.scrollWidth <= one.parentElement.clientWidth"
    until(lambda: tables.nth(1).evaluate(fits))
