"""A running job's progress and what it does before it prints, in a real page, with real jobs."""

import contextlib
import re

import pytest
from playwright.sync_api import expect

from batchai_magics.errors import NotFoundError
from batchai_magics.jobs.job_handle import Job

pytestmark = [pytest.mark.slow, pytest.mark.browser]

START = "import os; os.environ['BATCHAI_UI'] = 'widget'\n%load_ext batchai_magics"
BAR = """%%batchai_job bar
import time
from tqdm import tqdm
for step in tqdm(range(100_000), desc="train", mininterval=0.05):
    time.sleep(0.05)
"""
# Each line is written once the one before it, on the other stream, has arrived.
BOTH = """%%batchai_job both
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
EPOCHS = """%%batchai_job epochs
import time
for epoch in range(1, 5):
    print(f"Epoch {epoch}/4", flush=True)
    for step in range(1, 49):
        bar = "=" * (step * 30 // 48) + ">"
        print(f"\\r{step}/48 [{bar:.<30}] - ETA: 9s - loss: 0.5", end="", flush=True)
        time.sleep(1000 if (epoch, step) == (3, 24) else 0.001)
    print()
"""
SHORT = """%%batchai_job short
print("step 120/500")
raise SystemExit(3)
"""
NAMES = ("short", "bar", "both", "epochs")


@pytest.fixture(autouse=True)
def end_jobs(real_world):
    """No job of a test runs on behind it."""
    yield
    for name in NAMES:
        with contextlib.suppress(NotFoundError):
            Job(real_world.backend, real_world.job_id(name)).delete()


def test_how_far_each_job_is_stands_in_its_view_and_in_a_list_from_before(lab):
    lab.open("progress", START, "%batchai job list", SHORT, BAR, EPOCHS)
    lab.run(0)
    lab.run(1)
    for index, check in ((2, failed_on_its_way), (3, counts_on_stderr), (4, counts_epochs)):
        lab.run(index)
        cell = lab.page.locator(".jp-CodeCell").nth(index)
        name = ("short", "bar", "epochs")[index - 2]
        check(cell.locator(".ba-view"), lab.page.locator(".ba-dashboard tr", has_text=name))
    lab.page.locator(".jp-OutputArea td", has_text="failed at step 120/500, 24 %").first.wait_for(
        state="attached"  # of the card and the list that are saved
    )
    assert lab.errors == []


def failed_on_its_way(view, listed):
    bars = [place.locator(".ba-progress[data-state=failed]").first for place in (view, listed)]
    for bar in bars:
        expect(bar.locator(".ba-progress-left")).to_have_text("24 %")
        expect(bar).to_have_attribute("title", re.compile("failed at step 120/500$"))
    bars[0].get_by_text("failed at step 120/500").wait_for()
    bars[1].get_by_text("rank 0").wait_for()  # in the list, why it failed


def counts_on_stderr(view, listed):
    view.get_by_role("tab", name="output", selected=True).wait_for()
    view.locator(".ba-row.ba-of-stderr", has_text=re.compile(r"train: +\d+%\|.* \d+/100000 \[")).wait_for()
    bar = view.get_by_role("progressbar", name="progress")
    expect(bar).to_have_attribute("aria-valuetext", re.compile(r"^train \d+/100000, 0 % · .* left"))
    first = bar.get_attribute("aria-valuetext")
    expect(bar).not_to_have_attribute("aria-valuetext", first)
    listed.locator(".ba-progress-left", has_text=re.compile("^0 % · .* left")).wait_for()


def counts_epochs(view, listed):
    """The bar of an epoch counts for its part of all."""
    view.locator(".ba-progress-left", has_text=re.compile("^62 %")).wait_for()
    expect(view.locator(".ba-progress-words")).to_have_text("epoch 3/4 · 24/48")
    listed.locator(".ba-progress-left", has_text=re.compile("^62 %")).wait_for()


def test_stderr_stands_between_the_lines_of_stdout_where_it_was_written(lab):
    lab.open("progress", START, BOTH)
    lab.run(0)
    lab.run(1)
    page = lab.page
    page.locator(".ba-row", has_text="50%").wait_for()
    pairs = [text for i in range(8) for text in (f"line {i}", f"warning {i}")]
    expect(page.locator(".ba-row")).to_have_text([*pairs, "bar: 50%"])
    expect(page.locator(".ba-row.ba-of-stderr")).to_have_text([*pairs[1::2], "bar: 50%"])
    page.get_by_label("Search the log").fill("warning 5")
    page.locator(".ba-row.ba-current", has_text="warning 5").wait_for()
    page.get_by_role("tab", name="stdout").click()
    page.locator(".ba-row", has_text="line 7").wait_for()
    expect(page.locator(".ba-row", has_text="warning")).to_have_count(0)
    assert lab.errors == []
