"""`save` in a job: complete copies under a name, whatever kills the process meanwhile."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from batchai_magics import save
from batchai_magics.backends.node import job_module
from batchai_magics.records.artifacts import artifacts_in
from tests.world import until


@pytest.fixture
def run_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of a run that this process belongs to."""
    monkeypatch.setenv("BATCHAI_ARTIFACT_DIR", str(tmp_path / "run" / "artifacts"))
    monkeypatch.chdir(tmp_path)
    job_module._artifact_store.cache_clear()
    return tmp_path / "run"


def artifacts(run: Path):
    """What is listed of a run."""
    files = {path.name: path.read_bytes() for path in (run / "records" / "artifacts").glob("*.jsonl")}
    return artifacts_in(files)


def test_a_name_and_a_step_are_saved_once(run_folder: Path) -> None:
    for text, step in (("one", 1), ("two", 2), ("three", 2)):
        Path("model.pt").write_text(text)
        save("model.pt", step=step)
    one, two = artifacts(run_folder)
    assert [(each.step, each.size_bytes) for each in (one, two)] == [(1, 3), (2, 5)]
    assert two.sha256 == hashlib.sha256(b"three").hexdigest()
    assert (run_folder / "artifacts" / two.path).read_text() == "three"


@pytest.mark.parametrize("name", ["../model.pt", "/etc/model.pt", "a//b", "a/./b", "nul\0"])
def test_a_name_that_leaves_the_folder_is_refused(run_folder: Path, name: str) -> None:
    Path("model.pt").write_text("one")
    with pytest.raises(ValueError, match="is no name for an artifact"):
        save("model.pt", name)
    assert not run_folder.exists()


def test_a_folder_is_refused_with_advice(run_folder: Path) -> None:
    Path("folder").mkdir()
    with pytest.raises(IsADirectoryError, match="an archive of it"):
        save("folder")


def test_a_missing_file_saves_nothing(run_folder: Path) -> None:
    with pytest.raises(FileNotFoundError):
        save("model.pt")
    assert artifacts(run_folder) == []


def test_outside_a_job_copies_are_kept_beside_the_script(tmp_path, monkeypatch) -> None:
    monkeypatch.delenv("BATCHAI_ARTIFACT_DIR", raising=False)
    monkeypatch.chdir(tmp_path)
    job_module._artifact_store.cache_clear()
    Path("model.pt").write_text("one")
    assert Path(save("model.pt", step=3)).relative_to(tmp_path) == Path("artifacts/step-3/model.pt")


def test_a_line_that_a_kill_cut_off_hides_no_other(run_folder: Path) -> None:
    Path("model.pt").write_text("one")
    save("model.pt", step=1)
    (index,) = (run_folder / "records" / "artifacts").glob("*.jsonl")
    with index.open("ab") as file:
        file.write(json.dumps({"path": "cut.pt", "time": 1.0}).encode()[:-3])
    save("model.pt", step=2)
    assert [each.step for each in artifacts(run_folder)] == [1, 2]


@pytest.mark.slow
def test_a_kill_leaves_no_partial_artifact(run_folder: Path) -> None:
    saves = """
from batchai_magics import save
for step in range(1000):
    with open("model.pt", "wb") as file:
        file.write(step.to_bytes(4, "big") * (4 << 20))
    save("model.pt", step=step % 2)
"""
    seen = 0
    for kill in range(4):
        child = subprocess.Popen(
            [sys.executable, "-c", saves], env={**job_environment(run_folder), "RANK": "0"}
        )
        until(lambda: is_copying(run_folder / "records" / "artifacts" / "0.part"))
        if kill % 2:
            until(lambda: len(artifacts(run_folder)) == 2)
        child.kill()
        child.wait()
        for each in artifacts(run_folder):
            data = (run_folder / "artifacts" / each.path).read_bytes()
            assert (len(data), hashlib.sha256(data).hexdigest()) == (each.size_bytes, each.sha256)
            seen += 1
        listed = [path.name for path in (run_folder / "artifacts").rglob("*") if path.is_file()]
        assert set(listed) <= {"model.pt"}
    assert seen


def is_copying(part: Path) -> bool:
    """Whether a process is in the middle of a copy."""
    try:
        return part.stat().st_size > 0
    except FileNotFoundError:
        return False


def job_environment(run: Path) -> dict[str, str]:
    """The environment of a process of the run."""
    return {**os.environ, "BATCHAI_ARTIFACT_DIR": str(run / "artifacts")}
