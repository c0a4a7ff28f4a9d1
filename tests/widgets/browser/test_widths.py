"""No width of the page leaves a word cut off that there is room for, or a column out of sight."""

import contextlib
import re

import pytest
from playwright.sync_api import TimeoutError, expect

from batchai_magics.metrics import compare, read_metrics, scaling
from batchai_magics.widgets.dashboards.jobs_dashboard import JobsModel
from tests.widgets.browser.test_looks import SETUP
from tests.widgets.scripted_cluster import EXPERIMENT, ExecutionState, ScriptedCluster
from tests.widgets.scripted_job import step_line
from tests.world import until

pytestmark = [pytest.mark.slow, pytest.mark.browser]

WIDTHS = (1120, 1000, 900, 760, 660, 504)  # the narrowest pages of each layout, or nearly so
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
LINES = """(one) => Math.round(
  one.getBoundingClientRect().height / parseFloat(getComputedStyle(one).lineHeight))"""
TOP = "(one) => Math.round(one.getBoundingClientRect().top)"


def opened_cells(lab, folder, *cells):
    """Runs the cells, and gives their elements in the page, which has no room at its left."""
    lab.open("widths", SETUP.format(folder=folder) + MORE, *cells)
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


# A cell of a notebook as narrow as 400 pixels, with JupyterLab's letters.
NARROW_CELL = "<style>body {{ margin: 0; font: 13px sans-serif }} table {{ font-size: 12px }}</style>{}"
FITS = "() => document.documentElement.scrollWidth <= innerWidth"


def test_a_still_list_of_jobs_stays_within_a_narrow_cell(page, tmp_path):
    place = ScriptedCluster(tmp_path)
    place.run("resnet50-lr-warmup", rates=[100, 200, 300], seconds=3720)
    place.run("inception3-batch64", ExecutionState.FAILED, rates=[90, 80], seconds=964000, exit_code=1)
    place.tell("inception3-batch64", "step 120/500\n")
    model = JobsModel(place, EXPERIMENT)
    model.poll()
    show_narrow(page, model.bundle()["text/html"])
    page.locator("td", has_text="failed at step 120/500").wait_for()
    assert page.evaluate(FITS)


@pytest.mark.parametrize("table", [compare, scaling])
def test_a_still_table_of_three_runs_stays_within_a_narrow_cell(page, table):
    runs = {
        name: read_metrics(study(ranks).encode()) for name, ranks in (("one", 1), ("two", 2), ("four", 4))
    }
    show_narrow(page, table(runs)._repr_html_())
    page.get_by_text("four").first.wait_for()
    assert page.evaluate(FITS)


def show_narrow(page, html):
    page.set_viewport_size({"width": 400, "height": 1400})
    page.set_content(NARROW_CELL.format(html))


def study(ranks):
    """The log of so many ranks, with all metrics of tf_cnn_benchmarks."""
    devices = [f"horovod/gpu:{rank}" for rank in range(ranks)]
    head = f"Model:       resnet50\nBatch size:  {32 * ranks} global\n             32 per device\n"
    steps = [
        step_line(step, rank, 95 - 5 * ranks, 5 - step / 100)
        for step in range(10, 400, 10)
        for rank in range(ranks)
    ]
    return f"{head}Devices:     {devices}\n{''.join(steps)}"
