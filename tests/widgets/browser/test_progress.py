"""How far jobs are, in their views and in the list of all jobs, and where their stderr stands."""

import re
from dataclasses import replace

import pytest
from playwright.sync_api import expect

from batchai_magics.widgets.hosts.opened_pages import open_jobs
from tests.widgets.scripted_cluster import EXPERIMENT, ExecutionState, ScriptedCluster, now

pytestmark = [pytest.mark.slow, pytest.mark.browser]

TQDM = "\rtrain:   0%|▏| {done}/100000 [00:0{done}<5:33:20, 5.00it/s]"
KERAS = "\r{step}/48 [===============>..............] - ETA: 9s - loss: 0.5"
# Each line is written once the one before it, on the other stream, has arrived.
BOTH = """
import os, sys, time
from pathlib import Path
def say(text, stream, name):
    print(text, file=stream, flush=True)
    path = Path(os.environ["AZ_BATCHAI_STDOUTERR_DIR"], name)
    while not (path.exists() and path.read_text().endswith(text + "\\n")):
        time.sleep(0.01)
for i in range(8):
    say(f"line {i}", sys.stdout, "stdout.txt")
    say(f"warning {i}", sys.stderr, "stderr.txt")
for percent in (10, 30, 50):
    print(f"\\rbar: {percent}%", end="", file=sys.stderr, flush=True)
time.sleep(1000)
"""


@pytest.fixture
def place(tmp_path):
    return ScriptedCluster(tmp_path)


@pytest.fixture
def listed(page, place):
    """The rows of a page that lists the jobs of the place, by name."""
    served = open_jobs(place, EXPERIMENT)
    page.goto(served.url)
    yield lambda name: page.locator("tr", has_text=name)
    served.close()


def view_of(page, name):
    """The view that a job's row leads to."""
    page.get_by_role("link", name=name, exact=True).click()
    return page.locator(".ba-view:visible")


def test_a_job_that_failed_on_its_way_says_how_far_it_came(page, place, listed):
    place.run("short")
    place.tell("short", "step 120/500\n")
    job = place.jobs["short"]
    ended = replace(job.execution, ended=now(), exit_code=3)
    place.jobs["short"] = replace(job, state=ExecutionState.FAILED, execution=ended)
    has_failed_on_its_way(listed("short"))
    has_failed_on_its_way(view_of(page, "short"))


def has_failed_on_its_way(element):
    bar = element.locator(".ba-progress[data-state=failed]").first
    expect(bar.locator(".ba-progress-left")).to_have_text("24 %")
    expect(bar).to_have_attribute("title", re.compile("failed at step 120/500$"))


def test_a_bar_on_stderr_and_the_time_that_is_left_go_on(page, place, listed):
    place.run("bar")
    stderr = place.folder / "bar" / "stderr.txt"
    stderr.write_text(TQDM.format(done=1))
    listed("bar").locator(".ba-progress-left", has_text=re.compile("^0 % · .* left")).wait_for()
    view = view_of(page, "bar")
    bar = view.get_by_role("progressbar", name="progress")
    expect(bar).to_have_attribute("aria-valuetext", re.compile(r"^train 1/100000, 0 % · .* left"))
    with stderr.open("a") as file:
        file.write(TQDM.format(done=5))
    expect(bar).to_have_attribute("aria-valuetext", re.compile(r"^train 5/100000, 0 % · .* left"))


def test_the_bar_of_an_epoch_counts_for_its_part_of_all(page, place, listed):
    place.run("epochs")
    for epoch in (1, 2):
        place.tell("epochs", f"Epoch {epoch}/4\n{KERAS.format(step=48)}\n")
    place.tell("epochs", f"Epoch 3/4\n{KERAS.format(step=24)}")
    listed("epochs").locator(".ba-progress-left", has_text=re.compile("^62 %")).wait_for()
    view = view_of(page, "epochs")
    view.locator(".ba-progress-left", has_text=re.compile("^62 %")).wait_for()
    expect(view.locator(".ba-progress-words")).to_have_text("epoch 3/4 · 24/48")


def test_lines_of_stdout_and_stderr_are_merged_in_order(open_job, world):
    page = open_job(world.submit("both", BOTH))
    page.locator(".ba-row", has_text="50%").wait_for()
    pairs = [text for i in range(8) for text in (f"line {i}", f"warning {i}")]
    expect(page.locator(".ba-row")).to_have_text([*pairs, "bar: 50%"])
    expect(page.locator(".ba-row.ba-of-stderr")).to_have_text([*pairs[1::2], "bar: 50%"])
    page.get_by_label("Search the log").fill("warning 5")
    page.locator(".ba-row.ba-current", has_text="warning 5").wait_for()
    page.get_by_role("tab", name="stdout").click()
    page.locator(".ba-row", has_text="line 7").wait_for()
    expect(page.locator(".ba-row", has_text="warning")).to_have_count(0)
