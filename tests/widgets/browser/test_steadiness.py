"""What a page shows stays where it is while a job runs, as Chromium itself measures it."""

import pytest
from playwright.sync_api import expect

from batchai_magics.jobs.job_handle import Job
from tests.widgets.scripted_job import JOB, ExecutionState, resource

pytestmark = [pytest.mark.slow, pytest.mark.browser]

LOAD = "%load_ext batchai_magics"
TRAIN = """%%batchai_job steady --processes 2
import time
print("loading", flush=True)
time.sleep(0.5)
for step in range(1, 30):
    print(f"step {step} loss: {30 / step ** 2:.4f} val_loss: {40 / step ** 2:.4f}", flush=True)
    print(f"step {step} acc: {1 - 1 / step:.3f} lr: {0.1 / step:.4f} grad_norm: {2 / step:.2f}", flush=True)
    time.sleep(0.1)
"""
# Begins when what is seen now is drawn: a job that is only now started has made room for its output by then.
WATCH = """() => new Promise((begun) => requestAnimationFrame(() => requestAnimationFrame(() => {
  window.batchaiShift = 0;
  [window.batchaiHeights, window.batchaiLefts] = [new Set(), []];
  new PerformanceObserver((list) => {
    for (const { value } of list.getEntries()) window.batchaiShift += value;
  }).observe({ type: 'layout-shift' });
  const look = () => {
    const view = document.querySelector('.ba-view');
    if (view) window.batchaiHeights.add(Math.round(view.getBoundingClientRect().height));
    const figure = document.querySelector('.ba-readout button');
    if (figure) window.batchaiLefts.push(figure.getBoundingClientRect().left);
    requestAnimationFrame(look);
  };
  look();
  begun();
})))"""
MOST_SHIFT = 0.05
SPREAD = "() => Math.max(...window.batchaiLefts) - Math.min(...window.batchaiLefts)"
MOST_MOVED_PX = 14  # where a number gets another digit


def test_neither_view_nor_legend_moves_from_the_first_number_to_the_frozen_output(lab):
    lab.page.emulate_media(reduced_motion="no-preference")
    lab.open("steady", LOAD, TRAIN, "'the next cell'")
    lab.run(0)
    page = lab.page
    lab.run(1, wait=False)
    view = page.locator(".ba-view")
    view.locator(".ba-plot canvas").first.wait_for()  # or a later one, where the page is slow
    page.evaluate(WATCH)
    expect(view.locator(".ba-badge")).to_have_text("succeeded")
    assert page.evaluate(SPREAD) <= MOST_MOVED_PX
    expect(view.locator(".ba-plot canvas")).to_have_count(4)
    page.locator(".ba-kept .ba-view").wait_for()  # the output is frozen, and the view stays beside it
    page.locator(".jp-RenderedImage img").wait_for(state="attached")
    assert page.evaluate("() => window.batchaiShift") <= MOST_SHIFT
    assert len(page.evaluate("() => [...window.batchaiHeights]")) == 1
    assert lab.errors == []


def test_the_question_before_a_cancellation_stays_and_a_job_that_saves_says_so_and_is_killed(
    page, open_job, world
):
    page.clock.install()
    deaf = "import signal, time\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)"
    open_job(world.submit("stubborn --grace 1h", f"{deaf}\nprint('up', flush=True)\ntime.sleep(1000)"))
    cancel, sure = (page.get_by_role("button", name=name) for name in ("Cancel job", "Yes, cancel it"))
    page.locator(".ba-row", has_text="up").wait_for()
    cancel.click()
    page.clock.run_for(30_000)
    expect(sure).to_be_visible()
    page.keyboard.press("Escape")
    expect(sure).to_be_hidden()
    cancel.click()
    sure.click()
    expect(page.locator(".ba-left")).to_have_text("saving, up to 60 min")
    page.get_by_role("button", name="Kill now").click()
    page.get_by_role("button", name="Yes, kill it").click()
    expect(page.locator(".ba-badge")).to_have_text("cancelled")


def test_a_queued_job_shows_what_it_waits_for_and_no_blank_log(open_job, backend):
    backend.job = resource(ExecutionState.QUEUED).with_waiting("first is using its nodes")
    view = open_job(Job(backend, JOB)).get_by_role("article", name="Job resnet")
    expect(view.locator(".ba-empty")).to_contain_text("first is using its nodes")
    expect(view.locator(".ba-log")).to_be_hidden()
    assert view.bounding_box()["height"] < 160
    backend.write("done\n")
    backend.finish()
    view.locator(".ba-row", has_text="done").first.wait_for()
    hint = view.locator(".ba-hint")
    expect(hint).to_contain_text("No metrics in the log.")
    assert hint.bounding_box()["height"] < 50
    assert view.locator(".ba-charts-part").bounding_box()["height"] < 60  # one line in place of charts
