"""The live view in a real JupyterLab, and in a page of its own where that is all that it needs."""

import re
from dataclasses import replace

import pytest
from playwright.sync_api import expect

from batchai_magics.backends.base import Seal
from batchai_magics.jobs.job_handle import Job
from tests.widgets.lab import confirm
from tests.widgets.scripted_job import JOB, step_line, train
from tests.world import until

pytestmark = [pytest.mark.slow, pytest.mark.browser]

SETUP = """
import threading, time
from batchai_magics import widgets
from batchai_magics.jobs.job_handle import Job
from tests.widgets.scripted_job import JOB, FAILURE, ExecutionState, ScriptedBackend, train
backend = ScriptedBackend("{folder}")
job = Job(backend, JOB)
"""
# A browser without a desktop shows no notifications: this one keeps them.
NOTIFICATIONS = """
window.shown = [];
window.Notification = class {
  static permission = "default";
  static async requestPermission() { return "granted"; }
  constructor(title, options) { window.shown.push([title, options.body]); }
};
"""
SHOW = "widgets.show(job)"
FINISH_WHEN_HELD = """
def finish():
    while not any(output.view.is_in_use for output in widgets._publisher().outputs()):
        time.sleep(0.05)
    backend.finish()
threading.Thread(target=finish).start()
"""
LAST_LINE = re.compile(r"400\s+images/sec: 143.0")
SHOW_PAGE = """(display) => {
  document.querySelector('main').style.display = display;
  return new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
}"""

# Who asks for a width has the page laid out at once; in a frame, that was done or is about to be.
NOTE_WIDTHS = """
window.askedEarly = [];
let depth = 0;
const within = (call) => (...args) => {
  depth += 1;
  try { return call(...args); } finally { depth -= 1; }
};
const nextFrame = window.requestAnimationFrame;
window.requestAnimationFrame = (call) => nextFrame(within(call));
window.ResizeObserver = class extends ResizeObserver {
  constructor(call) { super(within(call)); }
};
for (const name of ["clientWidth", "scrollLeft", "offsetLeft", "offsetWidth"]) {
  const owner = name in Element.prototype ? Element.prototype : HTMLElement.prototype;
  const property = Object.getOwnPropertyDescriptor(owner, name);
  const get = function () {
    if (!depth) window.askedEarly.push(`${name} of ${this.className}`);
    return property.get.call(this);
  };
  Object.defineProperty(owner, name, { ...property, get });
}
"""


@pytest.fixture
def job_cell(tmp_path):
    return SETUP.format(folder=tmp_path / "job")


def test_a_view_is_alive_while_the_cell_that_shows_it_runs(lab, job_cell):
    wait = "while not backend.job.state.is_final: time.sleep(0.05)"
    lab.open("busy", job_cell, f"{SHOW}\ntrain(backend)\n{wait}")
    lab.run(0)
    lab.run(1, wait=False)
    lab.page.locator(".ba-row", has_text=LAST_LINE).wait_for()
    confirm(lab.page, "Cancel job", "Yes, cancel it")
    lab.page.wait_for_function("() => document.querySelector('.ba-badge')?.textContent === 'cancelled'")


def test_end_is_notified_and_the_view_tells_what_the_log_lacks(open_job, page, backend):
    page.add_init_script(NOTIFICATIONS)
    read = backend.read

    def sealed(*asked):
        chunk = read(*asked)
        return replace(chunk, seal=Seal(chunk.size, "known", 1200) if chunk.is_complete else None)

    backend.read = sealed
    train(backend)
    open_job(Job(backend, JOB))
    button = page.get_by_role("button", name="Notify me")
    button.click()
    expect(button).to_have_attribute("aria-pressed", "true")
    assert page.evaluate("shown") == []
    backend.finish()
    expect(page.locator(".ba-badge")).to_have_text("succeeded")
    assert page.evaluate("shown") == [["resnet has succeeded", "succeeded"]]
    expect(button).to_be_hidden()
    page.get_by_text(
        "stdout.txt is not complete: its last 1,200 bytes are missing: the disk did not take them"
    ).wait_for()


def test_a_view_that_opens_asks_for_widths_in_its_frames_only(open_job, page, backend):
    page.add_init_script(NOTE_WIDTHS)
    train(backend)
    open_job(Job(backend, JOB))
    page.locator(".ba-row", has_text=LAST_LINE).wait_for()
    page.locator(".ba-chart canvas").first.wait_for()
    assert page.evaluate("askedEarly") == []


def test_the_open_tab_is_in_sight_where_not_all_have_room(open_job, page, backend):
    train(backend)
    open_job(Job(backend, JOB))
    page.add_style_tag(content=".ba-toolbar > .ba-tabs { width: 120px; }")
    page.get_by_role("tab", name="Record").evaluate("(tab) => tab.click()")
    page.wait_for_function("() => document.querySelector('.ba-tabs').scrollLeft > 0")
    page.get_by_role("tab", name="stdout").evaluate("(tab) => tab.click()")
    page.wait_for_function("() => document.querySelector('.ba-tabs').scrollLeft === 0")


def test_the_log_stays_where_the_reader_is(open_job, backend):
    train(backend)
    page = open_job(Job(backend, JOB))
    page.locator(".ba-row", has_text=LAST_LINE).wait_for()
    page.locator(".ba-log").hover()
    scroll_up(page)
    top = page.evaluate("() => document.querySelector('.ba-log').scrollTop")
    backend.write("one more\n" * 3)
    page.get_by_role("button", name="3 new lines").click()
    page.locator(".ba-row", has_text="one more").first.wait_for()
    page.wait_for_function("(top) => document.querySelector('.ba-log').scrollTop > top", arg=top)


def test_a_view_that_was_hidden_shows_what_came_meanwhile(open_job, backend):
    train(backend)
    page = open_job(Job(backend, JOB))
    page.get_by_role("img", name="images/sec at step 400, total 566").wait_for()
    size = page.locator(".ba-foot > .ba-position")
    before = size.text_content()
    page.evaluate(SHOW_PAGE, "none")
    for rank in range(4):
        backend.write(step_line(410, rank) + 500 * "more\n", rank=rank)
    expect(size).not_to_have_text(before)
    page.evaluate(SHOW_PAGE, "")
    page.get_by_role("img", name="images/sec at step 410, total 400").wait_for()


def scroll_up(page):
    newest = page.get_by_role("button", name="Newest line")
    while not newest.is_visible():
        page.mouse.wheel(0, -600)
        page.wait_for_timeout(100)


FAILS = """
backend.write("RuntimeError: no data\\n", "stderr.txt", rank=2)
backend.finish(ExecutionState.FAILED, **FAILURE)
"""


def test_a_failed_job_opens_its_failure_and_leaves_a_card_and_a_picture_in_the_saved_notebook(lab, job_cell):
    lab.open("ends", job_cell, SHOW, "train(backend)", FAILS)
    for index in range(3):
        lab.run(index)
    lab.page.locator(".ba-log").hover()  # wherever the mouse is
    lab.run(3)
    tab = lab.page.get_by_role("tab", name="First failure")
    expect(tab).to_have_attribute("aria-selected", "true")
    lab.page.mouse.move(1, 1)
    lab.page.locator(".jp-RenderedImage img").wait_for(state="attached")
    lab.page.locator(".ba-kept .ba-view").wait_for()
    expect(lab.page.locator(".jp-RenderedImage img")).to_be_hidden()  # the page keeps the live view
    card, chart = (output["data"] for output in lab.save()["cells"][1]["outputs"])
    assert set(card) == {"text/html", "text/plain"}
    assert "resnet failed after 34 s: rank 2" in "".join(card["text/html"])
    assert set(chart) == {"image/png", "text/plain"}
    assert sum(len("".join(value)) for value in [*card.values(), *chart.values()]) < 200_000


def test_a_view_does_not_freeze_under_the_readers_hands(lab, job_cell):
    lab.open("held", job_cell, "train(backend)", FINISH_WHEN_HELD, SHOW, SHOW)
    for index in range(5):
        lab.run(index)
    held, other = (lab.page.locator(".jp-CodeCell").nth(index) for index in (3, 4))
    held.locator(".ba-log").hover()  # no cell runs from now on: the page would scroll the view away
    other.locator(".ba-kept").wait_for()
    expect(held.locator(".ba-badge")).to_have_text("succeeded")
    expect(held.locator(".ba-view")).to_have_count(1)
    assert held.locator(".ba-kept").count() == 0
    lab.page.mouse.move(1, 1)
    held.locator(".ba-kept").wait_for()
    held.locator(".jp-RenderedImage img").wait_for(state="attached")


def test_a_job_that_is_run_again_continues_in_its_card_and_is_the_variable(lab):
    cell = "%%batchai_job again\nprint('hello')"
    lab.open("again", "%load_ext batchai_magics", cell, "print('now', job.name)")
    lab.run(0)
    lab.run(1)
    page = lab.page
    for number in (2, 3):
        page.locator(".ba-badge", has_text="succeeded").wait_for()
        page.get_by_role("button", name="Run again").click()
        page.locator(".ba-name", has_text=f"again-{number}").wait_for()
        expect(page.locator(".ba-view")).to_have_count(1)
        page.locator(".ba-log", has_text="hello").wait_for()
        lab.run(2)
        page.get_by_text(f"now again-{number}").wait_for()
    page.locator(".ba-badge", has_text="succeeded").wait_for()
    page.mouse.move(1, 1)
    until(lambda: "[succeeded] again-3" in str(lab.save()["cells"][1]["outputs"]))
    assert lab.errors == []
