"""The notebook that Binder opens: a replay first, then a job with two ranks."""

import shutil
from pathlib import Path

import nbformat
import pytest
from playwright.sync_api import expect

ROOT = Path(__file__).parents[3]
CELLS = nbformat.read(ROOT / "binder/start.ipynb", as_version=4).cells
TO_THE_END = "slider => { slider.value = slider.max; slider.dispatchEvent(new Event('input')); }"
PLACES = {cell.id: index for index, cell in enumerate(CELLS)}

pytestmark = [pytest.mark.slow, pytest.mark.browser]


def test_notebook_replays_a_job_and_then_runs_a_live_one(lab):
    """In a folder beside the recordings, as in a clone."""
    lab.page.emulate_media(reduced_motion="no-preference")  # else a replay waits to be started
    shutil.copytree(ROOT / "docs/recordings", lab.root.parent / "docs/recordings")
    shutil.copy(ROOT / "binder/start.ipynb", lab.root)
    lab.open_file("start")
    lab.run(PLACES["replay"])
    replay = lab.page.frame_locator("iframe[src*='replay.html']")
    view = replay.locator(".ba-view").first
    expect(view).to_contain_text("running")
    replay.locator(".ba-scrubber").evaluate(TO_THE_END)
    expect(view).to_contain_text("succeeded")
    for name in ("load", "job", "result", "plot"):
        lab.run(PLACES[name])
    job = lab.page.locator(".jp-CodeCell .ba-view").first
    expect(job).to_contain_text("2 nodes × 1 process")
    expect(job).to_contain_text("succeeded")
    result = lab.page.locator(".jp-Cell").nth(PLACES["result"])
    expect(result).to_contain_text("array([ 2., -1.])")
    lab.page.locator(".jp-Cell").nth(PLACES["plot"]).locator("img").wait_for()
