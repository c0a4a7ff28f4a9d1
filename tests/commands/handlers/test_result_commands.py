"""`batchai files` and `batchai download` on a real job."""

import json

import pytest

from batchai_magics.cli import main
from batchai_magics.errors import NotFoundError

pytestmark = pytest.mark.slow
TRAIN = """
import os
import helper
from batchai_magics import save
os.mkdir("figures")
for name in ("model.pt", "figures/loss.txt"):
    open(name, "w").write(name)
save("model.pt", name="best.pt")
print("trained")
"""


@pytest.fixture
def trained(tmp_path, monkeypatch, capfd):
    """A job that was sent two files and wrote three."""
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "train.py").write_text(TRAIN)
    (folder / "helper.py").write_text("")
    monkeypatch.chdir(folder)
    assert main(["run", "train.py", "--name", "trained"]) == 0
    capfd.readouterr()
    return folder


def test_results_are_listed_first_and_copied_by_the_end_of_their_path(trained, capfd):
    assert main(["files", "trained"]) == 0
    titles, *rows = capfd.readouterr().out.splitlines()
    assert titles.split() == ["File", "Size", "Modified"]
    places = [row.split()[0] for row in rows]
    assert places[:3] == [
        "artifacts/best.pt",
        "workdir/node-1/figures/loss.txt",
        "workdir/node-1/model.pt",
    ]
    assert places[3:5] == ["workdir/node-1/helper.py", "workdir/node-1/train.py"]
    assert places.index("stdouterr/stdout.txt") < places.index("stdouterr/execution.log")
    assert main(["download", "trained", "figures"]) == 0
    assert (trained / "trained/figures/loss.txt").read_text() == "figures/loss.txt"
    assert main(["download", "trained", "best.pt", "--to", "here"]) == 0
    assert (trained / "here/best.pt").read_text() == "model.pt"
    capfd.readouterr()
    assert main(["download", "trained", "-o", "json"]) == 0
    copied = json.loads(capfd.readouterr().out)
    assert [each["name"] for each in copied] == places
    assert (trained / "trained/stdouterr/stdout.txt").read_text() == "trained\n"


def test_a_job_without_files_says_so(do, cluster, job_file):
    do(f"job create -n waits -f {job_file('true')}").value.wait()
    with pytest.raises(NotFoundError, match=r"there is no file model\.pt"):
        do("download waits model.pt")
