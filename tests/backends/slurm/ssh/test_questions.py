"""How often the other end of ssh is asked: as often for many jobs as for one."""

from __future__ import annotations

import math
import os
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from batchai_magics.backends.base import FileRef
from batchai_magics.backends.folders.run_output import Logs
from batchai_magics.backends.machines.ssh_connection import SshConnection
from batchai_magics.backends.service import file_repository
from batchai_magics.backends.slurm.runner import SlurmBackend
from batchai_magics.models.resource_ids import Kind, ResourceId
from batchai_magics.models.resources import ExperimentSpec, WorkspaceSpec
from tests.backends.machines.real_sshd import RealSshd
from tests.backends.slurm.real_slurm import RealSlurm
from tests.contract.place import HOLD, MOUNTED, Place, PlaceOptions
from tests.contract.places import place_on
from tests.world import until

pytestmark = pytest.mark.slow
JOBS = 8
ANEW = 5  # questions more that tell what Slurm says now, to all who ask
LINES = 400


@pytest.fixture
def far_place(slurm: RealSlurm, sshd: RealSshd, tmp_path: Path) -> Iterator[Place]:
    """A place at the other end of the sshd that all tests share."""
    with place_on(slurm, tmp_path, PlaceOptions(), sshd=sshd, has_programs=False) as place:
        yield place


@pytest.fixture
def calm_place(far_place: Place) -> Iterator[Place]:
    """The same, where what Slurm has said stays good for longer than questions take on any machine."""
    with closing(SlurmBackend(replace(far_place.backend.settings, look_s=1000.0))) as backend:
        yield replace(far_place, backend=backend)


@pytest.fixture
def requests(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The questions that are asked, by their names."""
    names: list[str] = []
    ask = SshConnection.open

    def counted(link: SshConnection, head: Mapping[str, Any], data: bytes = b"") -> object:
        names.append(str(head["words"][0] if head["ask"] == "run" else head["ask"]))
        return ask(link, head, data)

    monkeypatch.setattr(SshConnection, "open", counted)
    monkeypatch.setattr(file_repository, "READ_INTERVAL_S", math.inf)  # else two questions more a minute
    return names


def news(requests: Sequence[str]) -> int:
    """How often Slurm itself was asked, for all to hear."""
    return requests.count("squeue") + requests.count("sinfo")


def ask(requests: list[str], act: Callable[[], object]) -> list[str]:
    """The questions of an act, and of the thread that looks for undelivered notifications after it."""
    requests.clear()
    act()
    for thread in threading.enumerate():
        if thread.name == "batchai-notify":
            thread.join()
    return [*requests]


def fewest(requests: list[str], act: Callable[[], object]) -> list[str]:
    """The questions of an act while Slurm itself is asked nothing."""
    found: list[list[str]] = []
    ask(requests, act)  # a backend learns some things once

    def is_quiet() -> bool:
        found.append(ask(requests, act))
        return not news(requests)

    until(is_quiet)
    return found[-1]


@pytest.fixture
def jobs(far_place: Place, slurm: RealSlurm) -> Iterator[list[ResourceId]]:
    """One that runs and others that wait; what Slurm says of all of the user's is a large file."""
    for _ in range(6):
        said = slurm.ask("sbatch", "--parsable", "--hold", f"--comment={'x' * 1000}", "--wrap=true")
        assert said.strip().isdigit(), said
    first = far_place.start(f"seq {LINES}; {HOLD}", "job0")
    jobs = [first, *(far_place.start(name=f"job{number}", nodeCount=2) for number in range(1, JOBS))]
    until(lambda: far_place.log(first).endswith(b"up\n"))
    yield jobs
    slurm.ask("scancel", "--state=PENDING", "--user", str(os.getuid()))


def test_the_status_of_many_jobs_takes_few_requests(calm_place, jobs, requests):
    backend = calm_place.backend
    ends = {path: chunk.end for path, chunk in backend.tail(jobs[0], {}).items()}
    acts: dict[str, tuple[int, Callable[[], object]]] = {
        "status": (2, lambda: backend.status(jobs)),
        "status with the cluster": (4, lambda: backend.status([*jobs, calm_place.cluster])),
        "show a job": (2, lambda: backend.show(jobs[0])),
        "show the cluster": (4, lambda: backend.show(calm_place.cluster)),
        "list": (4, lambda: backend.list(calm_place.experiment, Kind.JOB)),
        "names": (3, lambda: backend.names(calm_place.experiment, Kind.JOB)),
        "nodes of a job": (2, lambda: backend.nodes(jobs[0])),
        "nodes of the cluster": (4, lambda: backend.nodes(calm_place.cluster)),
        "tail": (6, lambda: backend.tail(jobs[0], {})),
        "tail without news": (2, lambda: backend.tail(jobs[0], ends)),
        "read": (4, lambda: backend.read(FileRef(jobs[0], "stdout.txt"))),
    }
    questions = {name: fewest(requests, act) for name, (_, act) in acts.items()}
    assert {name: told for name, told in questions.items() if len(told) > acts[name][0]} == {}


def test_a_new_answer_of_slurm_takes_few_requests(far_place, jobs, requests):

    def is_news() -> bool:
        ask(requests, lambda: far_place.backend.status(jobs))
        return news(requests) == 1

    until(is_news)
    assert len(requests) <= 2 + ANEW, [*requests]


def test_creating_resources_takes_few_requests(far_place, requests):
    """The first job brings the programs of nodes along. What Slurm says takes some more, of nodes or jobs."""
    backend, secrets = far_place.backend, [{"name": "KEY", "value": "hunter2"}]
    after = {"batchaiAfter": [str(far_place.job(name)) for name in ("first", "second", "third")]}
    other = ResourceId.parse(str(far_place.workspace).replace("/default", "/other"))
    acts: dict[str, tuple[int, Callable[[], object]]] = {
        "the first job": (8, lambda: far_place.start(HOLD, "first")),
        "a job": (6, lambda: far_place.start(HOLD, "second")),
        "a job with a secret": (6, lambda: far_place.start(HOLD, "third", secrets=secrets)),
        "a job after others": (8, lambda: far_place.start(HOLD, "fourth", **after)),
        "the same job": (2, lambda: far_place.start(HOLD, "first")),
        "a cluster": (7, lambda: far_place.make_cluster("another")),
        "a workspace": (2, lambda: backend.create(other, WorkspaceSpec())),
        "an experiment": (1, lambda: backend.create(other.child(Kind.EXPERIMENT, "e"), ExperimentSpec())),
        "a file server": (1, far_place.make_server),
    }
    questions = {name: ask(requests, act) for name, (_, act) in acts.items()}
    far_place.is_up(far_place.job("first"))
    questions["end a job"] = ask(requests, lambda: backend.terminate(far_place.job("first")))
    most = {**{name: count for name, (count, _) in acts.items()}, "end a job": 4}
    too_many = {name: told for name, told in questions.items() if len(told) > most[name] + ANEW * news(told)}
    assert too_many == {}


def test_a_secret_printed_between_two_questions_is_hidden(far_place, monkeypatch):
    """A lone process: of its log no record tells how much of it is known."""
    wait = f"until [ -e {MOUNTED}/go ]; do sleep 0.05; done"
    print_it = f'echo begin; {wait}; echo "$KEY"; {HOLD}'
    job = far_place.start(print_it, secrets=[{"name": "KEY", "value": "hunter2"}])
    until(lambda: far_place.log(job) == b"begin\n")
    home, tail = Path(str(far_place.backend.layout.home)), Logs.tail

    def printed() -> bool:
        return any(b"up" in log.read_bytes() for log in home.glob("shares/**/stdout.txt"))

    def tail_of_news(logs: Logs, *requests: object) -> object:
        (home / "shares/local/batchaishare/go").touch()
        until(printed)
        return tail(logs, *requests)

    monkeypatch.setattr(Logs, "tail", tail_of_news)
    chunk = far_place.backend.tail(job, {})["stdout.txt"]
    (hidden,) = chunk.hidden
    assert chunk.data[hidden.start : hidden.end] == b"hunter2"
