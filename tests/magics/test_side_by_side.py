"""`%batchai compare`, `%batchai scaling` and `%batchai metrics plot` in a kernel: what the notebook shows."""

import nbformat
import pytest
from nbclient import NotebookClient

from tests.patience import NOTEBOOK_TIMEOUTS, PATIENCE_S

LOG = (
    "Model:       lenet\nBatch size:  {images} global\n             8 per device\nDevices:     {devices}\n"
    "==========\n1\timages/sec: 50.0 +/- 0.5 (jitter = 1.0)\t2.500\n10\timages/sec: 50.0 +/- 0.5"
    " (jitter = 1.0)\t2.000\n"
)
CELLS = {
    "load": "%load_ext batchai_magics",
    "compare": "runs = %batchai compare ./1.log ./2.log\nruns",
    "scaling": "%batchai scaling ./1.log ./2.log",
    "kept": "runs.frame()['images_per_sec'].tolist()",
    "plot": "%batchai metrics plot 2.log",
    "text": "%batchai scaling ./1.log ./2.log -o table",
    "query": "%batchai scaling ./1.log ./2.log --query [].speedup",
}

pytestmark = pytest.mark.slow


@pytest.fixture
def outputs(tmp_path):
    """The outputs of CELLS by name, each as its data."""
    for ranks in (1, 2):
        devices = [f"horovod/cpu:{rank}" for rank in range(ranks)]
        (tmp_path / f"{ranks}.log").write_text(LOG.format(images=8 * ranks, devices=devices))
    cells = [nbformat.v4.new_code_cell(source, id=name) for name, source in CELLS.items()]
    notebook = nbformat.v4.new_notebook(cells=cells)
    client = NotebookClient(notebook, **NOTEBOOK_TIMEOUTS, resources={"metadata": {"path": str(tmp_path)}})
    client.extra_arguments = ["--log-level=ERROR"]  # the kernel's warnings are not about the cells
    client.execute()
    return {cell.id: [output["data"] for output in cell.outputs] for cell in notebook.cells}


def test_runs_side_by_side_show_a_table_and_below_it_the_chart_or_text_and_data_on_request(outputs):
    for name in ("compare", "scaling"):
        table, chart = outputs[name]
        assert "lenet" in table["text/html"]
        assert "image/png" in chart
    assert outputs["kept"][0]["text/plain"] == "[50.0, 100.0]"
    (picture,) = outputs["plot"]
    assert "image/png" in picture
    assert outputs["text"][0]["text/plain"].startswith("model")
    assert outputs["query"][0]["text/plain"] == "[1.0, 2.0]"


RUNNING = """%%batchai_job {name} --nodes 1 --processes 1
import time
from pathlib import Path
print("10\\timages/sec: 50.0 +/- 0.5 (jitter = 1.0)\\t2.000", flush=True)
while not Path("{flag}").exists():
    time.sleep(0.05)
print("20\\timages/sec: 50.0 +/- 0.5 (jitter = 1.0)\\t1.250", flush=True)
"""
LIVE = {"auto": [{"text/html", "text/plain"}, {"image/png", "text/plain"}], "text": [{"text/plain"}]}


def test_jobs_that_run_are_followed_to_the_final_table_without_any_page(tmp_path, monkeypatch):
    monkeypatch.setenv("BATCHAI_HOME", str(tmp_path / "home"))
    (tmp_path / "1.log").write_text(LOG.format(images=8, devices=["horovod/cpu:0"]))
    settle = f"from batchai_magics import widgets\nwidgets.freeze_ended(timeout_s={PATIENCE_S})"
    sources = ["%load_ext batchai_magics\nfrom pathlib import Path"]
    for ui in LIVE:
        flag = tmp_path / ui
        sources += [
            f"%env BATCHAI_UI={ui}\n%reload_ext batchai_magics",
            RUNNING.format(name=ui, flag=flag),
            f"%batchai compare {ui} ./1.log",
            f"Path({str(flag)!r}).touch()\njob.wait()\n{settle}",
        ]
    cells = [nbformat.v4.new_code_cell(source) for source in sources]
    notebook = nbformat.v4.new_notebook(cells=cells)
    NotebookClient(notebook, **NOTEBOOK_TIMEOUTS, resources={"metadata": {"path": str(tmp_path)}}).execute()
    for number, kinds in enumerate(LIVE.values()):
        outputs = [output["data"] for output in notebook.cells[3 + 4 * number].outputs]
        assert [set(data) for data in outputs] == kinds
        assert "1.25" in outputs[0]["text/plain"]
        assert "running" not in outputs[0]["text/plain"]
