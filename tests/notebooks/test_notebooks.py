import json
import os
import re
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest

from batchai_magics.metrics import read_metrics
from tests.metrics.log_text import step_lines
from tests.notebooks.quickstart import short_quickstart
from tests.patience import PATIENCE_S

NOTEBOOKS = Path(__file__).parents[2] / "notebooks"
QUICKSTART = NOTEBOOKS / "01_quickstart.ipynb"
MPIEXEC = Path(sys.executable).parent / "mpiexec"
LOOPBACK = {"MPIR_CVAR_CH4_NETMOD": "ofi", "FI_PROVIDER": "tcp", "FI_TCP_IFACE": "lo"}
STEP = r"{}\timages/sec: \d+\.\d \+/- \d+\.\d \(jitter = \d+\.\d\)\t\d+\.\d{{3}}"
GRADIENTS = """
import json, runpy, sys
import numpy as np

cell = runpy.run_path(sys.argv[1])
import cnn_benchmark
cnn_benchmark.FLOAT = np.float64
model, (images, labels) = cnn_benchmark.MODELS[sys.argv[2]](), next(cnn_benchmark.batches(2))
loss = lambda: cell["softmax_loss"](model.forward(images), labels)
model.backward(loss()[1])
random, pairs = np.random.default_rng(1), []
for weight, gradient in zip(model.weights, [gradient.copy() for gradient in model.gradients]):
    for place in zip(*(random.integers(size, size=1) for size in weight.shape)):
        value = weight[place]
        weight[place] = value + 1e-6
        above, _ = loss()
        weight[place] = value - 1e-6
        below, _ = loss()
        weight[place] = value
        pairs.append([float(gradient[place]), (above - below) / 2e-6])
print(json.dumps(pairs))
"""

pytestmark = [pytest.mark.slow]


@pytest.fixture(scope="module")
def script(tmp_path_factory):
    """The body of the quickstart's job cell, as a file."""
    cells = nbformat.read(QUICKSTART, as_version=4).cells
    (source,) = [cell.source for cell in cells if cell.source.startswith("%%batchai_job quickstart")]
    path = tmp_path_factory.mktemp("quickstart") / "quickstart.py"
    path.write_text(source.partition("\n")[2])
    return path


def run(*command, **environment):
    done = subprocess.run(
        [str(word) for word in command],
        env={**os.environ, **LOOPBACK, "PYTHONPATH": str(NOTEBOOKS), **environment},
        capture_output=True,
        text=True,
        check=True,
        timeout=PATIENCE_S,
    )
    return done.stdout


def train(script, *flags, ranks, folder):
    """What each rank has printed."""
    run(MPIEXEC, "-n", ranks, "-outfile-pattern", folder / "%r.out", sys.executable, script, *flags)
    return [(folder / f"{rank}.out").read_text() for rank in range(ranks)]


def test_the_benchmarks_cell_fits_a_screen(script):
    assert len(script.read_text().splitlines()) <= 20


ALL = sorted(NOTEBOOKS.rglob("[0-9]*.ipynb"))


def test_no_notebook_ends_by_deleting_what_it_shows():
    for path in ALL:
        cells = nbformat.read(path, as_version=4).cells
        *_, last = [cell.source for cell in cells if cell.cell_type == "code"]
        assert not re.search(r"\bdelete\b", last), path.name


def test_the_notebooks_are_listed_in_their_order_and_link_to_each_other():
    page = (NOTEBOOKS.parent / "docs/how-to/tutorials.md").read_text()
    listed = re.findall(r"^\| \[.*?\]\(../../notebooks/(.+?)\)", page, re.MULTILINE)
    assert listed == sorted(path.name for path in NOTEBOOKS.glob("*.ipynb"))
    cells = [cell.source for path in ALL for cell in nbformat.read(path, as_version=4).cells]
    links = re.findall(r"\]\(([\w./-]+\.ipynb)\)", "\n".join(cells))
    assert [link for link in links if not (NOTEBOOKS / link).exists()] == []


def test_a_committed_notebook_is_valid_and_holds_no_output():
    for path in sorted(NOTEBOOKS.glob("*.ipynb")):
        notebook = nbformat.read(path, as_version=4)
        nbformat.validate(notebook)
        code = [cell for cell in notebook.cells if cell.cell_type == "code"]
        assert not any(cell.outputs or cell.execution_count for cell in code), path.name


@pytest.mark.parametrize("model", ["lenet", "small_resnet"])
def test_gradients_equal_finite_differences(script, model):
    pairs = json.loads(run(sys.executable, "-c", GRADIENTS, script, model))
    assert len(pairs) >= 6
    assert all(ours == pytest.approx(measured, rel=1e-4, abs=1e-8) for ours, measured in pairs)


def test_every_rank_prints_the_format_of_tf_cnn_benchmarks(script, tmp_path):
    ranks = 4
    flags = ["--model=trivial", "--batch_size=4", "--num_batches=20", "--variable_update=horovod"]
    for log in train(script, *flags, ranks=ranks, folder=tmp_path):
        header, _, body = log.partition("==========\n")
        assert f"Batch size:  {4 * ranks} global\n             4 per device\nNum batches: 20\n" in header
        assert f"Devices:     {[f'horovod/cpu:{rank}' for rank in range(ranks)]}\n" in header
        told = "Generating training model\nRunning warm up\nDone warm up\nStep\tImg/sec\ttotal_loss\n"
        steps = "\n".join(STEP.format(step) for step in (1, 10, 20))
        line = "-" * 64
        assert re.fullmatch(rf"{told}{steps}\n{line}\ntotal images/sec: \d+\.\d\d\n{line}\n", body)


def test_the_ranks_rates_add_up_to_the_total_and_the_loss_falls(script, tmp_path):
    for log in train(script, "--model=lenet", "--num_batches=20", ranks=2, folder=tmp_path):
        metrics = read_metrics(log.encode())
        summary = metrics.summary()
        assert summary.images_per_sec == pytest.approx(summary.total_images_per_sec, rel=0.1)
        first, *_, last = [record.loss for record in step_lines(metrics.records)]
        assert last < first / 2


def test_all_ranks_hold_the_same_weights_after_training(script):
    check = (
        "import runpy, sys, itertools, numpy as np; cell = runpy.run_path(sys.argv[1]);"
        "import cnn_benchmark; model = cnn_benchmark.MODELS['lenet']();"
        "list(itertools.islice(cell['training'](model, cnn_benchmark.batches(2)), 3));"
        "sums = cell['RANKS'].gather(float(sum(np.abs(weight).sum() for weight in model.weights)));"
        "sums and print(sums)"
    )
    one, other = json.loads(run(MPIEXEC, "-n", 2, sys.executable, "-c", check, script))
    assert one == other


def test_a_quickstart_whose_job_fails_says_why(tmp_path):
    copy = short_quickstart(tmp_path)
    notebook = json.loads(copy.read_text())
    cells = {each["source"][0]: each for each in notebook["cells"]}
    loads, first, cell, wait = (
        next(each for line, each in cells.items() if line.startswith(words))
        for words in ("%load_ext", "%%batchai_job first", "%%batchai_job quickstart", "job.wait()")
    )
    first["source"] = [first["source"][0], "pass"]
    cell["source"] = [cell["source"][0], "raise SystemExit('nothing to train')"]
    notebook["cells"] = [loads, first, cell, wait]  # what the failure is told by
    copy.write_text(json.dumps(notebook))
    line = [sys.executable, tmp_path / "run.py", "--out", tmp_path / "out"]
    done = subprocess.run(line, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    for words in ("JobFailed", "nothing to train", str(tmp_path / "out" / "stdout.txt")):
        assert words in done.stderr


def test_the_quickstart_runs_from_top_to_bottom(tmp_path):
    short_quickstart(tmp_path)
    out = tmp_path / "out"
    printed = run(sys.executable, tmp_path / "run.py", "--out", out)
    cells = re.findall(r"^\[(\d+)/(\d+)\] (.+)$", printed, re.MULTILINE)
    assert [int(number) for number, _, _ in cells] == list(range(1, int(cells[0][1]) + 1))
    jobs = [line.split()[1] for _, _, line in cells if line.startswith("%%batchai_job")]
    assert jobs == ["first", "quickstart"]
    assert re.search(r"^ +step \d+, loss \d+\.\d{3}$", printed, re.MULTILINE)
    assert re.search(r"^20( +\d+\.\d){4}\n\ntotal images/sec: \d+\.\d\d$", printed, re.MULTILINE)
    results = printed.partition("Results:\n")[2].splitlines()
    assert [Path(name.strip()) for name in results[:3]] == [
        out / name for name in (QUICKSTART.name, "chart.png", "stdout.txt")
    ]
    assert "Next: `make lab` opens" in printed
    assert (out / "chart.png").read_bytes().startswith(b"\x89PNG")
    assert (out / "stdout.txt").read_text().count("total images/sec") == 4
    executed = (out / QUICKSTART.name).read_text()
    outputs = [output for cell in json.loads(executed)["cells"] for output in cell.get("outputs", ())]
    assert outputs
    assert not any(key.endswith("widget-view+json") for output in outputs for key in output.get("data", ()))
    assert len(executed) < 800_000  # with the programs of two views
