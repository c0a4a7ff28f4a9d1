"""No width of the page leaves a word cut off that there is room for, or a column out of sight."""

import contextlib

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
EMPTY_COLUMNS = """() => [...document.querySelectorAll('.ba-dashboard th')]
  .filter((head) => head.checkVisibility())
  .map((head) => [...document.querySelectorAll(`.ba-dashboard td[data-column=${head.dataset.column}]`)])
  .filter((cells) => cells.every((cell) => !cell.innerText.trim()))
  .map((cells) => cells[0]?.dataset.column)"""
MORE = """
for name, state in (("resnet50-lr-warmup", S.RUNNING), ("inception3-batch64", S.FAILED)):
    world.run(name, state, rates=[100, 200, 300], seconds=3720, exit_code=1 if state is S.FAILED else None)
    world.tell(name, "step 120/500\\n")
"""
DASHBOARD = "widgets.show_dashboard(world.jobs_subject)"
STILL = "widgets.show_dashboard(world.jobs_subject, ui='html')"
RUNNING = "widgets.show(Job(running, running.job.id), ui='widget')"
RUNS = """
%load_ext batchai_magics
from batchai_magics import compare
names = ["resnet50-baseline", "inception3-batch64", "resnet50-lr-warmup", "sweep-1"]
compare([Job(world, scripted_cluster.EXPERIMENT.child(scripted_cluster.Kind.JOB, name)) for name in names])
"""


def cut_off_at_some_width(lab, folder, cell, seen):
    """What is cut off at the first width where something is: of a cell's view, once `seen` is there."""
    lab.open("widths", SETUP.format(folder=folder) + MORE, cell)
    lab.page.evaluate(FOLDED)
    lab.page.evaluate(SET_FONT, FONT)
    for index in range(2):
        lab.run(index)
    lab.page.locator(seen).first.wait_for()
    return next(({width: cut} for width in WIDTHS if (cut := cut_off(lab.page, width))), {})


def cut_off(page, width):
    page.set_viewport_size({"width": width, "height": 1400})
    page.wait_for_function(SHOWS, arg=width)
    page.evaluate("() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
    with contextlib.suppress(TimeoutError):  # what is drawn anew may come later
        page.wait_for_function(f"() => ({CUT_OFF})().length === 0")
        return []
    return page.evaluate(CUT_OFF)


def test_a_list_of_jobs_that_run_fits_at_each_width_with_its_metrics_and_no_empty_column(lab, tmp_path):
    assert cut_off_at_some_width(lab, tmp_path, DASHBOARD, ".ba-progress:not([hidden])") == {}
    lab.page.evaluate(SET_FONT, "inherit")
    lab.page.set_viewport_size({"width": 900, "height": 1400})
    for title in ("Progress", "Metric"):
        expect(lab.page.locator(".ba-dashboard th", has_text=title)).to_be_visible()
    until(lambda: lab.page.evaluate(EMPTY_COLUMNS) == [])


def test_the_legends_of_a_running_job_fit_at_each_width(lab, tmp_path):
    assert cut_off_at_some_width(lab, tmp_path, RUNNING, ".ba-plot canvas") == {}


def test_what_the_band_of_many_ranks_is_fits_at_each_width(lab, tmp_path):
    more = "for rank in range(4, 8): running.write(step_line(390, rank, 1234.5), rank=rank)\n"
    assert cut_off_at_some_width(lab, tmp_path, more + RUNNING, ".ba-plot canvas") == {}
    for legend in lab.page.locator(".ba-readout").all():
        expect(legend).to_contain_text("ranks")


def test_every_run_is_named_by_the_legend_at_each_width(lab, tmp_path):
    assert cut_off_at_some_width(lab, tmp_path, RUNS, ".ba-plot canvas") == {}
    for legend in lab.page.locator(".ba-readout").all():
        for name in ("baseline", "batch64", "warmup"):
            expect(legend).to_contain_text(name)


def test_a_list_of_jobs_that_was_saved_fits_into_a_narrow_page(lab, tmp_path):
    lab.open("widths", SETUP.format(folder=tmp_path) + MORE, STILL)
    lab.page.evaluate(FOLDED)
    for index in range(2):
        lab.run(index)
    lab.page.locator(".jp-OutputArea td", has_text="failed at step 120/500").wait_for()
    lab.page.set_viewport_size({"width": NARROW, "height": 1400})
    lab.page.wait_for_function("(width) => innerWidth === width", arg=NARROW)
    frame = lab.page.locator(".jp-RenderedHTML > div").first
    until(lambda: frame.evaluate("(one) => one.scrollWidth <= one.clientWidth"))
