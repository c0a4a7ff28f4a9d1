"""What a run saves: listed once it is complete, with step and digest, and downloaded in whole folders."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from batchai_magics.cell.cell_uploads import DOWNLOAD
from batchai_magics.jobs.job_handle import Job
from tests.contract.place import Place

pytestmark = [pytest.mark.slow, pytest.mark.decided_by("nodes")]
SAVES = """
import os, pathlib
from batchai_magics import save
for step in (1, 2):
    pathlib.Path("model.pt").write_bytes(b"weights" * step)
    save("model.pt", step=step)
save("model.pt", "best/model.pt")
pathlib.Path("outputs").mkdir()
pathlib.Path("outputs/plot.svg").write_text("<svg/>")
pathlib.Path(os.environ["BATCHAI_CHECKPOINT_DIR"], "state").write_text("2")
"""
SAVED = {"step-1/model.pt": b"weights", "step-2/model.pt": b"weights" * 2, "best/model.pt": b"weights" * 2}


def saved(place: Place) -> Job:
    """A job that has saved artifacts."""
    place.backend.storage.upload(place.share, {"saves.py": SAVES.encode()})
    made = place.run("python3 $AZ_BATCHAI_MOUNT_ROOT/autoafs/saves.py")
    assert made.execution.exit_code == 0, place.log(made.id, "stderr.txt")
    return Job(place.backend, made.id)


def files_in(folder: Path) -> dict[str, bytes]:
    """The files of a download, without the mark that keeps `batchai run` from sending them."""
    paths = [path for path in folder.rglob("*") if path.is_file() and path.name != DOWNLOAD]
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in paths}


@pytest.mark.sample
@pytest.mark.needs("workdir")
def test_what_a_run_saves_is_listed_and_downloaded(place: Place, tmp_path_factory) -> None:
    job, to = saved(place), tmp_path_factory.mktemp("to")
    *named, output = job.artifacts()
    assert [(each.name, each.step, each.path) for each in named] == [
        ("model.pt", 1, "step-1/model.pt"),
        ("model.pt", 2, "step-2/model.pt"),
        ("best/model.pt", None, "best/model.pt"),
    ]
    for each in named:
        data = job.download(each, to).read_bytes()
        assert (len(data), hashlib.sha256(data).hexdigest()) == (each.size_bytes, each.sha256)
    assert (output.name, output.size_bytes, output.directory_id) == ("plot.svg", 6, "workdir")
    assert job.download(output, to).read_text() == "<svg/>"
    whole = job.download(directory_id="artifacts", to=to / "whole")
    assert (whole.name, files_in(whole)) == ("artifacts", SAVED)
    second = job.download("step-2", to / "one", directory_id="artifacts")
    assert files_in(second) == {"model.pt": b"weights" * 2}
    every = files_in(job.download(to=to / "every"))
    assert every["checkpoints/state"] == b"2"
    assert {"stdouterr/stdout.txt", "artifacts/best/model.pt"} < every.keys()
