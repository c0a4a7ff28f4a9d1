"""What each way to show gives, for jobs, clusters and lists, in a real kernel that no page looks at."""

import nbformat
import pytest
from nbclient import NotebookClient

from tests.patience import NOTEBOOK_TIMEOUTS, PATIENCE_S

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore::DeprecationWarning")]

START = (
    "%load_ext batchai_magics",
    "%%batchai_job tiny --nodes 1 --processes 1\nprint('hello')",
    "job.wait(); None",
)
SHOWN = ("%batchai job show -n tiny", "%batchai cluster show -n default", "%batchai job list")
# Nothing says hello here: what was live has become a picture by the end of the cell.
EXPECTED = {
    "auto": {"text/html", "text/plain"},  # widgets, in a kernel
    "html": {"text/html", "text/plain"},
    "text": {"text/plain"},
}
END = (
    "clusters = %batchai cluster show -n default\njobs = %batchai job list\n"
    "print(clusters.value.id.name, len(jobs), list(jobs.to_frame()['Name']))",
    "%reload_ext batchai_magics\nimport threading\n"
    "threads = [thread for thread in threading.enumerate() if thread.name.startswith('batchai-')]\n"
    f"print([thread.name for thread in threads if not thread.join({PATIENCE_S}) and thread.is_alive()])",
)


@pytest.fixture
def outputs(tmp_path, monkeypatch):
    """The outputs of each cell: the start, the views of each way to show, the end."""
    monkeypatch.setenv("BATCHAI_HOME", str(tmp_path / "home"))
    ways = ((f"%env BATCHAI_UI={ui}\n%reload_ext batchai_magics", *SHOWN) for ui in EXPECTED)
    sources = (*START, *(source for way in ways for source in way), *END)
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source) for source in sources])
    NotebookClient(notebook, **NOTEBOOK_TIMEOUTS).execute()
    return [cell.outputs for cell in notebook.cells]


def test_each_way_to_show_gives_its_own_kind_of_output(outputs):
    own = outputs[1][0]["data"]
    assert set(own) == EXPECTED["auto"]
    assert "[succeeded] tiny" in own["text/plain"]
    for number, kinds in enumerate(EXPECTED.values()):
        first = len(START) + number * (1 + len(SHOWN)) + 1
        job, cluster, jobs = (outputs[first + index][0]["data"] for index in range(3))
        assert [set(job), set(cluster), set(jobs)] == [kinds] * 3
        assert "[succeeded] tiny" in job["text/plain"]
        assert "1 node" in cluster["text/plain"] or "2 nodes" in cluster["text/plain"]
        assert "tiny" in jobs["text/plain"]
    printed, threads = (each[0]["text"] for each in outputs[-2:])
    assert printed == "default 1 ['tiny']\n"
    assert threads == "[]\n"  # none outlives %reload_ext
