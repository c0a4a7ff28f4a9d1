"""The notebooks of old tutorials do what they say: they are run from top to bottom, and really train.

Two of them here, two at a server on this machine.
"""

import contextlib
import os
import re
from collections.abc import Iterator
from pathlib import Path

import nbformat
import numpy as np
import pytest
from nbclient import NotebookClient

from batchai_magics.backends.local.backend import LocalBackend
from batchai_magics.backends.local.settings import LocalSettings
from batchai_magics.metrics import read_metrics
from tests.metrics.log_text import step_lines
from tests.patience import NOTEBOOK_TIMEOUTS
from tests.server.process import started
from tests.world import processes_of, until

NOTEBOOKS = Path(__file__).parents[2] / "notebooks"

pytestmark = [pytest.mark.slow]


class Tutorial:
    """A notebook that has been run in a home and a folder of its own."""

    def __init__(self, name: str, place: Path, settings: dict[str, str]) -> None:
        self.home, self.folder, self._settings = place / "home", place, settings
        notebook = _with_its_end(nbformat.read(NOTEBOOKS / name, as_version=4))
        client = NotebookClient(notebook, **NOTEBOOK_TIMEOUTS, resources={"metadata": {"path": str(place)}})
        client.extra_arguments = ["--log-level=ERROR"]
        client.execute(env=self._environment())
        self._cells = {cell.id: cell for cell in notebook.cells}

    def _environment(self) -> dict[str, str]:
        own = {"BATCHAI_CONFIG": str(self.folder / "none.yaml"), **self._settings}
        inherited = {name: value for name, value in os.environ.items() if not name.startswith("BATCHAI_")}
        return {**inherited, **own, "TMPDIR": str(self.folder)}

    def text(self, cell: str) -> str:
        """What a cell printed, and what it gave."""
        outputs = self._cells[cell].outputs
        printed = [output.text for output in outputs if output.get("name") == "stdout"]
        given = [output.data.get("text/plain", "") for output in outputs if "data" in output]
        return "\n".join(["".join(printed), *given])

    def has_picture(self, cell: str) -> bool:
        """Whether a cell drew something."""
        return any("image/png" in output.get("data", {}) for output in self._cells[cell].outputs)

    def numbers(self, cell: str, pattern: str) -> list[float]:
        """The numbers that a pattern finds in what a cell left, in their order."""
        return [float(found) for found in re.findall(pattern, self.text(cell))]

    def file(self, name: str) -> Path:
        """A file in the folder that the notebook made for itself."""
        (found,) = self.folder.glob(f"*-*/{name}")
        return found

    def groups_left(self) -> list[str]:
        """The resource groups that are still there, once no process works for the home any more."""
        until(lambda: not processes_of(self.home))
        backend = LocalBackend(LocalSettings(home=self.home))
        groups = [group.name for group in backend.groups.list()]
        backend.close()
        return groups


def _with_its_end(notebook: nbformat.NotebookNode) -> nbformat.NotebookNode:
    """The notebook, with the lines that its last text shows for whoever wants to remove everything."""
    last = notebook.cells[-1]
    shown = re.search(r"```text\n(.*?)\n```", last.source, re.DOTALL) if last.id == "end-text" else None
    if shown:
        notebook.cells.append(nbformat.v4.new_code_cell(shown[1], id="end"))
    return notebook


@contextlib.contextmanager
def settings_of(backend: str, place: Path) -> Iterator[dict[str, str]]:
    """The settings of a notebook: jobs on this machine, or at a server that has a home of its own."""
    if backend == "local":
        yield {"BATCHAI_HOME": str(place / "home")}
        return
    with started(place / "home", BATCHAI_CONFIG=str(place / "none.yaml"), BATCHAI_IDLE_S="3") as server:
        there = {"BATCHAI_BACKEND": "arm", "BATCHAI_ENDPOINT": server.url, "BATCHAI_TOKEN": server.token}
        yield {**there, "BATCHAI_HOME": str(place / "nothing-is-here")}


def tutorial(name: str, backend: str, folder: Path) -> Tutorial:
    """A notebook after its run."""
    with settings_of(backend, folder) as settings:
        made = Tutorial(name, folder, settings)
    assert not (folder / "nothing-is-here").exists()
    return made


def counts(text):
    """The node-state counts in what `--query nodeStateCounts` shows."""
    return {state: int(count) for state, count in re.findall(r"'(\w+)NodeCount': (\d+)", text)}


def test_the_benchmark_trains_on_four_processes_of_two_prepared_nodes(tmp_path):
    horovod = tutorial("batch_ai/01_horovod_benchmark.ipynb", "local", tmp_path)
    metrics = read_metrics(horovod.text("stream").encode())
    first, *_, last = [record.loss for record in step_lines(metrics.records)]
    assert last < first / 2
    assert horovod.text("stream").count("total images/sec: ") == 4
    assert sum(counts(horovod.text("counts")).values()) == 2
    ended = r"^benchmark +nc12 .* python +2  succeeded +0  loss \d\S+ +64 +100$"
    assert re.search(ended, horovod.text("list"), re.MULTILINE)
    assert horovod.has_picture("chart")
    assert len(re.findall(r"^stdout-job_prep-tvm-\S+ +file", horovod.text("files"), re.MULTILINE)) == 2
    log = horovod.file("stdout.txt").read_text()
    assert log.strip() in horovod.text("stream")
    assert horovod.groups_left() == []


def test_the_lab_learns_digits_on_nodes_that_come_and_go(tmp_path):
    cntk = tutorial("batch_ai/02_cntk_autoscale.ipynb", "arm", tmp_path)
    row = r"^nc6 +bootcamp +lab +Standard_NC6 +(\w+) +(\d) +(\d) +(\d) +(\d) +(\d)$"
    found = [re.search(row, cntk.text(cell), re.MULTILINE) for cell in ("cluster", "submit", "scale")]
    assert [sum(map(int, match.groups()[1:])) for match in found] == [0, 2, 0]
    found = re.findall(r"s after the job: (\d) nodes running, (\d) idle$", cntk.text("wait"), re.MULTILINE)
    assert found[-1] == ("0", "0")
    errors = cntk.numbers("log", r"Finished Epoch.* metric = ([\d.]+)%")
    assert len(errors) == 15 * 2
    assert errors[0] > 50
    assert errors[-1] < 10
    assert cntk.numbers("check", r"([\d.]+)% of the digits") > [90]
    assert len(re.findall(r"^digits_\d+\.npz +file", cntk.text("model"), re.MULTILINE)) == 15
    assert np.load(cntk.file("digits_15.npz"))["w1"].any()
    assert cntk.groups_left() == []


def test_four_nodes_learn_to_tell_pictures_apart(tmp_path):
    cifar = tutorial("batch_ai/03_horovod_cifar.ipynb", "arm", tmp_path)
    assert counts(cifar.text("counts")) == {**counts(cifar.text("resize")), "idle": 4}
    assert sum(counts(cifar.text("resize")).values()) == 0
    assert len(re.findall(r"^tvm-", cifar.text("nodes"), re.MULTILINE)) == 4
    accuracies = cifar.numbers("stream", r"val_acc: ([\d.]+)")
    assert len(accuracies) == 5
    assert accuracies[-1] > accuracies[0]
    assert cifar.numbers("stream", r"Test accuracy: ([\d.]+)") > [0.9]
    assert cifar.numbers("epochs", r"([\d.]+)$") == pytest.approx(accuracies[-1:], abs=0.001)
    assert "stdout.txt" in cifar.text("files")
    assert len(re.findall(r"^checkpoint-\d\.npz +file", cifar.text("checkpoints"), re.MULTILINE)) == 5
    assert np.load(cifar.file("checkpoint-5.npz"))["arr_0"].shape == (3072, 64)
    assert cifar.has_picture("patterns")
    assert cifar.groups_left() == ["batchaiautostorage"]


def test_the_detector_learns_on_two_processes_and_finds_most(tmp_path):
    retinanet = tutorial("batch_ai/04_retinanet_custom.ipynb", "local", tmp_path)
    assert len(re.findall(r"^stdout-tvm-\S+ +no", retinanet.text("setup"), re.MULTILINE)) == 2
    losses = retinanet.numbers("stream", r" - loss: ([\d.]+)")
    assert losses[-1] < losses[0] / 2
    assert "2 processes" in retinanet.text("stream")
    assert retinanet.numbers("stream", r"mAP: ([\d.]+)") > [0.5]
    assert retinanet.has_picture("losses")
    assert len(re.findall(r"^detector_\d\d\.npz +file", retinanet.text("files"), re.MULTILINE)) == 16
    assert retinanet.has_picture("boxes")
    assert retinanet.numbers("boxes", r"(\d+) objects")[0] > 0
    assert retinanet.groups_left() == []
