"""What each way to show gives, for jobs, clusters and lists, in a real kernel that no page looks at."""

import nbformat
import pytest
from nbclient import NotebookClient

from tests.patience import NOTEBOOK_TIMEOUTS, PATIENCE_S

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore::DeprecationWarning")]

CELLS = (
    "%load_ext batchai_magics",
    "%%batchai_job tiny --nodes 1 --processes 1\nprint('hello')",
    "job.wait(); None",
    "%batchai cluster show -n default",
    "%batchai job list",
    "clusters = %batchai cluster show -n default\njobs = %batchai job list\n"
    "print(clusters.value.id.name, len(jobs), list(jobs.to_frame()['Name']))",
    "%reload_ext batchai_magics\nimport threading\n"
    "threads = [thread for thread in threading.enumerate() if thread.name.startswith('batchai-')]\n"
    f"print([thread.name for thread in threads if not thread.join({PATIENCE_S}) and thread.is_alive()])",
)
# Nothing says hello here: what was live has become a picture by the end of the cell.
EXPECTED = {
    "auto": {"text/html", "text/plain"},  # widgets, in a kernel
    "html": {"text/html", "text/plain"},
    "text": {"text/plain"},
}


@pytest.mark.parametrize("ui", EXPECTED)
def test_each_way_to_show_gives_its_own_kind_of_output(tmp_path, monkeypatch, ui):
    job, cluster, jobs, (printed, threads) = executed(tmp_path, monkeypatch, ui)
    for first in (job[0], cluster[0], jobs[0]):
        assert set(first) == EXPECTED[ui]
    assert "[succeeded] tiny" in job[0]["text/plain"] or ui == "text"
    assert "1 node" in cluster[0]["text/plain"] or "2 nodes" in cluster[0]["text/plain"]
    assert "tiny" in jobs[0]["text/plain"]
    assert printed == "default 1 ['tiny']\n"
    assert threads == "[]\n"  # none outlives %reload_ext


def executed(tmp_path, monkeypatch, ui):
    """The outputs of the three views, and what the last two cells printed."""
    monkeypatch.setenv("BATCHAI_UI", ui)
    monkeypatch.setenv("BATCHAI_HOME", str(tmp_path / "home"))
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in CELLS])
    NotebookClient(notebook, **NOTEBOOK_TIMEOUTS).execute()
    shown = [[output["data"] for output in notebook.cells[i].outputs] for i in (1, 3, 4)]
    return *shown, [notebook.cells[i].outputs[0]["text"] for i in (5, 6)]
