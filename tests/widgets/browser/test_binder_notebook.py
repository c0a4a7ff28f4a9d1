"""The notebook that Binder opens: a replay first, then a job with two ranks."""

import shutil
from pathlib import Path

import nbformat
import pytest
from playwright.sync_api import expect

from tests.patience import PATIENCE_S
from tests.widgets import lab as jupyter
from tests.widgets.lab import Lab

ROOT = Path(__file__).parents[2]
CELLS = nbformat.read(ROOT / "binder/start.ipynb", as_version=4).cells
PLACES = {cell.id: index for index, cell in enumerate(CELLS)}

pytestmark = [pytest.mark.slow, pytest.mark.browser]


@pytest.fixture
def page(tmp_path_factory, chrome):
    """The notebook in a JupyterLab whose files are those of a clone."""
    folder = tmp_path_factory.mktemp("binder")
    shutil.copytree(ROOT / "docs/recordings", folder / "docs/recordings")
    with jupyter.server(folder) as server:
        shutil.copy(ROOT / "binder/start.ipynb", server.root)
        lab = Lab(chrome.new_page(), server)
        lab.open_file("start")
        yield lab
        lab.close()


def test_its_first_cell_replays_a_job_and_then_one_with_two_ranks_runs_live(page):
    page.run(PLACES["replay"])
    replay = page.page.frame_locator("iframe[src*='replay.html']")
    for state in ("running", "succeeded"):
        expect(replay.locator(".ba-view").first).to_contain_text(state, timeout=1000 * PATIENCE_S)
    for name in ("load", "job", "result", "plot"):
        page.run(PLACES[name])
    job = page.page.locator(".jp-CodeCell .ba-view").first
    expect(job).to_contain_text("2 nodes × 1 process")
    expect(job).to_contain_text("succeeded")
    result = page.page.locator(".jp-Cell").nth(PLACES["result"])
    expect(result).to_contain_text("array([ 2., -1.])")
    page.page.locator(".jp-Cell").nth(PLACES["plot"]).locator("img").wait_for()
