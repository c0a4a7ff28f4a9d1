"""`save` in a job: complete copies under a name, whatever kills the process meanwhile."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

from batchai_magics.backends.folders.run_output import read_records
from batchai_magics.records.artifacts import FOLDER, artifacts_in

Save = Callable[..., str]


@pytest.fixture
def run_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of a run that this process belongs to."""
    monkeypatch.setenv("BATCHAI_ARTIFACT_DIR", str(tmp_path / "run" / "artifacts"))
    monkeypatch.chdir(tmp_path)
    return tmp_path / "run"


@pytest.fixture
def save(job_module: ModuleType) -> Save:
    """What saves, in a process of its own."""
    return job_module.save


def artifacts(run: Path):
    """What is listed of a run."""
    return artifacts_in(read_records(run / "records", [FOLDER]))


def test_a_name_and_a_step_are_saved_once(run_folder, save):
    for text, step in (("one", 1), ("two", 2), ("three", 2)):
        Path("model.pt").write_text(text)
        save("model.pt", step=step)
    one, two = artifacts(run_folder)
    assert [(each.step, each.size_bytes) for each in (one, two)] == [(1, 3), (2, 5)]
    assert two.sha256 == hashlib.sha256(b"three").hexdigest()
    assert (run_folder / "artifacts" / two.path).read_text() == "three"


@pytest.mark.parametrize("name", ["../model.pt", "/etc/model.pt", "a//b", "a/./b", "nul\0"])
def test_a_name_that_leaves_the_folder_is_refused(run_folder, save, name):
    Path("model.pt").write_text("one")
    with pytest.raises(ValueError, match="is no name for an artifact"):
        save("model.pt", name)
    assert not run_folder.exists()


def test_a_folder_is_refused_with_advice(run_folder, save):
    Path("folder").mkdir()
    with pytest.raises(IsADirectoryError, match="an archive of it"):
        save("folder")


def test_outside_a_job_copies_are_kept_beside_the_script(tmp_path, monkeypatch, save):
    monkeypatch.delenv("BATCHAI_ARTIFACT_DIR", raising=False)
    monkeypatch.chdir(tmp_path)
    Path("model.pt").write_text("one")
    assert Path(save("model.pt", step=3)).relative_to(tmp_path) == Path("artifacts/step-3/model.pt")


def test_a_line_that_a_kill_cut_off_hides_no_other(run_folder, save):
    Path("model.pt").write_text("one")
    save("model.pt", step=1)
    (index,) = (run_folder / "records" / "artifacts").glob("*.jsonl")
    with index.open("ab") as file:
        file.write(json.dumps({"path": "cut.pt", "time": 1.0}).encode()[:-3])
    save("model.pt", step=2)
    assert [each.step for each in artifacts(run_folder)] == [1, 2]


def check_listed(run: Path) -> list[str]:
    """The paths of what is listed, each with the bytes that are recorded."""
    listed = artifacts(run)
    for each in listed:
        data = (run / "artifacts" / each.path).read_bytes()
        assert (len(data), hashlib.sha256(data).hexdigest()) == (each.size_bytes, each.sha256)
    files = [path for path in (run / "artifacts").rglob("*") if path.is_file()]
    assert {path.name for path in files} <= {"model.pt"}
    return sorted(each.path for each in listed)


def start_saving(script: str, run: Path, *arguments: str) -> subprocess.Popen[bytes]:
    """Starts rank 0 of the run."""
    environment = {**os.environ, "BATCHAI_ARTIFACT_DIR": str(run / "artifacts"), "RANK": "0"}
    return subprocess.Popen([sys.executable, "-c", script, *arguments], env=environment)


REPLACE_AND_DIE = """
import os, signal, sys
from batchai_magics import save
def die(*_):
    os.kill(os.getpid(), signal.SIGKILL)
def replace(*paths, real=os.replace):
    if sys.argv[1] == "before":
        die()
    real(*paths)
    die()
for text in ("old", "newer"):
    with open("model.pt", "w") as file:
        file.write(text)
    save("model.pt")
    os.replace = replace
"""


@pytest.mark.slow
@pytest.mark.parametrize(("moment", "size_bytes"), [("before", 3), ("after", 5)])
def test_an_artifact_is_listed_if_a_kill_interrupts_its_replacement(run_folder, moment, size_bytes):
    start_saving(REPLACE_AND_DIE, run_folder, moment).wait()
    assert check_listed(run_folder) == ["model.pt"]
    assert artifacts(run_folder)[0].size_bytes == size_bytes


@pytest.mark.slow
def test_partial_copies_of_a_killed_process_are_discarded_by_the_next_one(run_folder):
    start_saving(REPLACE_AND_DIE, run_folder, "before").wait()
    Path("best.pt").write_text("best")
    start_saving("from batchai_magics import save; save('best.pt', 'model.pt', step=1)", run_folder).wait()
    assert check_listed(run_folder) == ["model.pt", "step-1/model.pt"]
    assert not list((run_folder / "records" / "artifacts").glob("*.part"))


@pytest.mark.slow
def test_two_processes_of_a_rank_save_at_once(run_folder):
    """Both copy from pipes, so that the first begins before the second and ends after it."""
    script = (
        "import sys; from batchai_magics import save; save(sys.argv[1], 'model.pt', step=int(sys.argv[2]))"
    )
    for name in ("one", "two"):
        os.mkfifo(name)
    first, second = (
        start_saving(script, run_folder, name, step) for name, step in (("one", "1"), ("two", "2"))
    )
    with Path("one").open("wb", buffering=0) as one:
        one.write(b"1" * 10)
        with Path("two").open("wb", buffering=0) as two:
            two.write(b"2" * 30)
        assert second.wait() == 0
        one.write(b"1" * 10)
    assert first.wait() == 0
    assert check_listed(run_folder) == ["step-1/model.pt", "step-2/model.pt"]
