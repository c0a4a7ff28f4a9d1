"""Notebooks that were saved while their views were live, opened again when that kernel is no more."""

import json

import pytest

pytestmark = [pytest.mark.slow, pytest.mark.browser]

CELLS = (
    "%load_ext batchai_magics",
    "%batchai job show -n eight",
    "%batchai cluster show -n pair",
    "%batchai job list",
)
VIEW = "application/vnd.jupyter.widget-view+json"
STATE = "application/vnd.jupyter.widget-state+json"
SAVE_STATE = "@jupyter-widgets/jupyterlab-manager:saveWidgetState"
OUTPUTS = ".jp-CodeCell .jp-OutputArea-output"
COMPLAINTS = ("model not found", "Error displaying widget", "Loading widget", "Waiting for the first line")


@pytest.fixture(params=["without state", "with state"])
def saved(request, lab, eight_ranks):
    """The notebook's text, saved while all its views were live."""
    keeps_state = request.param == "with state"
    lab.open("live", *CELLS)
    if keeps_state:
        lab.command(SAVE_STATE)
    for index in range(len(CELLS)):
        lab.run(index)
    lab.page.locator(".ba-row").first.wait_for(state="attached")
    lab.page.locator(".ba-tile").first.wait_for(state="attached")
    lab.page.locator(".ba-table .ba-open").first.wait_for(state="attached")
    saved = lab.save()
    if keeps_state:
        lab.command(SAVE_STATE)
    assert all(VIEW in saved["cells"][index]["outputs"][0]["data"] for index in (1, 2, 3))
    assert (STATE in saved["metadata"].get("widgets", {})) == keeps_state
    lab.close()
    return saved


def test_a_notebook_saved_live_shows_cards_and_no_error_trusted_or_not(lab, saved):
    lab.open_file("live")
    # A page without time gives a model up before it has restored it, though the notebook has its state.
    view, none = lab.page.locator(".ba-view"), lab.page.get_by_text("model not found")
    left = view.or_(none) if STATE in saved["metadata"].get("widgets", {}) else none
    left.nth(2).wait_for(state="attached")
    shows_cards(lab.page)
    lab.close()
    # A signature that is not this server's: what it has not written itself, it does not trust.
    lab.open_file("foreign", {**saved, "metadata": {**saved["metadata"], "foreign": True}})
    shows_cards(lab.page)
    assert len(json.dumps(saved)) < 2_000_000


def shows_cards(page):
    page.wait_for_function(NOTHING_COMPLAINS, arg=[OUTPUTS, COMPLAINTS])
    for text in (
        "Show this job again: %batchai job show -n eight",
        "Show it again: %batchai cluster show -n pair",
    ):
        page.locator(OUTPUTS).get_by_text(text, exact=True).wait_for()
    page.locator(OUTPUTS).get_by_role("cell", name="eight").last.wait_for()


# In what is seen, whatever is in the page.
NOTHING_COMPLAINS = """([selector, complaints]) => {
  const shown = [...document.querySelectorAll(selector)].filter((output) => output.checkVisibility());
  const seen = shown.map((output) => output.innerText).join(' ');
  return !complaints.some((words) => seen.includes(words));
}"""
