"""No width of the page leaves a word cut off that there is room for, or a column out of sight."""

import contextlib
import re

import pytest
from playwright.sync_api import TimeoutError, expect

from tests.widgets.browser.test_looks import NARROW, SETUP
from tests.world import until

pytestmark = [pytest.mark.slow, pytest.mark.browser]

WIDTHS = (1400, 1240, 1120, 1000, 900, 760, 660, 560, 504)
FONT = "monospace"  # as wide as any
SET_FONT = """(font) =>
  window.jupyterapp.shell.currentWidget.node.style.setProperty('--jp-ui-font-family', font)"""
FOLDED = "() => window.jupyterapp.shell.collapseLeft?.()"
SHOWS = "(width) => document.querySelector('.ba-view').getBoundingClientRect().right <= width"
# A cell of the list may shorten a long name; what tells numbers, runs or how far a job is may not.
CUT_OFF = """() => [...document.querySelectorAll(
    '.ba-view, .ba-scroller, .ba-chart-bar, .ba-readout, .ba-progress-words, .ba-view .ba-header .ba-name')]
  .filter((one) => one.checkVisibility() && one.clientWidth && one.scrollWidth > one.clientWidth + 1)
  .map((one) => `${one.className}: ${one.textContent.slice(0, 60)}`)"""
EMPTY_COLUMNS = """(list) => [...list.querySelectorAll('th')]
  .filter((head) => head.checkVisibility())
  .map((head) => [...list.querySelectorAll(`td[data-column=${head.dataset.column}]`)])
  .filter((cells) => cells.every((cell) => !cell.innerText.trim()))
  .map((cells) => cells[0]?.dataset.column)"""
MORE = """
%load_ext batchai_magics
for name, state in (("resnet50-lr-warmup", S.RUNNING), ("inception3-batch64", S.FAILED)):
    world.run(name, state, rates=[100, 200, 300], seconds=3720, exit_code=1 if state is S.FAILED else None)
    world.tell(name, "step 120/500\\n")
world.tell("resnet50-lr-warmup", "step 121/500\\n")
"""
DASHBOARD = "widgets.show_dashboard(world.jobs_subject)"
STILL = "widgets.show_dashboard(world.jobs_subject, ui='html')"
RUNNING = "widgets.show(Job(running, running.job.id), ui='widget')"
BAND = """
band = backend("band", S.RUNNING)
train(band)
for rank in range(4, 8):
    band.write(step_line(390, rank, 1234.5), rank=rank)
widgets.show(Job(band, band.job.id), ui='widget')
"""
RUNS = """
from batchai_magics import compare
names = ["resnet50-baseline", "inception3-batch64", "resnet50-lr-warmup", "sweep-1"]
compare([Job(world, scripted_cluster.EXPERIMENT.child(scripted_cluster.Kind.JOB, name)) for name in names])
"""
STUDY = """
from batchai_magics import compare, scaling
names = ["one", "two", "four"]
for name, ranks in zip(names, (1, 2, 4)):
    world.run(name, S.SUCCEEDED, seconds=90)
    sizes = "Batch size:  %d global\\n             32 per device\\n" % (32 * ranks)
    world.tell(name, "Model:       resnet50\\n" + sizes)
    world.tell(name, "Devices:     %r\\n" % [f"horovod/gpu:{each}" for each in range(ranks)])
    for step in range(10, 400, 10):
        for rank in range(ranks):
            rate = 100 - 5 * ranks + random.gauss(0, 1)
            world.tell(name, scripted_job.step_line(step, rank, rate, 5 - step / 100))
jobs = [Job(world, scripted_cluster.EXPERIMENT.child(scripted_cluster.Kind.JOB, name)) for name in names]
"""
LINES = """(one) => Math.round(
  one.getBoundingClientRect().height / parseFloat(getComputedStyle(one).lineHeight))"""
TOP = "(one) => Math.round(one.getBoundingClientRect().top)"
WITHIN = """(one) => getComputedStyle(one.parentElement).overflowX === 'auto'
  && one.parentElement.getBoundingClientRect().right <= innerWidth"""


def opened_cells(lab, folder, *cells, more=MORE):
    """Runs the cells, and gives their elements in the page, which has no room at its left."""
    lab.open("widths", SETUP.format(folder=folder) + more, *cells)
    lab.page.evaluate(FOLDED)
    for index in range(len(cells) + 1):
        lab.run(index)
    return [lab.page.locator(".jp-CodeCell").nth(index + 1) for index in range(len(cells))]


def cut_off(page, width):
    page.set_viewport_size({"width": width, "height": 1400})
    page.wait_for_function(SHOWS, arg=width)
    page.evaluate("() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
    with contextlib.suppress(TimeoutError):  # what is drawn anew may come later
        page.wait_for_function(f"() => ({CUT_OFF})().length === 0")
        return []
    return page.evaluate(CUT_OFF)


def test_lists_legends_and_comparisons_fit_at_each_width(lab, tmp_path):
    jobs, running, band, runs = opened_cells(lab, tmp_path, DASHBOARD, RUNNING, BAND, RUNS)
    page = lab.page
    page.evaluate(SET_FONT, FONT)
    jobs.locator(".ba-progress:not([hidden])").first.wait_for()
    for view in (running, band, runs):
        view.locator(".ba-plot canvas").first.wait_for()
    assert {width: cut for width in WIDTHS if (cut := cut_off(page, width))} == {}
    tells_the_time_left_in_one_line(jobs)
    for view, words in ((band, ("ranks",)), (runs, ("baseline", "batch64", "warmup"))):
        for legend in view.locator(".ba-readout").all():
            for word in words:
                expect(legend).to_contain_text(word)
    page.evaluate(SET_FONT, "inherit")
    page.set_viewport_size({"width": 900, "height": 1400})
    for title in ("Progress", "Metric"):
        expect(jobs.locator(".ba-dashboard th", has_text=title)).to_be_visible()
    until(lambda: jobs.locator(".ba-dashboard").evaluate(EMPTY_COLUMNS) == [])
    page.set_viewport_size({"width": 1400, "height": 1000})
    page.wait_for_function(SHOWS, arg=1400)
    begin_alike_with_legends_of_one_line(runs)


def tells_the_time_left_in_one_line(jobs):
    """At the last, narrow width."""
    left = jobs.locator("tr", has_text="resnet50-lr-warmup").locator(".ba-progress-left")
    left.get_by_text("%").wait_for(state="hidden")
    expect(left).to_have_text(re.compile("left$"), use_inner_text=True)
    until(lambda: left.evaluate(LINES) == 1)
    until(lambda: left.evaluate("(one) => one.scrollWidth <= one.closest('td').clientWidth"))


def begin_alike_with_legends_of_one_line(runs):
    plots, legends = runs.locator(".ba-plot"), runs.locator(".ba-readout")
    until(lambda: plots.nth(0).evaluate(TOP) == plots.nth(1).evaluate(TOP))
    until(lambda: max(heights(legends)) < 20)
    before = heights(legends)
    plots.nth(1).hover()
    expect(plots.nth(1)).to_have_attribute("aria-label", re.compile(r" at step \d"))
    assert heights(legends) == before


def heights(elements):
    return [one.evaluate("(one) => one.clientHeight") for one in elements.all()]


def test_still_lists_and_tables_of_three_runs_stay_within_a_narrow_page(lab, tmp_path):
    tables = (f"widgets.show_comparison({kind}(jobs), ui='html')" for kind in ("compare", "scaling"))
    cells = opened_cells(lab, tmp_path, STILL, *tables, more=MORE + STUDY)
    page = lab.page
    jobs, compared, scaled = (cell.locator(".jp-OutputArea table") for cell in cells)
    jobs.locator("td", has_text="failed at step 120/500").wait_for()
    scaled.get_by_text("four").first.wait_for()
    page.set_viewport_size({"width": NARROW, "height": 1400})
    page.wait_for_function("(width) => innerWidth === width", arg=NARROW)
    expect(page.locator(".ba-view")).to_have_count(0)
    frame = page.locator(".jp-RenderedHTML > div").first
    until(lambda: frame.evaluate("(one) => one.scrollWidth <= one.clientWidth"))
    # with a column for each metric: it scrolls in its own frame
    until(lambda: compared.evaluate(WITHIN))
    until(lambda: scaled.evaluate("(one) => one.parentElement.scrollWidth <= one.parentElement.clientWidth"))
