"""A JupyterLab of its own, pages without one, and Chromium to look at them."""

from dataclasses import replace

import pytest

from batchai_magics.config import Settings
from batchai_magics.widgets.core import pages
from batchai_magics.widgets.core.flow_control import Budget
from batchai_magics.widgets.core.publisher import Publisher
from tests.clock import Clock
from tests.patience import PATIENCE_S
from tests.widgets import lab as jupyter
from tests.widgets import notebook_jobs
from tests.widgets.scripted_job import ScriptedBackend
from tests.world import world  # noqa: F401  # a fixture

VIEWPORT = {"width": 1300, "height": 1000}


@pytest.fixture(scope="session")
def server(tmp_path_factory):
    """A running JupyterLab with settings and a root folder of its own."""
    if not (pages.STATIC / "job_view.js").exists():
        pytest.skip("the front end has not been built")
    with jupyter.server(tmp_path_factory.mktemp("lab")) as running:
        yield running


@pytest.fixture(scope="session")
def tab(server, chrome):
    """One page for all tests: to load JupyterLab takes longer than most of them."""
    context = chrome.new_context(viewport=VIEWPORT, permissions=["clipboard-read", "clipboard-write"])
    return jupyter.Lab(context.new_page(), server)


@pytest.fixture
def lab(tab):
    """The page as a test finds it: no notebook open, no kernel running, the mouse away, nothing that pulses.

    Each picture of a movement has to be drawn, which takes a good part of the time of many tests.
    """
    yield reset(tab)
    tab.close()


@pytest.fixture(scope="module")
def module_lab(tab):
    """The page for the one notebook of a module, whose tests look at different things; none uses `lab`."""
    yield reset(tab)
    tab.close()


def reset(tab):
    tab.page.set_viewport_size(VIEWPORT)
    tab.page.emulate_media(reduced_motion="reduce")
    tab.page.mouse.move(1, 1)
    tab.page.evaluate("() => location.protocol === 'http:' && localStorage.removeItem('batchai-views')")
    return tab


@pytest.fixture
def notebook_7(server, chrome):
    """A page of Notebook 7."""
    page = chrome.new_page(viewport=VIEWPORT)
    notebook = jupyter.Notebook7(page, server)
    yield notebook
    page.close()
    notebook.shut_down()


@pytest.fixture
def page(chrome):
    """A page without JupyterLab, which fails its test if a script in it does; nothing in it pulses."""
    opened = chrome.new_page(viewport=VIEWPORT, reduced_motion="reduce")
    opened.set_default_timeout(1000 * PATIENCE_S)
    errors = []
    opened.on("pageerror", lambda error: errors.append(str(error)))
    yield opened
    opened.close()
    assert errors == []


@pytest.fixture
def open_job(page):
    """Opens the page of a job: the view that a cell shows, without a kernel."""
    served = []

    def opened(job):
        served.append(job.open(browser=False))
        page.goto(served[-1].url)
        return page

    yield opened
    for each in served:
        each.close()


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def budget(clock):
    return Budget(clock)


@pytest.fixture
def publisher(clock, budget):
    return Publisher(clock=clock, budget=budget)


@pytest.fixture
def backend(tmp_path):
    """A job whose states and log a test writes."""
    return ScriptedBackend(tmp_path / "job")


@pytest.fixture
def recording_world(world, tmp_path, monkeypatch):  # noqa: F811  # the fixture
    """A local backend whose jobs keep a record of what ran; they come from a folder that is no checkout."""
    monkeypatch.chdir(tmp_path)
    world.settings = replace(world.settings, provenance=Settings().provenance)
    return world


@pytest.fixture(scope="session")
def real_world(server):
    """The backend that the notebooks use, for jobs that start before any of them."""
    with notebook_jobs.world_of(server) as made:
        yield made


@pytest.fixture(scope="session")
def eight_ranks(real_world):
    """A job of eight processes on two nodes that runs as long as there are tests, writing a little."""
    cluster = notebook_jobs.pair_of_nodes(real_world, "pair")
    job = notebook_jobs.NotebookJob(real_world, "eight", f"--cluster {cluster} --nodes 2 --processes 8")
    yield job
    job.end()
