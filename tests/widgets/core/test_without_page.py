"""A notebook that no page shows: nbclient runs it, nothing says hello."""

import nbformat
import pytest
from nbclient import NotebookClient

from tests.patience import NOTEBOOK_TIMEOUTS, PATIENCE_S
from tests.widgets.job.test_live_view import SETUP, SHOW, TRAIN

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore::DeprecationWarning")]


def test_the_card_is_in_the_executed_notebook(tmp_path):
    ends = f"backend.finish()\nwidgets.freeze_ended(timeout_s={PATIENCE_S})"
    cells = [SETUP.format(folder=tmp_path / "job"), SHOW, TRAIN + ends]
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])
    NotebookClient(notebook, **NOTEBOOK_TIMEOUTS).execute()
    card, chart = (output["data"] for output in notebook.cells[1].outputs)
    assert set(card) == {"text/html", "text/plain"}
    assert "[succeeded] resnet" in card["text/plain"]
    assert set(chart) == {"image/png", "text/plain"}
