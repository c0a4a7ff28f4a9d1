"""A cluster at the other end of ssh: what happens when the connection breaks, and what is missing there."""

from __future__ import annotations

import subprocess
import sys
from argparse import Namespace
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest

from batchai_magics.backends.base import CommandEnd
from batchai_magics.backends.slurm.runner import SlurmBackend
from batchai_magics.backends.slurm.settings import SlurmSettings
from batchai_magics.commands.handlers.backend_commands import BACKEND_OPTIONS, SETTING_NAMES, use
from batchai_magics.config import Settings
from batchai_magics.errors import CapabilityError, UnreachableError
from batchai_magics.follow import ConnectionLost, ConnectionRestored, LogBytes, events
from batchai_magics.models.states import ExecutionState
from tests.backends.machines.real_sshd import HOST, RealSshd
from tests.backends.slurm.real_slurm import RealSlurm
from tests.contract.place import HOLD, MOUNTED, Place, PlaceOptions
from tests.contract.places import place_on
from tests.world import is_alive, until

pytestmark = pytest.mark.slow
LINES = 40_000
PRINT = f'import sys; [print(f"line {{n:06}}", "x" * (n % 90)) for n in range({LINES})]'
PRINTED = "".join(f"line {number:06} {'x' * (number % 90)}\n" for number in range(LINES)).encode()


@pytest.fixture
def sshd(own_sshd: RealSshd) -> RealSshd:
    """An sshd that a test may break: most of them do."""
    return own_sshd


@pytest.fixture
def far_place(slurm: RealSlurm, sshd: RealSshd, tmp_path: Path) -> Iterator[Place]:
    """A place that is reached through it."""
    with place_on(slurm, tmp_path, PlaceOptions(), sshd=sshd) as place:
        yield place


def settings(sshd: RealSshd, slurm: RealSlurm, home: Path, **own: str) -> SlurmSettings:
    return SlurmSettings(home=home, ssh=HOST, ssh_command=sshd.ssh, conf=str(slurm.conf), **own)


def test_no_byte_is_lost_when_the_connection_is(far_place, sshd):
    go = f"until [ -e {MOUNTED}/go ]; do sleep 0.05; done"
    far_place.backend.storage.upload(far_place.share, {"print.py": PRINT.encode()})
    id = far_place.start(f"python {MOUNTED}/print.py; echo up; {go}; python {MOUNTED}/print.py")
    data, news = b"", []
    for event in chain.from_iterable(events(far_place.backend, id)):
        if isinstance(event, LogBytes) and event.file.path == "stdout.txt":
            data += event.chunk.data
            if data == PRINTED + b"up\n" and not news:
                news.append("half")
                sshd.kill()
        if isinstance(event, ConnectionLost):
            news.append(event.reason)
            (Path(far_place.backend.settings.home) / "shares/local/batchaishare/go").touch()
            sshd.start()
        if isinstance(event, ConnectionRestored):
            news.append("back")
    assert data == PRINTED + b"up\n" + PRINTED
    assert (news[0], HOST in news[1], news[2]) == ("half", True, "back")
    assert far_place.backend.show(id).state is ExecutionState.SUCCEEDED


def test_a_job_is_submitted_once_however_often_the_connection_breaks(far_place, sshd, slurm, tmp_path):
    """Its program at the other end is killed as soon as it has heard of the job."""
    wrapper = tmp_path / "bin" / "sbatch"
    wrapper.parent.mkdir()
    wrapper.write_text(f'#!/bin/sh\necho x >> {tmp_path}/submitted\nsleep 2\nexec /usr/bin/sbatch "$@"\n')
    wrapper.chmod(0o755)
    far_place.backend.close()
    (sshd.home / ".bash_profile").write_text(f'PATH="{wrapper.parent}:$PATH"')
    code = "import sys; from tests.backends.slurm.ssh.test_connection import submit; submit(sys.argv[1:])"
    arguments = [str(far_place.backend.settings.home), sshd.ssh, str(slurm.conf)]
    other = subprocess.Popen([sys.executable, "-c", code, *arguments], stdout=subprocess.PIPE)
    until(lambda: (tmp_path / "submitted").exists())
    sshd.kill()
    sshd.start()
    out, _ = other.communicate()
    assert out.strip() in (b"queued", b"running", b"succeeded")
    assert far_place.wait(far_place.job()).state is ExecutionState.SUCCEEDED
    assert (tmp_path / "submitted").read_text() == "x\n"


def submit(arguments: list[str]) -> None:
    """In a process of its own: creates the job of the default experiment."""
    from batchai_magics.models.job_spec import JobSpec
    from batchai_magics.models.resource_ids import Kind, workspace_id

    home, ssh, conf = arguments
    own = SlurmSettings(Path(home), ssh=HOST, ssh_command=ssh, conf=conf, placement="fixed")
    backend = SlurmBackend(own)
    chosen = Settings(backend="slurm", sections={"slurm": own})
    workspace = workspace_id(chosen)
    cluster = {"id": str(workspace.child(Kind.CLUSTER, chosen.cluster))}
    job = workspace.child(Kind.EXPERIMENT, chosen.experiment).child(Kind.JOB, "job")
    toolkit = {"customToolkitSettings": {"commandLine": "echo hello"}, "stdOutErrPathPrefix": MOUNTED}
    spec = {"properties": {"cluster": cluster, "nodeCount": 1, **toolkit}}
    print(backend.create(job, JobSpec.from_wire(spec)).state.value)
    backend.close()


def test_slurm_that_is_not_there_is_named(sshd, slurm, tmp_path):
    (sshd.home / ".bash_profile").write_text("PATH=/nowhere")
    backend = SlurmBackend(settings(sshd, slurm, tmp_path / "home", ssh_python="/usr/bin/python3"))
    with pytest.raises(CapabilityError, match=f"there is no sinfo on {HOST}"):
        backend.runner._queries.nodes()
    backend.close()


def test_the_usual_home_is_in_the_folder_of_the_user_there(sshd, slurm):
    own = SlurmSettings(ssh=HOST, ssh_command=sshd.ssh, conf=str(slurm.conf))
    backend = SlurmBackend(own)
    assert Path(str(backend.layout.home)).is_relative_to(sshd.home)
    assert list(sshd.home.glob(".local/share/*/slurm"))
    backend.close()


def test_commands_on_nodes_come_as_they_are_written_and_end_with_who_reads(far_place):
    id = far_place.start(HOLD)
    far_place.is_up(id)
    (node,) = far_place.backend.nodes(id)
    *parts, end = far_place.backend.node_commands.execute(id, node.id, "echo out; echo err >&2; exit 3")
    assert {(part.data, part.is_error) for part in parts} == {(b"out\n", False), (b"err\n", True)}
    assert end == CommandEnd(3)
    command = f"echo $$ > {MOUNTED}/pid; exec sleep 1000"
    output = far_place.backend.node_commands.execute(id, node.id, command, tick_s=0.1)
    until(lambda: next(output) and far_place.stored("pid"))
    process = psutil.Process(int(far_place.stored("pid")))
    output.close()
    until(lambda: not is_alive(process))


def test_choosing_a_login_node_that_is_not_there_says_so(sshd, monkeypatch):
    monkeypatch.setenv("BATCHAI_SLURM_SSH_COMMAND", sshd.ssh)
    monkeypatch.setenv("BATCHAI_SLURM_HOME", str(sshd.folder / "data"))
    line = dict.fromkeys((*SETTING_NAMES, *BACKEND_OPTIONS, "subscription")) | {
        "backend": "slurm",
        "ssh": HOST,
    }
    context = SimpleNamespace(settings=Settings())
    chosen = use(context, Namespace(**line))
    assert chosen.value.to_data()["ssh"] == HOST
    assert "was not checked" in chosen.notes[0], "no Slurm is named: srun has no node to ask"
    sshd.kill()
    with pytest.raises(UnreachableError, match=HOST):
        use(context, Namespace(**line))
