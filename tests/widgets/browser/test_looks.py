"""How the views look and can be used: narrow and wide, light and dark, by keyboard alone."""

import pytest
from playwright.sync_api import expect

from batchai_magics.jobs.job_handle import Job
from tests.widgets.axe import violations
from tests.widgets.scripted_job import JOB, train
from tests.world import until

pytestmark = [pytest.mark.slow, pytest.mark.browser]

SETUP = """
import math, random
from batchai_magics import widgets
from batchai_magics.jobs.job_handle import Job
from tests.widgets import scripted_cluster, scripted_job
from tests.widgets.scripted_job import FAILURE, JOB, ExecutionState, ScriptedBackend, step_line
scripted_job.START = scripted_cluster.now(95)
random.seed(1)
def backend(name, state, **how):
    made = ScriptedBackend(f"{folder}/{{name}}")
    made.job = scripted_job.resource(state, seconds=88, id=JOB.parent.child(JOB.kind, name), **how)
    return made
def train(made):
    made.write("\\x1b[33mW0301 12:00:08 allreduce: falling back to the ring algorithm\\x1b[0m\\n")
    for step in [1, *range(10, 400, 10)]:
        for rank in range(4):
            rate = (212 - 9 * rank) * (1 - math.exp(-step / 60)) + random.gauss(0, 250 / (step + 40))
            loss = 7.2 * math.exp(-step / 320) + 0.9 + random.gauss(0, 0.06)
            text = f"{{step}}\\timages/sec: {{rate:.1f}} +/- 1.0 (jitter = 2.0)\\t{{loss:.3f}}\\n"
            made.write(text, rank=rank)
S = ExecutionState
empty = backend("empty", S.RUNNING)
queued = backend("queued", S.QUEUED)
running = backend("running", S.RUNNING)
failed = backend("failed", S.RUNNING)
train(running)
train(failed)
text = "Traceback (most recent call last):\\n  File 'train.py', line 3\\nRuntimeError: NCCL is gone\\n"
failed.write(text, file="stderr.txt", rank=2)
failed.write("step 120/500\\n", rank=0)
N = scripted_cluster.NodeState
nodes = [*[N.RUNNING] * 4, *[N.IDLE] * 2, N.PREPARING, N.LEAVING, N.UNUSABLE]
world = scripted_cluster.ScriptedCluster("{folder}/cluster", nodes)
world.run("resnet50-baseline", S.SUCCEEDED, rates=[100, 300, 400], seconds=9000)
world.run("inception3-batch64", S.FAILED, rates=[90, 80], seconds=964000, exit_code=1)
world.run("resnet50-lr-warmup", S.RUNNING, rates=[100, 200, 300], seconds=45296)
world.run("sweep-1", S.QUEUED, seconds=99999)
"""
JOBS = ("empty", "queued", "running", "failed")
SHOWN = {
    **{name: f"widgets.show(Job({name}, {name}.job.id), ui='widget')" for name in JOBS},
    "cluster": "widgets.show_dashboard(world.cluster_subject)",
    "jobs": "widgets.show_dashboard(world.jobs_subject)",
}
# A view whose job has ended before the page was there is a card where the page takes long to come.
FAIL = "failed.job = scripted_job.resource(S.FAILED, seconds=88, id=failed.job.id, **FAILURE)"
NARROW = 504  # of the page: what is left of it for a view are 400 pixels
OVERFLOWING = """() => [...document.querySelectorAll('.ba-view, .ba-view .ba-scroller')]
  .filter((view) => view.scrollWidth > view.clientWidth + 1)
  .map((view) => view.getAttribute('aria-label'))"""
# What does not fit: words that are cut off, tabs and buttons out of sight.
LACKING = """(view) => [...view.querySelectorAll('.ba-problem, .ba-tabs, .ba-status, .ba-progress-words')]
  .filter((one) => one.checkVisibility())
  .filter((one) => one.scrollWidth > one.clientWidth + 1 || one.scrollHeight > one.clientHeight + 1
    || one.getBoundingClientRect().right > view.getBoundingClientRect().right)
  .map((one) => `${one.className}: ${one.textContent}`)"""
BACKGROUND = "(view) => getComputedStyle(view).backgroundColor"
NOTHING_MOVES = """() => !document.getAnimations().some((one) => one.effect.target.closest('.ba-view'))"""
# What a keyboard must reach, as it is seen; of a list of tabs one is reached by Tab, the others by arrows.
KINDS = ":is(button, input, select, summary, a[href], [tabindex])"
REACHABLE = """(kinds) => [...document.querySelectorAll('.ba-view ' + kinds)]
  .filter((one) => one.checkVisibility({ visibilityProperty: true }) && !one.disabled && one.tabIndex >= 0)
  .map((one) => one.outerHTML.slice(0, 120))"""
FOCUSED = """() => {
  const one = document.activeElement;
  const { outlineStyle, outlineWidth, boxShadow } = getComputedStyle(one);
  const isMarked = (outlineStyle !== 'none' && outlineWidth !== '0px') || boxShadow !== 'none';
  return { html: one.outerHTML.slice(0, 120), isInView: one.closest('.ba-view') !== null, isMarked };
}"""


def open_all(lab, folder, *names):
    lab.open("looks", SETUP.format(folder=folder), *(SHOWN[name] for name in names), FAIL)
    for index in range(len(names) + 1):
        lab.run(index)
    lab.page.locator(".ba-view").nth(len(names) - 1).wait_for()
    return {name: lab.page.locator(".ba-view").nth(index) for index, name in enumerate(names)}


def narrow(page):
    """Makes the page so narrow that a view has 400 pixels."""
    page.set_viewport_size({"width": NARROW, "height": 1400})
    page.wait_for_function("() => document.querySelector('.ba-view').clientWidth <= 400")


def test_every_view_fits_and_can_be_read_and_stands_still_when_asked_to(lab, tmp_path):
    views = open_all(lab, tmp_path, *SHOWN)
    page = lab.page
    page.locator(".ba-dashboard .ba-spark:not([hidden])").nth(1).wait_for()
    views["running"].locator(".ba-plot canvas").nth(1).wait_for()
    views["failed"].locator(".ba-row").first.wait_for()
    lab.run(len(views) + 1)
    views["failed"].locator(".ba-words", has_text="NCCL").wait_for()
    views["failed"].locator(".ba-progress", has_text="failed at step 120/500").wait_for()
    fits_and_has_no_violation(page)
    narrow(page)
    fits_and_has_no_violation(page)
    expect(views["failed"].locator(".ba-problem")).to_have_text(
        "Rank 2: exit code 1: RuntimeError: NCCL is gone"
    )
    until(lambda: views["failed"].evaluate(LACKING) == [])
    background = page.locator(".ba-view").first.evaluate(BACKGROUND)
    lab.theme("JupyterLab Dark")
    until(lambda: page.locator(".ba-view").first.evaluate(BACKGROUND) != background)
    has_no_violation(page, is_recoloured=True)
    use(views["failed"], views["cluster"])
    has_no_violation(page, is_recoloured=True)
    lab.theme("JupyterLab Light")
    has_no_violation(page)


def fits_and_has_no_violation(page):
    until(lambda: page.evaluate(OVERFLOWING) == [])
    has_no_violation(page)


def has_no_violation(page, **how):
    page.wait_for_function(NOTHING_MOVES)
    assert violations(page, ".ba-view", **how) == []


def use(job, cluster):
    """Searches a log and looks at files, hides a line, asks for other nodes."""
    job.get_by_role("tab", name="stdout").click()
    job.get_by_label("Search the log").fill("images")
    job.locator("mark").first.wait_for()
    job.locator(".ba-readout button").last.click()
    cluster.get_by_label("Number of nodes").fill("2")
    job.get_by_role("tab", name="Files").click()
    job.get_by_role("treeitem", name="stdout.txt").wait_for()


def test_a_keyboard_reaches_everything_and_shows_where_it_is(open_job, backend):
    train(backend)
    page = open_job(Job(backend, JOB))
    page.locator(".ba-plot canvas").nth(1).wait_for()
    page.locator(".ba-row").first.wait_for()
    page.get_by_role("tab", name="rank 3").wait_for()
    wanted = page.evaluate(REACHABLE, KINDS)
    page.locator(".ba-view button:visible").first.focus()
    for key in ("Tab", "Shift+Tab"):  # what a script reaches need not be marked
        page.keyboard.press(key)
    reached = []
    while (now := page.evaluate(FOCUSED))["isInView"] and len(reached) <= len(wanted):
        assert now["isMarked"], now["html"]
        reached.append(now["html"])
        page.keyboard.press("Tab")
    assert reached == wanted


def test_a_keyboard_reads_logs_and_cancels_a_job(open_job, backend):
    backend.write("the first line\n")
    train(backend)
    page = open_job(Job(backend, JOB))
    page.locator(".ba-row").first.wait_for()
    page.get_by_role("tab", name="rank 3").wait_for()
    focused = page.locator(":focus")
    page.get_by_role("tab", name="stdout").focus()
    page.keyboard.press("ArrowRight")
    expect(focused).to_have_attribute("aria-selected", "true")
    expect(focused).to_have_attribute("role", "tab")
    page.keyboard.press("ArrowLeft")
    page.get_by_role("log").focus()
    page.keyboard.press("Home")
    page.locator(".ba-row", has_text="the first line").wait_for()
    page.keyboard.press("End")
    page.locator(".ba-row", has_text="[1,3]<stdout>:400").wait_for()
    page.get_by_role("button", name="Cancel job").focus()
    page.keyboard.press("Enter")
    expect(focused).to_have_text("Keep running")
    page.keyboard.press("Space")
    expect(focused).to_have_text("Cancel job")
