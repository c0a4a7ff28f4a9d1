"""A home that the nodes of a real Slurm do not see: found out at once, by a check or by the first job."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from batchai_magics.backends.base.backend_registry import check_choice
from batchai_magics.backends.slurm.runner import SlurmBackend
from batchai_magics.backends.slurm.settings import SlurmSettings
from batchai_magics.cli import main
from batchai_magics.config import Settings
from batchai_magics.errors import StorageError
from tests.backends.slurm.job_files import files, first_error
from tests.backends.slurm.real_slurm import RealSlurm, running
from tests.contract.place import Place, PlaceOptions
from tests.contract.places import place_on

pytestmark = pytest.mark.slow
# Runs a command where another folder lies in the place of the first one.
HIDING = ("unshare", "--mount", "sh", "-c", 'mount -t tmpfs none "$0" && exec "$@"')


def skip_reason(folder: Path) -> str:
    """Why no folder can be hidden from a process here; empty where one can."""
    done = subprocess.run([*HIDING, str(folder), "true"], capture_output=True, text=True, check=False)
    return f"no folder can be hidden here: {done.stderr.strip()}" if done.returncode else ""


@dataclass
class BlindSlurm(RealSlurm):
    """A Slurm of which some nodes do not see a folder."""

    hidden: Path = Path()
    blind: tuple[str, ...] = ("node1", "node2")

    def start_node(self, name: str) -> None:
        """Starts a node, which may see an empty folder in the place of the hidden one."""
        words = ["slurmd", "-D", "-f", str(self.conf), "-N", name]
        self._start(name, [*HIDING, str(self.hidden), *words] if name in self.blind else words)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    folder = tmp_path / "home"
    folder.mkdir(mode=0o700)
    if reason := skip_reason(folder):
        pytest.skip(reason)
    return folder


@pytest.fixture
def blind_slurm(tmp_path: Path, home: Path, request: pytest.FixtureRequest) -> Iterator[BlindSlurm]:
    blind = getattr(request, "param", ("node1", "node2"))
    with running(BlindSlurm, tmp_path / "slurm", count=2, hidden=home, blind=blind) as slurm:
        yield slurm


@pytest.fixture
def blind_place(blind_slurm: BlindSlurm, tmp_path: Path) -> Iterator[Place]:
    """A place whose settings for how often Slurm is asked, and how long it waits, are the usual ones."""
    usual = SlurmSettings()
    with place_on(blind_slurm, tmp_path, PlaceOptions()) as place:
        settings = replace(place.backend.settings, look_s=usual.look_s, lost_s=usual.lost_s)
        yield replace(place, backend=SlurmBackend(settings))


def test_the_first_job_tells_at_once_that_its_node_does_not_see_the_home(blind_place, home):
    settings = replace(blind_place.backend.settings, lost_s=1e9)  # a word of the job is not waited for
    job = replace(blind_place, backend=SlurmBackend(settings)).run(nodeCount=2)
    error = first_error(job)
    assert error.code == "HomeNotShared"
    for words in ("node1", str(home), "slurm.home", "srun --partition=batch --nodelist=node1 ls"):
        assert words in error.message
    assert files(blind_place, job.id).attempt_start(1) is None


@pytest.mark.parametrize("blind_slurm", [("node2",)], indirect=True)
def test_a_second_node_that_does_not_see_the_home_is_named(blind_place):
    job = blind_place.wait(blind_place.start_ranks("echo up", count=2))
    assert "node2 does not see" in first_error(job).message
    assert "slurm.home" in first_error(job).message


def chosen(slurm: RealSlurm, home: Path, **more: object) -> str:
    """What is said to who chooses the backend."""
    own = SlurmSettings(home=home, conf=str(slurm.conf), **more)
    return check_choice(Settings(backend="slurm", sections={"slurm": own}))


def test_home_that_nodes_do_not_see_is_refused(blind_slurm, home):
    with pytest.raises(StorageError, match=r"slurm\.home") as caught:
        chosen(blind_slurm, home)
    assert caught.value.code == "HomeNotShared"
    assert str(home) in caught.value.message
    assert "srun --nodelist=node" in caught.value.hint


def test_a_home_that_a_node_sees_is_checked_once(slurm, tmp_path):
    home = tmp_path / "home"
    assert "sees slurm.home" in chosen(slurm, home)
    assert chosen(slurm, home) == ""
    assert [file.name for file in home.iterdir()] == ["seen"]


def test_where_no_node_is_to_be_had_a_choice_is_not_refused(slurm, tmp_path):
    slurm_client = chosen(slurm, tmp_path / "home", options="--constraint=nowhere")
    assert "was not checked" in slurm_client


@pytest.fixture
def in_shell(slurm: RealSlurm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home that the settings of this process name."""
    monkeypatch.setenv("BATCHAI_SLURM_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("BATCHAI_SLURM_CONF", str(slurm.conf))
    return tmp_path / "home"


def test_the_shell_checks_the_home_too(in_shell, capsys, monkeypatch):
    assert main(["use", "--backend", "slurm"]) == 2, "nothing of a choice is kept there"
    told = capsys.readouterr().err
    assert f"sees slurm.home ({in_shell})" in told
    assert "export BATCHAI_BACKEND=slurm" in told
    (in_shell / "seen/default").unlink()
    monkeypatch.setenv("BATCHAI_BACKEND", "slurm")
    assert main(["use", "--backend", "slurm"]) == 0, "it is the choice already"
    assert f"sees slurm.home ({in_shell})" in "".join(capsys.readouterr())
