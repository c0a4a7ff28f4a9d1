"""A JupyterLab of its own, and Chromium to look at it."""

from pathlib import Path

import pytest

from batchai_magics.widgets import bundle
from tests.world import world  # noqa: F401  # a fixture

from . import lab as jupyter


@pytest.fixture(scope="session")
def server(tmp_path_factory):
    """A running JupyterLab with settings and a root folder of its own."""
    if not (bundle.STATIC / "job_view.js").exists():
        pytest.skip("the front end has not been built")
    with jupyter.server(tmp_path_factory.mktemp("lab")) as running:
        yield running


@pytest.fixture(scope="session")
def chrome():
    """One Chromium for all tests."""
    path = next((path for path in jupyter.CHROMIUM if Path(path).exists()), None)
    if path is None:
        pytest.skip("no Chromium on this machine")
    with jupyter.chrome(path) as running:
        yield running


@pytest.fixture
def lab(server, chrome):
    """A page on the server; its kernels are shut down afterwards."""
    page = chrome.new_page(viewport={"width": 1300, "height": 1000})
    lab = jupyter.Lab(page, server)
    yield lab
    lab.shut_down()
    page.close()
