"""Where temporary files are: sockets fit there, nobody else can read them, and nothing is left of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from batchai_magics.models.states import ExecutionState
from tests.backends.local.boxes import IMAGE
from tests.contract.place import Place

pytestmark = [pytest.mark.slow, pytest.mark.decided_by("nodes")]

SOCKETS = """
import multiprocessing, os, socket, stat, tempfile

def double(number):
    return 2 * number

if __name__ == "__main__":
    with multiprocessing.Manager() as manager:
        shared = manager.dict(one=1)
        with multiprocessing.get_context("forkserver").Pool(1) as pool:
            print("doubled", pool.map(double, [shared["one"], 21]))
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(os.path.join(tempfile.mkdtemp(), "pymp-listener-0123456789ab"))
    open(os.path.join(tempfile.gettempdir(), "left behind"), "w").close()
    print("mode", oct(stat.S_IMODE(os.stat(os.environ["TMPDIR"]).st_mode)))
    print("at", os.environ["TMPDIR"])
"""


def test_sockets_fit_into_the_folder_for_temporary_files_of_a_job_and_its_preparation(
    place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / ("long" * 20)  # the submitter's own, in which they do not fit
    folder.mkdir()
    monkeypatch.setenv("TMPDIR", str(folder))
    room = """'test ${{#TMPDIR}} -le 40 && test -w "$TMPDIR"'"""
    job = place.run_cell(f"j --prep {room}", SOCKETS)
    assert job.state is ExecutionState.SUCCEEDED
    lines = dict(line.split(" ", 1) for line in job.log().splitlines())
    assert lines["doubled"] == "[2, 42]", job.log(file="stderr.txt")
    assert len(lines["at"]) <= 40
    if lines["at"] != "/tmp":
        assert lines["mode"] == "0o700"
        assert not Path(lines["at"]).exists()


def test_the_folder_for_temporary_files_is_the_one_that_the_job_names(place: Place, tmp_path: Path) -> None:
    job = place.run_cell(f"j --env TMPDIR={tmp_path}", "import os; print(os.environ['TMPDIR'])")
    assert job.log() == f"{tmp_path}\n"


@pytest.mark.sample
@pytest.mark.needs("hidden_secrets")
def test_a_secret_may_name_the_folder_for_temporary_files(place: Place, tmp_path: Path) -> None:
    secrets = [{"name": "TMPDIR", "value": str(tmp_path)}]
    place.run("test -d $TMPDIR && touch $TMPDIR/found", secrets=secrets)
    assert (tmp_path / "found").exists()


@pytest.mark.needs("container_engine")
@pytest.mark.needs("containers")
def test_a_container_has_the_same_folder_for_temporary_files(place: Place, engine: str) -> None:
    image = {"imageSourceRegistry": {"image": IMAGE}}
    command = 'touch "$TMPDIR/x" && while read -r line; do echo "$TMPDIR in $line"; done < /proc/mounts'
    job = place.run(command, containerSettings=image)
    lines = [line.split() for line in place.log(job.id).decode().splitlines()]
    folder = lines[0][0]
    assert len(folder) <= 40
    assert folder in [line[3] for line in lines], place.log(job.id, "stderr.txt")
    assert not Path(folder).exists()
