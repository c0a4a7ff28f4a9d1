"""The notebook about reading logs, with a smaller training: jobs, a real mpiexec, the figure of scaling."""

import base64
import re
from io import BytesIO
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

from tests.patience import NOTEBOOK_TIMEOUTS

NOTEBOOK = Path(__file__).parents[2] / "notebooks" / "07_reading_logs.ipynb"
TRAINING = "--model small_resnet --batch_size 8 --num_batches 60"
SMALL_TRAINING = "--model trivial --batch_size 8 --num_batches 20"

pytestmark = pytest.mark.slow


@pytest.fixture
def executed(tmp_path):
    """The notebook's outputs by the id of their cell."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("BATCHAI_HOME", str(tmp_path))
        text = NOTEBOOK.read_text(encoding="utf-8")
        assert text.count(TRAINING) == 1
        notebook = nbformat.reads(text.replace(TRAINING, SMALL_TRAINING), as_version=4)
        client = NotebookClient(
            notebook, **NOTEBOOK_TIMEOUTS, resources={"metadata": {"path": str(NOTEBOOK.parent)}}
        )
        client.extra_arguments = ["--log-level=ERROR"]  # the kernel's warnings are not about the notebook
        client.execute()
    return {cell.id: cell.outputs for cell in notebook.cells if cell.cell_type == "code"}


def displayed(outputs, kind):
    return "".join(output.get("data", {}).get(kind, "") for output in outputs)


def test_logs_are_read_compared_and_drawn(executed):
    from matplotlib.image import imread

    assert displayed(executed["jobs"], "text/plain").count("succeeded") == 3
    summary = displayed(executed["summary"], "text/html")
    assert "trivial<" in summary
    assert "2: horovod/cpu:0, horovod/cpu:1" in summary
    assert "by node" in displayed(executed["job-summary"], "text/html")
    rows = displayed(executed["compare"], "text/html").split("<tr>")[1:]
    titles, *runs = (re.findall(r"<t[hd][^>]*>([^<]*)", row) for row in rows)
    losses = [cells[titles.index("loss")].partition(" ")[0] for cells in runs]
    assert len(losses) == 3
    assert len(set(losses)) == 1
    rows = displayed(executed["scaling"], "text/plain").splitlines()[1:4]
    assert [row.split()[:2] for row in rows] == [["trivial", count] for count in "124"]
    assert all(row.endswith("weak") for row in rows)
    picture = imread(BytesIO(base64.b64decode(displayed(executed["scaling"], "image/png"))))
    assert picture.shape[1] > 600
