"""What `from batchai_magics import log` gives in a job: numbers on lines that every reader of logs knows."""

from __future__ import annotations

import io
import json
import re
import subprocess
import sys
from contextlib import redirect_stdout
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import batchai_magics
from batchai_magics.backends.node import job_environment
from batchai_magics.backends.node.job_module import log
from batchai_magics.jobs.log_tail import LOG_RECORD
from batchai_magics.metrics import Parser

NAMES = st.text("abcdefghij_/", min_size=1).filter(lambda name: name not in {"_"})


def printed(*args, by=log, **kwargs) -> str:
    out = io.StringIO()
    with redirect_stdout(out):
        by(*args, **kwargs)
    return out.getvalue()


def read(text: str) -> dict[str, float]:
    return {record.name: record.value for record in Parser().feed(text.encode())}


@given(
    st.dictionaries(NAMES, st.one_of(st.floats(allow_nan=False), st.integers(-(10**15), 10**15)), min_size=1),
    st.integers(0, 10**9),
)
def test_logged_metrics_are_parsed(values, step):
    text = printed(values, step=step)
    assert read(text) == values
    assert {record.step for record in Parser().feed(text.encode())} == {step}


def test_values_are_converted_to_float():
    class Tensor:
        def __float__(self) -> float:
            return 0.25

    assert read(printed(step=1, loss=Tensor(), ok=True)) == {"loss": 0.25, "ok": 1.0}


def test_an_epoch_alone_gets_no_step():
    assert "step" not in json.loads(printed(epoch=3, loss=0.5))


def test_rank_is_read_from_the_environment_of_the_launcher(monkeypatch, job_module):
    monkeypatch.setenv("OMPI_COMM_WORLD_RANK", "3")
    (record,) = Parser().feed(printed(step=1, loss=0.5, by=job_module.log).encode(), rank=0)
    assert record.rank == 3


def test_parameters_are_printed_on_a_separate_line_and_are_no_metrics():
    text = printed(params={"lr": 0.1, "model": "resnet", "data": Path("/data")})
    assert json.loads(text)["params"] == {"lr": 0.1, "model": "resnet", "data": "/data"}
    assert read(text) == {}
    assert read(printed(step=1, params=25_557_032)) == {"params": 25_557_032}  # their number is one


def test_recorded_parameters_have_the_numbers_of_numpy_and_no_secrets(monkeypatch, tmp_path, job_module):
    monkeypatch.setenv("BATCHAI_ARTIFACT_DIR", str(tmp_path / "artifacts"))
    monkeypatch.setenv("BATCHAI_SECRET_NAMES", "TOKEN PIN")
    monkeypatch.setenv("TOKEN", "hunter2")
    monkeypatch.setenv("PIN", "1")
    given = {
        "batch": np.int64(16),
        "lr": np.float32(0.5),
        "url": "http://h/?k=hunter2",
        "v": 1,
        "shape": [1, 2],
    }
    printed(params=given, by=job_module.log)
    recorded = json.loads((tmp_path / "records" / "parameters.json").read_text())
    assert recorded == {"batch": 16, "lr": 0.5, "url": "http://h/?k=***", "v": 1, "shape": "[1, 2]"}


def test_parameters_come_before_the_numbers_of_the_same_call():
    params, numbers = printed(step=1, loss=0.5, params={}).splitlines(keepends=True)
    assert json.loads(params)["params"] == {}
    assert read(numbers) == {"loss": 0.5}


@pytest.mark.parametrize("call", [{"step": 1, "loss": 0.5}, {"epoch": 1, "loss": 0.5}, {"params": {"lr": 1}}])
@pytest.mark.parametrize("rank", ["", "3"])
def test_views_and_cards_know_what_is_printed(monkeypatch, job_module, call, rank):
    monkeypatch.setenv("OMPI_COMM_WORLD_RANK", rank)
    source = (Path(batchai_magics.__file__).parent / "widgets/frontend/job/log_rows.js").read_text()
    (pattern,) = re.findall(r"^const RECORD = /(.*)/;", source, re.MULTILINE)
    assert pattern == LOG_RECORD.pattern
    assert LOG_RECORD.match(printed(**call, by=job_module.log))


@pytest.mark.parametrize("value", ["0.5", b"1", None, [1, 2]])
def test_an_argument_that_is_no_number_is_refused_by_name(value):
    with pytest.raises(TypeError, match="loss is"):
        printed(step=1, loss=value)


@pytest.mark.parametrize("name", ["time", "rank", "iteration"])
def test_metrics_may_not_be_named_like_positions(name):
    with pytest.raises(ValueError, match=name):
        printed({name: 1.0}, step=1)


def put_job_module(folder: Path) -> None:
    folder.mkdir()
    (folder / "batchai_magics.py").write_text(job_environment.JOB_MODULE.read_text())


@pytest.mark.slow
class TestOnThePathOfAJob:
    def run(self, folder: Path, code: str, *options: str) -> str:
        """What the code prints; what is installed is simulated by a folder `site` behind that of the job."""
        behind = f'export PYTHONPATH="$PYTHONPATH:{folder.parent / "site"}"'
        command = f"{behind}; exec {sys.executable} {' '.join(options)} -c '{code}'"
        words = ["/bin/bash", "-c", job_environment.with_module_path(command, folder)]
        env = {"PATH": "/usr/bin:/bin"}
        return subprocess.run(
            words, env=env, cwd=folder.parent, capture_output=True, text=True, check=True
        ).stdout

    def test_an_installed_package_is_not_hidden(self, tmp_path):
        put_job_module(tmp_path / "python")
        code = "from batchai_magics import log, JobSpec; log(step=1, loss=0.5); print(JobSpec.__module__)"
        assert self.run(tmp_path / "python", code).splitlines()[1] == "batchai_magics.models.job_spec"

    def test_the_job_module_adds_log_to_an_older_package(self, tmp_path):
        put_job_module(tmp_path / "python")
        (tmp_path / "site" / "batchai_magics").mkdir(parents=True)
        (tmp_path / "site" / "batchai_magics" / "__init__.py").write_text("__version__ = '0.0.1'\n")
        code = "import batchai_magics as b; b.log(step=1, loss=0.5); print(b.__version__)"
        assert self.run(tmp_path / "python", code, "-S").splitlines()[1] == "0.0.1"

    def test_a_folder_named_batchai_magics_is_no_package(self, tmp_path):
        put_job_module(tmp_path / "python")
        (tmp_path / "batchai_magics").mkdir()
        code = "from batchai_magics import log; log(step=1, loss=0.5)"
        assert read(self.run(tmp_path / "python", code, "-S")) == {"loss": 0.5}
