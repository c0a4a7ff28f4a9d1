"""Real jobs seen in a real browser: whatever happens to page and kernel, no line is lost."""

import os
import re

import psutil
import pytest
from playwright.sync_api import expect

from tests.widgets import lab as jupyter
from tests.widgets.log_reader import missing
from tests.widgets.notebook_jobs import NotebookJob
from tests.world import until

pytestmark = [pytest.mark.slow, pytest.mark.browser]

LOAD = "%load_ext batchai_magics"
SHOW = "%batchai job show -n eight"
PROCESS = "import os; print(os.getpid())"
THREADS = """
import threading
print(sorted(thread.name for thread in threading.enumerate() if thread.name.startswith("batchai-")))
"""
# Opening a pipe waits for its other end; called so, it lets no other thread of the kernel run meanwhile, nor
# between the two: once the first is open at both ends, the kernel hears nothing.
DEAF = """
import ctypes, os, sys
open_pipe, interval_s = ctypes.PyDLL(None).open, sys.getswitchinterval()
sys.setswitchinterval(3600)
open_pipe(b"{first}", os.O_RDONLY)
open_pipe(b"{last}", os.O_RDONLY)
sys.setswitchinterval(interval_s)
"""


def show(lab, name, *cells):
    """Opens a notebook that shows the job of eight processes, and waits until it is seen running."""
    lab.open(name, LOAD, SHOW, *cells)
    lab.run(0)
    lab.run(1)
    is_running(lab.page)


def is_running(page):
    page.locator(".ba-badge", has_text="running").wait_for()
    page.locator(".ba-row", has_text="line").first.wait_for()


def has_every_line(page, job):
    """Whether the view has all that the log has by now, and goes on."""
    job.waits_for(job.log.stat().st_size)
    assert missing(page, job.log) == {}


def test_a_view_that_is_opened_late_or_loaded_again_has_every_line(lab, eight_ranks):
    show(lab, "late")
    page = lab.page
    page.get_by_role("img", name="Nodes: 2 running").wait_for()
    page.locator(".ba-facts", has_text="2 nodes × 4 processes").wait_for()
    rates = page.get_by_role("group", name="images/sec", exact=True)
    rates.get_by_role("button", name=re.compile("ranks 100.*–107")).wait_for()
    for rank in range(8):
        page.get_by_role("tab", name=f"rank {rank}").wait_for()
    has_every_line(page, eight_ranks)
    lab.save()
    lab.reload_views()
    is_running(page)
    has_every_line(page, eight_ranks)
    page.get_by_role("img", name="images/sec at step").wait_for()
    assert lab.errors == []


def test_a_notebook_loaded_again_after_its_job_has_ended_is_saved_with_the_end(lab, real_world):
    job = NotebookJob(real_world, "away", "--nodes 1 --processes 1")
    lab.open("away", LOAD, "%batchai job show -n away")
    lab.run(0)
    lab.run(1)
    is_running(lab.page)
    assert "[running] away" in texts_of(lab.save())
    lab.page.goto("about:blank")
    job.end()
    lab.reload_views()
    lab.page.locator(".ba-badge", has_text="succeeded").wait_for()
    until(lambda: "[succeeded] away" in texts_of(lab.save()))
    assert "[running]" not in texts_of(lab.save())
    lab.page.locator(".ba-row", has_text="is done").wait_for()  # the view stays beside what replaces it
    lab.restart_kernel()
    lab.page.locator(".ba-view").wait_for(state="detached")
    lab.page.get_by_text("Show this job again: %batchai job show -n away", exact=True).wait_for()
    assert lab.errors == []


def test_lists_and_comparisons_loaded_again_after_their_jobs_have_ended_are_saved_with_the_end(
    lab, real_world
):
    jobs = [NotebookJob(real_world, name, "--nodes 1 --processes 1") for name in ("left", "right")]
    lab.open("listed", LOAD, "%batchai compare left right", "%batchai job list")
    for index in range(3):
        lab.run(index)

    def running(index):
        return re.findall(r"\b(?:left|right):?\s+running", texts_of(lab.save(), index))

    for index in (1, 2):
        until(lambda index=index: len(running(index)) == 2)
    lab.page.goto("about:blank")
    for job in jobs:
        job.end()
    lab.reload_views()
    for index in (1, 2):
        until(lambda index=index: running(index) == [])
        assert "left" in texts_of(lab.save(), index)
    assert lab.errors == []


def texts_of(notebook, index=1):
    """What the outputs of a cell say as text."""
    return "".join("".join(each["data"]["text/plain"]) for each in notebook["cells"][index]["outputs"])


def test_after_a_kernel_restart_the_copied_command_shows_the_job_again(lab, eight_ranks):
    show(lab, "restart", PROCESS, THREADS)
    lab.run(2)
    process = int(lab.text(2))
    lab.page.get_by_role("button", name='Copy "show" command').click()
    lab.page.get_by_text("copied", exact=True).wait_for()
    copied = lab.page.evaluate("() => navigator.clipboard.readText()")
    lab.restart_kernel()
    lab.page.get_by_text("Run the cell to see the job again.").wait_for()
    for name in ("Cancel job", "Stop watching (job keeps running)"):
        expect(lab.page.get_by_role("button", name=name)).to_be_disabled()
    until(lambda: not psutil.pid_exists(process))
    lab.write(1, copied)
    for index in (0, 1):
        lab.run(index)
    is_running(lab.page)
    has_every_line(lab.page, eight_ranks)
    until(lambda: threads(lab) == "['batchai-publisher', 'batchai-reader']")
    assert not eight_ranks.job.is_done


def threads(lab):
    lab.run(3)
    return lab.text(3)


def test_a_kernel_that_cannot_hear_is_told_of_and_nothing_is_lost(lab, real_world, tmp_path):
    job = NotebookJob(real_world, "busy", "--nodes 1 --processes 1")
    first, last = pipes = tmp_path / "first", tmp_path / "last"
    for pipe in pipes:
        os.mkfifo(pipe)
    deaf = DEAF.format(first=first, last=last)
    lab.open("deaf", "%env BATCHAI_UI=widget\n" + LOAD, "%batchai job show -n busy", deaf)
    lab.run(0)
    lab.run(1)
    page = lab.page
    is_running(page)
    lab.run(2, wait=False)
    os.close(os.open(first, os.O_WRONLY))
    jupyter.confirm(page, "Cancel job", "Yes, cancel it")
    note = page.locator(".ba-note", has_text="busy")
    note.wait_for()
    expect(note).to_contain_text("nterrupt")  # what to press
    job.waits_for(job.log.stat().st_size)
    os.close(os.open(last, os.O_WRONLY))
    page.locator(".ba-badge", has_text="cancelled").wait_for()
    note.wait_for(state="detached")
    page.get_by_role("tab", name="stdout", exact=True).click()
    assert missing(page, job.log) == {}
    assert job.job.is_done


WHOLE = """
import time
from pathlib import Path
from batchai_magics import log, save
Path("notes.txt").write_text("kept")
save("notes.txt")
for step in range(5):
    log(step=step, loss=1 / (1 + step))
while not Path("{flag}").exists():
    time.sleep(0.1)
"""
PARTS = """view => [...view.querySelectorAll("[role=tab], [role=group], [role=region], button, summary, dt")]
    .map((part) => part.getAttribute("aria-label") || part.textContent)"""
OF_A_RUNNING_JOB = ("Cancel", "Stop watching", "Notify")


LAST_POINT = re.compile(r"^loss at step 4, mean 0\.200, .*r1 0\.200")


def open_parts(view):
    """Opens a view's files and its record, once it has its log, the values of both ranks and their usage."""
    view.get_by_role("tab").first.click()  # a view opens on the tab that the one before was left on
    view.locator(".ba-row", has_text="log() record").first.wait_for()
    view.get_by_role("img", name=LAST_POINT).wait_for()
    for name, text in (("Files", "stdouterr/"), ("Record", "submitted")):
        view.get_by_role("tab", name=name).click()
        view.get_by_text(text).first.wait_for()
    view.get_by_text("resource use").first.wait_for()


def parts_of(view):
    """The names of all that a view consists of."""
    names = {re.sub(r"[\d.]+ ?[%MGk]?B?|records?, step .*", "0", name) for name in view.evaluate(PARTS)}
    return {name for name in names if not name.startswith(OF_A_RUNNING_JOB)}


LEFT = """
for step in range(1, 30):
    print(f"step {step} loss: {3 / step:.4f} acc: {1 - 1 / step:.3f} lr: {0.1 / step:.4f}", flush=True)
for number in range(10_000):
    print(f"line {number:06} of much output")
"""


def shown_charts(view):
    return view.locator(".ba-chart").evaluate_all("(all) => all.map((one) => one.getAttribute('aria-label'))")


def test_an_ended_run_is_shown_again_as_it_was_left_and_read_from_its_first_line(open_job, world):
    job = world.run("left", LEFT)
    view = open_job(job).locator(".ba-view")
    view.locator(".ba-badge", has_text="succeeded").wait_for()
    view.get_by_role("button", name="loss", exact=True).click()
    view.get_by_role("tab", name="Record").click()
    left = until(lambda: (shown := shown_charts(view)) and "loss" not in shown and shown)
    page = view.page
    page.reload()
    view.locator(".ba-badge", has_text="succeeded").wait_for()
    expect(view.get_by_role("tab", name="Record")).to_have_attribute("aria-selected", "true")
    until(lambda: shown_charts(view) == left)
    view.get_by_role("tab", name="stdout", exact=True).click()
    view.locator(".ba-row", has_text="line 009999").wait_for()
    log = next(world.home.glob("shares/**/jobs/left/*/stdouterr/stdout.txt"))
    assert missing(page, log) == {}


def test_the_view_of_a_finished_run_has_all_that_the_live_view_had(open_job, recording_world, tmp_path):
    flag = tmp_path / "flag"
    job = recording_world.submit("whole --nodes 2 --processes 2 --tag kept", WHOLE.format(flag=flag))
    view = open_job(job).locator(".ba-view")
    open_parts(view)
    live = parts_of(view)
    flag.touch()
    view.locator(".ba-badge", has_text="succeeded").wait_for()
    view = open_job(job).locator(".ba-view")  # of a server that has seen nothing of its run
    view.locator(".ba-badge", has_text="succeeded").wait_for()
    open_parts(view)
    until(lambda: live - parts_of(view) == set())
