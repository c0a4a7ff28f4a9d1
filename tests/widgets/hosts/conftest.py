"""A browser's page that fails its test if a script in it does."""

import pytest

from tests.patience import PATIENCE_S


@pytest.fixture
def page(chrome):
    opened = chrome.new_page(viewport={"width": 1300, "height": 1000})
    opened.set_default_timeout(1000 * PATIENCE_S)
    errors = []
    opened.on("pageerror", lambda error: errors.append(str(error)))
    yield opened
    opened.close()
    assert errors == []
